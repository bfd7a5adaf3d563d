"""Requests whose placeholders, tags and addresses come back unchanged and once each.

Shapes: R layers of the decoder, H heads, T and S subwords of target and source.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import grpc

from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.translation_client import (
    CrossAttention,
    TranslatedText,
    TranslationClient,
)
from t2t_keras.text.protected_text import Links
from t2t_keras.text.word_numbers import default_layer, word_numbers

# An answer has [R, H, T, S] weights for each pair, 0.8 MB with 6 layers of 8 heads.
ATTENTION_BATCH = 4


@dataclass(frozen=True)
class ProtectedCalls:
    """Backend of `translate_protected`, of a server.

    Attributes:
        call: Returns the translations of some texts, whose numbers it is given.
        attention: Returns the attention of pairs of a text and its translation.
    """

    call: Callable[[Sequence[int], Sequence[str | bytes]], list[list[TranslatedText]]]
    attention: Callable[[Sequence[tuple[str, str]]], Sequence[CrossAttention]]

    def translate(
        self, numbers: Sequence[int], texts: Sequence[str | bytes]
    ) -> list[list[TranslatedText]]:
        """Returns the translations of each text."""
        return self.call(numbers, texts)

    def link(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Returns the links of words by the attention of the model."""
        return link_pairs(pairs, self.attention)

    def texts(self, answer: list[TranslatedText]) -> list[str]:
        """Returns the translations in an answer."""
        return [each.text for each in answer]

    def with_texts(
        self, answer: list[TranslatedText], texts: list[str]
    ) -> list[TranslatedText]:
        """Returns an answer with other texts."""
        pairs = zip(answer, texts, strict=True)
        return [replace(each, text=text) for each, text in pairs]


def protected_calls(
    client: TranslationClient,
    call: Callable[[Sequence[int], Sequence[str | bytes]], list[list[TranslatedText]]],
) -> ProtectedCalls:
    """Returns the backend of a client, which asks for the attention of a few pairs."""

    def attention(pairs: Sequence[tuple[str, str]]) -> list[CrossAttention]:
        answers: list[CrossAttention] = []
        for start in range(0, len(pairs), ATTENTION_BATCH):
            sources, targets = zip(*pairs[start : start + ATTENTION_BATCH], strict=True)
            answers += client.attention(sources, targets)
        return answers

    return ProtectedCalls(call, attention)


def link_pairs(
    pairs: Sequence[tuple[str, str]],
    attention: Callable[[Sequence[tuple[str, str]]], Sequence[CrossAttention]],
) -> list[Links]:
    """Returns the links of words of pairs; none from a model without the signature."""
    try:
        return [link_by_attention(each) for each in attention(pairs)]
    except ServerError as error:
        if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
            raise
        return [()] * len(pairs)


def link_by_attention(attention: CrossAttention) -> list[tuple[int, int]]:
    """Returns the source word to which each target word attends most, and its number.

    By all heads of `default_layer`. There is no link if a text was cut.
    """
    if attention.truncated or not attention.weights:
        return []
    heads = attention.weights[default_layer(len(attention.weights)) - 1]
    # Without the ends of sentences, to which words attend that translate nothing.
    sources = word_numbers(attention.source_tokens[:-1])
    targets = word_numbers(attention.target_tokens[:-1])
    links = []
    for word, rows in _rows_of_words(targets):
        sums: dict[int, float] = {}
        for head, row in itertools.product(heads, rows):
            for number, weight in zip(sources, head[row], strict=False):
                if number >= 0:
                    sums[number] = sums.get(number, 0.0) + weight
        if sums and word >= 0:
            links.append((max(sums, key=lambda number: sums[number]), word))
    return links


def _rows_of_words(words: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    for word, rows in itertools.groupby(range(len(words)), words.__getitem__):
        yield word, list(rows)
