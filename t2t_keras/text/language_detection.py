"""Detection of the language of a text, among all that py3langid knows or some."""

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from t2t_keras.text.languages import base_language

# Addresses have no language, or another one.
_ADDRESS = re.compile(r"(?:https?://|www\.)\S++")
# Enough for any language; detection takes time in proportion to the length.
_MAX_CHARACTERS = 5_000
# py3langid gives the languages of few letters, and of none, about the same probability.
_MAX_RESULTS = 3
# What py3langid calls "1a2b3c".
_NO_LANGUAGE = "zxx"


@dataclass(frozen=True)
class Detection:
    """Language of a text.

    Attributes:
        language: Its code.
        confidence: Probability among the candidates in percent; 0 if there is nothing
            to tell it by.
    """

    language: str
    confidence: float

    def as_json(self) -> dict[str, object]:
        """Returns it in LibreTranslate's form."""
        return {"language": self.language, "confidence": self.confidence}


class LanguageDetector:
    """Detector of the language of a text.

    The model is read at the first call, which takes half a second. Threads may share a
    detector.
    """

    def __init__(self) -> None:
        self._read: Any = None
        # The candidates are a state of py3langid's identifier.
        self._lock = threading.Lock()

    @property
    def _identifier(self) -> Any:
        if self._read is None:
            # Of an extra, and reached by programs that need none.
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            self._read = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        return self._read

    def languages(self) -> list[str]:
        """Returns the codes of all languages, sorted."""
        with self._lock:
            return sorted(self._identifier.labels)

    def odds_of_another(self, text: str, language: str) -> float:
        """Returns how many times as probable the likeliest language is as this one.

        1 if this one is the likeliest, or the text has no letters.

        Args:
            text: Text of any length.
            language: A code whose language is among `languages`.
        """
        text = _without_addresses(text)
        if not any(map(str.isalpha, text)):
            return 1.0
        with self._lock:
            ranked = self._identifier.rank(text)
        own = dict(ranked)[base_language(language)]
        return ranked[0][1] / own if own else math.inf

    def detect_other(
        self, text: str, known: Sequence[str], least_confidence: float
    ) -> str | None:
        """Returns the language of a text if it is surely none of some; None if not.

        Args:
            text: Text of any length.
            known: Codes of those languages.
            least_confidence: Least probability among all languages, in percent.
        """
        text = _without_addresses(text)
        if not any(map(str.isalpha, text)):
            return None
        with self._lock:
            language, probability = self._identifier.rank(text)[0]
        is_known = language in (_NO_LANGUAGE, *map(base_language, known))
        is_sure = 100.0 * probability >= least_confidence
        return language if is_sure and not is_known else None

    def detect(self, text: str, candidates: Sequence[str]) -> list[Detection]:
        """Returns the most probable languages, best first; at least one.

        Of languages that are as probable, the first candidate is first.

        Of candidates with the same language, such as zh-Hans and zh-Hant, the first
        one stands for all.

        Args:
            text: Text of any length.
            candidates: Codes, the one for a text without letters first.
        """
        if len(candidates) == 1:
            return [Detection(candidates[0], 100.0)]
        text = _without_addresses(text)
        if not any(map(str.isalpha, text)):
            return [Detection(candidates[0], 0.0)]
        with self._lock:
            identifier = self._identifier
            codes: dict[str, str] = {}
            for code in candidates:
                label = base_language(code)
                if label in identifier.labels:
                    codes.setdefault(label, code)
            if not codes:
                return [Detection(candidates[0], 0.0)]
            identifier.set_languages(list(codes))
            try:
                ranked = identifier.rank(text)
            finally:
                identifier.set_languages(None)
        found = {label: round(100.0 * probability, 1) for label, probability in ranked}
        best = sorted(codes, key=lambda label: -found[label])
        return [Detection(codes[each], found[each]) for each in best[:_MAX_RESULTS]]


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub(" ", text)[:_MAX_CHARACTERS]
