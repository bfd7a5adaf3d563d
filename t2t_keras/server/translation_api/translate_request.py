"""Request to translate: its fields, checked in LibreTranslate's order and words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.server.http.requests import HttpError
from t2t_keras.server.translation_api.language_codes import AUTO
from t2t_keras.server.translation_api.language_pairs import Languages
from t2t_keras.server.translation_api.request_fields import invalid, missing
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.text.glossary import Glossary, parse_glossary

TEXT, HTML = "text", "html"
_WRONG_TEXT = "a string or a list of strings"


@dataclass(frozen=True)
class TranslateRequest:
    """Texts to translate.

    Attributes:
        texts: The texts.
        is_batch: Whether they came as a list, and are returned as one.
        source: Served code of their language; `AUTO` to detect it.
        target: Served code of the language to translate to.
        text_format: `TEXT` or `HTML`.
        alternatives: Maximum number of alternatives of each text.
        with_sentences: Whether the sentences are returned one by one as well.
        protect: Whether placeholders, tags and addresses are returned as they are.
        glossary: Terms that the translations must have; None without.
    """

    texts: tuple[str, ...]
    is_batch: bool
    source: str
    target: str
    text_format: str
    alternatives: int
    with_sentences: bool
    protect: bool
    glossary: Glossary | None


def parse_texts(
    fields: Mapping[str, Any], settings: TranslationApiSettings, name: str = "q"
) -> tuple[str, ...]:
    """Returns the texts of a field that has one or a list of them.

    Raises:
        HttpError: If it is missing, something else, or beyond a limit.
    """
    value = fields.get(name)
    if value in ("", [], None):
        raise missing(name)
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise invalid(name, _WRONG_TEXT)
    if isinstance(value, list):
        _check_size(len(texts), settings.batch_limit)
    for text in texts:
        _check_size(len(text), settings.char_limit)
    return tuple(texts)


def parse_translate(
    fields: Mapping[str, Any], settings: TranslationApiSettings, languages: Languages
) -> TranslateRequest:
    """Returns the request of some fields.

    Raises:
        HttpError: If a field is missing or invalid, or beyond a limit.
    """
    texts = parse_texts(fields, settings)
    source, target = _text(fields, "source"), _text(fields, "target")
    alternatives = _number(fields, "alternatives")
    limit = settings.alternatives_limit
    if limit != -1 and alternatives > limit:
        raise HttpError(
            400, f"Invalid request: alternatives parameter must be <= {limit}"
        )
    text_format = fields.get("format") or TEXT
    if source.lower() != AUTO:
        source = _served(source, languages)
    target = _served(target, languages)
    if text_format not in (TEXT, HTML):
        raise HttpError(400, f"{text_format} format is not supported")
    return TranslateRequest(
        texts,
        isinstance(fields["q"], list),
        AUTO if source.lower() == AUTO else source,
        target,
        text_format,
        alternatives,
        fields.get("sentences") in (True, "true", "1"),
        _switch(fields, "protect", settings.protect),
        _parse_glossary(fields, settings),
    )


def _parse_glossary(
    fields: Mapping[str, Any], settings: TranslationApiSettings
) -> Glossary | None:
    """Returns the glossary of a request: an object, or the text of a file."""
    value = fields.get("glossary")
    if value in ("", {}, None):
        return None
    try:
        if isinstance(value, str):
            _check_size(len(value), settings.char_limit)
            lines = (line.encode() for line in value.split("\n"))
            return parse_glossary(lines, "the glossary")
        if isinstance(value, dict) and all(map(_is_text, value.values())):
            size = sum(map(len, [*value, *value.values()]))
            _check_size(size, settings.char_limit)
            return Glossary(value)
    except UserError as error:
        raise HttpError(400, f"Invalid request: {error}") from error
    raise invalid("glossary", "an object of strings, or lines of terms with tabs")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check_size(size: int, limit: int) -> None:
    """Raises `HttpError` if a number of characters or texts exceeds a limit, not -1."""
    if limit != -1 and size > limit:
        raise HttpError(
            400, f"Invalid request: request ({size}) exceeds text limit ({limit})"
        )


def parse_pair(fields: Mapping[str, Any], languages: Languages) -> tuple[str, str]:
    """Returns the served codes of the fields `source` and `target`.

    Raises:
        HttpError: If one is missing or not served.
    """
    source, target = _text(fields, "source"), _text(fields, "target")
    return _served(source, languages), _served(target, languages)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not value:
        raise missing(name)
    if not isinstance(value, str):
        raise invalid(name, "a string")
    return value


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    # True is 1, as in LibreTranslate.
    if not isinstance(value, int | str | float):
        raise invalid(name, "a number")
    try:
        return max(0, int(value))
    except (ValueError, OverflowError) as error:
        raise invalid(name, "a number") from error


def _switch(fields: Mapping[str, Any], name: str, default: bool) -> bool:
    value = fields.get(name, default)
    if value in ("true", "1", "false", "0"):
        return value in ("true", "1")
    if not isinstance(value, bool):
        raise invalid(name, "true or false")
    return value


def _served(code: str, languages: Languages) -> str:
    found = languages.find(code)
    if found is None:
        raise HttpError(400, f"{code} is not supported")
    return found
