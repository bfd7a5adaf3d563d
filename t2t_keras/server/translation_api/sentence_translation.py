"""Translation of any number of sentences by one model, in batches that it takes."""

import functools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from unicodedata import east_asian_width

import grpc

from t2t_keras.server.translation_api.backend import GrpcBackend
from t2t_keras.server.translation_api.language_pairs import LanguagePair
from t2t_keras.server.workers import Cancelled, CancelToken
from t2t_keras.serving.client.bulk import in_batches
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.glossaries import translate_with_glossary
from t2t_keras.serving.client.protection import ATTENTION_BATCH, link_pairs
from t2t_keras.serving.client.translation_client import (
    CrossAttention,
    TranslatedText,
)
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.protected_text import Links, rest_of
from t2t_keras.text.protected_translation import translate_protected

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


def is_translatable(text: str) -> bool:
    """Returns whether a text has letters.

    Without them it is left as it is: of numbers, emoji and marks a model makes words.
    """
    return any(character.isalpha() for character in text)


@dataclass(frozen=True)
class SentenceTranslator:
    """Calls of one request to one model. Methods raise `ServerError`.

    Attributes:
        backend: Server of the models.
        pair: The model and its languages.
        batch_size: Maximum number of sentences in a call.
        concurrency: Calls at a time.
        cancelled: Canceled when nobody waits for the result; then methods raise
            `Cancelled` instead of making another call.
        protect: Whether placeholders, tags and addresses come back as they are.
        glossary: Terms that translations must have; None without.
    """

    backend: GrpcBackend
    pair: LanguagePair
    batch_size: int
    concurrency: int
    cancelled: CancelToken
    protect: bool = False
    glossary: Glossary | None = None

    def translate(
        self, sentences: Sequence[str], alternatives: int = 0
    ) -> list[list[str]]:
        """Returns the best translation of each sentence, and alternatives after it.

        With `protect` its placeholders, tags and addresses are in each of them as they
        were, and once.

        Args:
            sentences: Sentences; those without letters stay as they are.
            alternatives: Maximum number of alternatives. A model gives as many as it
                was exported with.
        """
        if not self.protect:
            return self._translate_whole(sentences, alternatives)
        return translate_protected(sentences, _Protection(self, alternatives))

    def _translate_whole(
        self, sentences: Sequence[str], alternatives: int
    ) -> list[list[str]]:
        """Returns the translations of each sentence.

        A sentence that the model would cut is translated in parts, so that no text is
        lost.
        """
        pending = [i for i, text in enumerate(sentences) if is_translatable(text)]
        hypotheses = [[text] for text in sentences]
        cut: list[tuple[int, str]] = []
        halves: list[str] = []
        answers = self._call([sentences[i] for i in pending], alternatives)
        for index, answer in zip(pending, answers, strict=True):
            hypotheses[index] = [each.text for each in answer[: alternatives + 1]]
            if answer[0].truncated and len(sentences[index]) > 1:
                first, space, second = _halve(sentences[index])
                cut.append((index, space))
                halves += first, second
        if cut:
            parts = iter(self._translate_whole(halves, alternatives))
            for index, space in cut:
                spaces = [space, ""]
                both = with_gaps([next(parts), next(parts)], spaces)
                hypotheses[index] = join_alternatives(both, spaces)
        return hypotheses

    def attention(self, pairs: Sequence[tuple[str, str]]) -> list[CrossAttention]:
        """Returns the attention of each pair of a sentence and its translation."""

        batch_size = min(self.batch_size, ATTENTION_BATCH)
        return self._call_with_pairs(self.backend.attention, pairs, batch_size)

    def confidences(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Returns the model's confidence in each translation of a sentence.

        That is the geometric mean of the probabilities of its subwords, from 0 to 1;
        None of a sentence without letters, one that the model would cut, or by a model
        that has no signature for it or does not answer. With `protect` placeholders
        do not count: a model that has never seen them finds them unlikely.
        """
        if self.protect:
            pairs = [(rest_of(source), rest_of(target)) for source, target in pairs]
        pending = [i for i, pair in enumerate(pairs) if all(map(is_translatable, pair))]
        found: list[float | None] = [None] * len(pairs)

        try:
            scores = self._call_with_pairs(
                self.backend.score, [pairs[i] for i in pending], self.batch_size
            )
        except ServerError as error:
            # The translations are there all the same.
            if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
                logger.warning("confidences are not known: %s", error)
            return found
        for index, score in zip(pending, scores, strict=True):
            # The token of a language is given, and has no text.
            count = len([token for token in score.tokens if token])
            if count and not score.truncated:
                found[index] = round(math.exp(score.log_prob / count), 3)
        return found

    def _call(
        self, sentences: Sequence[str], alternatives: int
    ) -> list[list[TranslatedText]]:
        def translate(batch: Sequence[str | bytes]) -> list[list[TranslatedText]]:
            if alternatives:
                return self.backend.translate_n_best(self.pair, batch)
            return [[each] for each in self.backend.translate(self.pair, batch)]

        def call(batch: list[str]) -> list[list[TranslatedText]]:
            self._check()
            if self.glossary is None:
                return translate(batch)
            force = functools.partial(self.backend.force_terms, self.pair)
            return translate_with_glossary(batch, self.glossary, force, translate)

        return list(
            in_batches(
                call,
                sentences,
                batch_size=self.batch_size,
                concurrency=self.concurrency,
                size=len,
            )
        )

    def _call_with_pairs(
        self,
        method: Callable[[LanguagePair, Sequence[str], Sequence[str]], list[Answer]],
        pairs: Sequence[tuple[str, str]],
        batch_size: int,
    ) -> list[Answer]:
        """Returns the backend's answers for pairs of a sentence and its translation."""

        def call(batch: list[tuple[str, str]]) -> list[Answer]:
            self._check()
            sources, targets = zip(*batch, strict=True)
            return method(self.pair, sources, targets)

        return list(
            in_batches(
                call,
                pairs,
                batch_size=batch_size,
                concurrency=self.concurrency,
                size=lambda pair: len(pair[0]) + len(pair[1]),
            )
        )

    def _check(self) -> None:
        if self.cancelled.cancelled:
            raise Cancelled


@dataclass(frozen=True)
class _Protection:
    """Backend of `translate_protected`: a translator of sentences."""

    translator: SentenceTranslator
    alternatives: int

    def translate(
        self, numbers: Sequence[int], texts: Sequence[str | bytes]
    ) -> list[list[str]]:
        """Returns the translations of each sentence."""
        del numbers
        sentences = [str(text) for text in texts]
        return self.translator._translate_whole(sentences, self.alternatives)

    def link(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Links]:
        """Returns the links of words by the attention of the model."""
        return link_pairs(pairs, self.translator.attention)

    def texts(self, answer: list[str]) -> list[str]:
        """Returns the answer."""
        return answer

    def with_texts(self, answer: list[str], texts: list[str]) -> list[str]:
        """Returns the texts."""
        return texts


def join_alternatives(
    parts: Sequence[Sequence[str]], spaces: Sequence[str]
) -> list[str]:
    """Returns the translations of a text from those of its parts, best first.

    The k-th has the k-th translation of each part; the best of a part that has fewer.
    Each is there once.

    Args:
        parts: Translations of each part, best first.
        spaces: What follows each part.
    """
    count = max(map(len, parts), default=1)
    texts = [
        "".join(
            (part[rank] if rank < len(part) else part[0]) + space
            for part, space in zip(parts, spaces, strict=True)
        )
        for rank in range(count)
    ]
    return list(dict.fromkeys(texts))


def with_gaps(parts: Sequence[Sequence[str]], spaces: Sequence[str]) -> list[list[str]]:
    """Returns the translations of a text's parts, with a space where one is missing.

    Sentences of Chinese and Japanese follow one another without a space. Translations
    to a language with spaces would then be one word.
    """
    following = [*(part[0] for part in parts[1:]), ""]
    return [
        [each + _gap(each, space, after) for each in part]
        for part, space, after in zip(parts, spaces, following, strict=False)
    ]


def _gap(translation: str, space: str, following: str) -> str:
    if space or not translation or not following:
        return ""
    both = translation[-1] + following[0]
    wide = any(each.isspace() or east_asian_width(each) in "WF" for each in both)
    return "" if wide else " "


def _halve(sentence: str) -> tuple[str, str, str]:
    """Returns the halves of a text and the white space between them, if any."""
    middle = len(sentence) // 2
    spaces = [i for i in range(1, len(sentence) - 1) if sentence[i].isspace()]
    if not spaces:
        return sentence[:middle], "", sentence[middle:]
    cut = min(spaces, key=lambda i: abs(i - middle))
    return sentence[:cut], sentence[cut], sentence[cut + 1 :]
