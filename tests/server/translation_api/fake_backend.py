"""Fake models in this process: each word of a translation says which word it is of."""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from t2t_keras.server.translation_api.language_pairs import LanguagePair
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.serving.client.translation_client import (
    CrossAttention,
    TargetScore,
    TranslatedText,
)

EN_DE = (LanguagePair("translate", "en", "de"),)
THREE_PAIRS = (
    *EN_DE,
    LanguagePair("back", "de", "en"),
    LanguagePair("latin", "fr", "pt-BR"),
)
N_BEST = 3


def settings(pairs=EN_DE, **changes) -> TranslationApiSettings:
    return TranslationApiSettings(pairs=pairs, **changes)


def wait_until(condition, seconds: float = 60.0) -> None:
    """Returns as soon as a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def translate_words(text: str) -> str:
    """Returns the words in reverse order, each with a "+" at its begin."""
    return " ".join(f"+{word}" for word in reversed(text.split()))


class FakeBackend:
    """Translates by `translate_words`; the n-th alternative has n "'" at its end.

    Attributes:
        calls: Model, method and sentences of each call.
        error: Raised by each call if it is set.
        max_words: Longer sentences are cut.
        hold: Set; a test that clears it makes calls wait.
    """

    def __init__(self):
        self.calls: list[tuple[str, str, tuple[str, ...]]] = []
        self.error: Exception | None = None
        self.max_words = 1_000
        self.hold = threading.Event()
        self.hold.set()

    def translate(
        self, pair: LanguagePair, sentences: Sequence[str]
    ) -> list[TranslatedText]:
        self._call(pair.model, "translate", sentences)
        return [self._translated(sentence) for sentence in sentences]

    def translate_n_best(
        self, pair: LanguagePair, sentences: Sequence[str]
    ) -> list[list[TranslatedText]]:
        self._call(pair.model, "n_best", sentences)
        return [
            [
                TranslatedText(best.text + "'" * rank, best.score, best.truncated)
                for rank in range(N_BEST)
            ]
            for best in map(self._translated, sentences)
        ]

    def force_terms(
        self,
        pair: LanguagePair,
        sentences: Sequence[str | bytes],
        terms: Sequence[Sequence[str]],
    ) -> list[list[TranslatedText]]:
        """Terms are added at the end; a question has no translation with them."""
        pairs = list(zip(map(str, sentences), terms, strict=True))
        self._call(pair.model, "terms", [f"{each}|{'|'.join(t)}" for each, t in pairs])
        return [
            [TranslatedText("", 0.0)]
            if "?" in sentence
            else [
                replace(best, text=" ".join([best.text, *wanted]) + "'" * rank)
                for rank in range(N_BEST)
            ]
            for sentence, wanted in pairs
            for best in [self._translated(sentence)]
        ]

    def attention(
        self, pair: LanguagePair, sources: Sequence[str], targets: Sequence[str]
    ) -> list[CrossAttention]:
        """Each word attends to its own source word, by two heads of two layers."""
        self._call(pair.model, "attention", sources)
        return [
            CrossAttention((), (), [], truncated=True)
            if len(source.split()) > self.max_words
            else _attend(source, target)
            for source, target in zip(sources, targets, strict=True)
        ]

    def score(
        self, pair: LanguagePair, sources: Sequence[str], targets: Sequence[str]
    ) -> list[TargetScore]:
        """Each word of a translation has probability 0.9, of a question 0.1."""
        self._call(pair.model, "score", sources)
        scores = []
        for source, target in zip(sources, targets, strict=True):
            tokens = (*target.split(), "</s>")
            each = math.log(0.1 if "?" in source else 0.9)
            total = each * len(tokens)
            scores.append(
                TargetScore(total, total, tokens, (each,) * len(tokens), False)
            )
        return scores

    def sentences(self, method: str = "translate") -> list[str]:
        """Returns all sentences that a method was called with."""
        return [each for call in self.calls if call[1] == method for each in call[2]]

    def _translated(self, sentence: str) -> TranslatedText:
        words = sentence.split()
        kept = " ".join(words[: self.max_words])
        return TranslatedText(translate_words(kept), -1.0, len(words) > self.max_words)

    def _call(self, model: str, method: str, sentences: Sequence[str]) -> None:
        self.calls.append((model, method, tuple(sentences)))
        assert self.hold.wait(60)
        if self.error:
            raise self.error


def _attend(source: str, target: str) -> CrossAttention:
    pieces = [
        (*(f"\u2581{word}" for word in text.split()), "</s>")
        for text in (source, target)
    ]
    last = len(pieces[0]) - 1
    weights = [
        [float(column == (last - 1 - row if row < last else last))
         for column in range(len(pieces[0]))]
        for row in range(len(pieces[1]))
    ]  # fmt: skip
    other = [[1.0, *[0.0] * last] for _ in pieces[1]]
    # The heads of the last of two layers align by default.
    return CrossAttention(*pieces, [[other, other], [weights, weights]])
