"""Work of the API's requests, apart from HTTP: all of it blocks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.server.http.requests import HttpError
from t2t_keras.server.translation_api.attention_links import (
    Alignment,
    Span,
    align_words,
    find_words,
)
from t2t_keras.server.translation_api.backend import GrpcBackend
from t2t_keras.server.translation_api.html_translation import (
    readable_text,
    translate_documents,
)
from t2t_keras.server.translation_api.language_codes import AUTO
from t2t_keras.server.translation_api.language_pairs import LanguagePair, Languages
from t2t_keras.server.translation_api.sentence_translation import SentenceTranslator
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.server.translation_api.text_translation import (
    TextTranslation,
    translate_texts,
)
from t2t_keras.server.translation_api.translate_request import HTML, TranslateRequest
from t2t_keras.server.workers import CancelToken
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.language_detection import Detection, LanguageDetector
from t2t_keras.text.languages import language_name

# Percent. Of few letters the detector knows little, and who asks for a translation of
# a text does not expect to get it back.
_SURE = 90.0


class TranslationService:
    """Translations, detections and alignments of a backend's models.

    Attributes:
        languages: The languages.
    """

    def __init__(self, backend: GrpcBackend, settings: TranslationApiSettings):
        self._backend = backend
        self._settings = settings
        self._detector = LanguageDetector()
        self.languages = Languages(settings.pairs)

    def translate(
        self, request: TranslateRequest, cancelled: CancelToken
    ) -> dict[str, Any]:
        """Returns the answer to a request in LibreTranslate's form.

        Raises:
            HttpError: If there is no such language pair, or HTML is nested too deeply.
            ServerError: If the server of the models fails.
            Cancelled: If `cancelled` was canceled.
        """
        detection = self._source(request)
        source, target = detection.language, request.target
        translator = None
        if source == target:
            # LibreTranslate returns such texts as they are.
            translated = [
                TextTranslation([text], [(text, text, "")]) for text in request.texts
            ]
        else:
            translator = self._translator(
                self._pair(source, target), cancelled, request.protect, request.glossary
            )
            translated = self._translate(request, source, translator)
        answer: dict[str, Any] = {
            "translatedText": [each.translations[0] for each in translated]
        }
        if request.source == AUTO:
            answer["detectedLanguage"] = [detection.as_json()] * len(translated)
        if request.alternatives:
            answer["alternatives"] = [each.translations[1:] for each in translated]
        if request.with_sentences:
            answer["sentences"] = [each.sentences for each in translated]
            answer["confidences"] = (
                [[None] * len(each.sentences) for each in translated]
                if translator is None
                else self._confidences(translated, translator)
            )
        if request.is_batch:
            return answer
        return {name: values[0] for name, values in answer.items()}

    def _confidences(
        self,
        translated: Sequence[TextTranslation],
        translator: SentenceTranslator,
    ) -> list[list[float | None]]:
        """Returns the confidence in each sentence of each text."""
        pairs = [pair[:2] for each in translated for pair in each.sentences]
        confidences = iter(translator.confidences(pairs))
        return [[next(confidences) for _ in each.sentences] for each in translated]

    def check_models(self) -> dict[str, str]:
        """Returns that the API is ready, if every model translates an empty text.

        Raises:
            ServerError: If one does not.
        """
        for pair in {pair.model: pair for pair in self.languages.pairs}.values():
            self._backend.translate(pair, [""])
        return {"status": "ok"}

    def detect(self, texts: Sequence[str]) -> list[dict[str, object]]:
        """Returns the probable languages of some texts, best first."""
        found = self._detector.detect("\n".join(texts), self.languages.codes)
        return [each.as_json() for each in found]

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        source: str,
        target: str,
        cancelled: CancelToken,
    ) -> list[dict[str, Any]]:
        """Returns the words of sentences and of their translations, with weights.

        Raises:
            HttpError: If there is no such language pair.
            ServerError: If the server of the models fails.
            Cancelled: If `cancelled` was canceled.
        """
        translator = self._translator(self._pair(source, target), cancelled)
        attentions = translator.attention(pairs)
        answers = []
        for pair, attention in zip(pairs, attentions, strict=True):
            aligned = align_words(*pair, attention, self._settings.alignment_heads)
            answers.append(_describe(pair, aligned))
        return answers

    def _source(self, request: TranslateRequest) -> Detection:
        if request.source != AUTO:
            return Detection(request.source, 100.0)
        texts: Iterable[str] = request.texts
        if request.text_format == HTML:
            texts = map(readable_text, texts)
        text = "\n".join(texts)
        other = self._detector.detect_other(text, self.languages.codes, _SURE)
        if other is not None:
            raise HttpError(400, f"{other} is not supported")
        candidates = self.languages.candidates(request.target)
        found = self._detector.detect(text, candidates)
        if (
            found[0].language == request.target
            and found[0].confidence < _SURE
            and len(found) > 1
        ):
            return found[1]
        return found[0]

    def _pair(self, source: str, target: str) -> LanguagePair:
        pair = self.languages.pair(source, target)
        if pair is None:
            raise HttpError(
                400,
                f"{language_name(target)} ({target}) is not available as a target "
                f"language from {language_name(source)} ({source})",
            )
        return pair

    def _translator(
        self,
        pair: LanguagePair,
        cancelled: CancelToken,
        protect: bool = False,
        glossary: Glossary | None = None,
    ) -> SentenceTranslator:
        return SentenceTranslator(
            self._backend,
            pair,
            self._settings.batch_size,
            self._settings.concurrency,
            cancelled,
            protect,
            glossary,
        )

    def _translate(
        self, request: TranslateRequest, source: str, translator: SentenceTranslator
    ) -> list[TextTranslation]:
        if request.text_format == HTML:
            documents = translate_documents(
                request.texts, source, translator, self._settings.alignment_heads
            )
            return [TextTranslation([document], []) for document in documents]
        return translate_texts(request.texts, source, translator, request.alternatives)


def _describe(pair: tuple[str, str], alignment: Alignment | None) -> dict[str, Any]:
    """Returns an alignment as JSON: words and the gaps between them, and weights."""
    source, target = pair
    weights_JI = alignment.weights_JI if alignment else None
    return {
        "source": _words_and_gaps(source, find_words(source)),
        "translation": _words_and_gaps(target, find_words(target)),
        "weights": [] if weights_JI is None else np.round(weights_JI, 3).tolist(),
    }


def _words_and_gaps(text: str, words: Sequence[Span]) -> list[str]:
    """Returns gaps and words in turn, a gap first and last."""
    parts, start = [], 0
    for first, last in words:
        parts += text[start:first], text[first:last]
        start = last
    return [*parts, text[start:]]


def frontend_settings(
    settings: TranslationApiSettings, languages: Languages
) -> Mapping[str, Any]:
    """Returns the answer to /frontend/settings."""
    target = languages.pairs[0].target
    has_keys = bool(settings.api_keys_file)
    return {
        "charLimit": settings.char_limit,
        "batchLimit": settings.batch_limit,
        "alternativesLimit": settings.alternatives_limit,
        "requestsPerMinute": settings.requests_per_minute,
        "frontendTimeout": 500,
        "apiKeys": has_keys,
        "keyRequired": has_keys and settings.require_api_key,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": language_name(target)},
        },
    }
