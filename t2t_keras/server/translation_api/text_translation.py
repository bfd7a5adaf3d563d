"""Translation of plain text: lines and sentences keep their spacing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from t2t_keras.server.translation_api.sentence_translation import (
    SentenceTranslator,
    join_alternatives,
    with_gaps,
)
from t2t_keras.text.protected_spans import find_spans
from t2t_keras.text.sentence_splitting import split_sentences

# Marker of an item of a list, which text follows.
_MARKER = re.compile(r"\s*+[-*\u2022\u2013]\s++(?=\S)")
_LINE_BREAKS = re.compile(r"[\r\n]++")
_LAST_GAP = re.compile(r".*\S(?P<space>\s++)", re.DOTALL)
# Longer than almost all sentences, shorter than what models take.
MAX_SENTENCE_CHARACTERS = 1_000


@dataclass(frozen=True)
class TextTranslation:
    """Translation of a text.

    Attributes:
        translations: Translations of the whole text, best first; at least one.
        sentences: Source and translation of each sentence, with the spacing after it.
            Joined, they are the text and its best translation.
    """

    translations: list[str]
    sentences: list[tuple[str, str, str]]


def translate_texts(
    texts: Sequence[str],
    language: str,
    translator: SentenceTranslator,
    alternatives: int = 0,
) -> list[TextTranslation]:
    """Returns the translation of each text.

    Args:
        texts: Texts of any length. The end of a line is the end of a sentence.
        language: Language of the texts, whose abbreviations end no sentence.
        translator: Translator of sentences; all texts' sentences come in one call.
        alternatives: Maximum number of alternatives of each text.
    """
    split = [split_text(text, language) for text in texts]
    flat = [sentence for parts in split for sentence, _ in parts]
    translated = iter(translator.translate(flat, alternatives))
    results = []
    for parts in split:
        spaces = [space for _, space in parts]
        hypotheses = with_gaps([next(translated) for _ in parts], spaces)
        results.append(
            TextTranslation(
                join_alternatives(hypotheses, spaces),
                [
                    (sentence, hypothesis[0], space)
                    for (sentence, space), hypothesis in zip(
                        parts, hypotheses, strict=True
                    )
                ],
            )
        )
    return results


def split_text(
    text: str, language: str, lines_end_sentences: bool = True
) -> list[tuple[str, str]]:
    """Returns the sentences of a text, each with the spacing after it.

    Joined, they are the text. Spacing at the start comes with an empty sentence, and so
    does the marker of an item of a list, such as "- ". A sentence of more than
    `MAX_SENTENCE_CHARACTERS` is split, at white space if it has any.

    Args:
        text: Any text.
        language: Code of its language.
        lines_end_sentences: Whether no sentence contains a line break.
    """
    parts: list[tuple[str, str]] = []
    for line, breaks in _split_lines(text) if lines_end_sentences else [(text, "")]:
        marker = _MARKER.match(line) if lines_end_sentences else None
        if marker:
            parts.append(("", marker[0]))
            line = line[marker.end() :]
        for sentence, space in split_sentences(line, language.partition("-")[0]):
            parts += _split_long(sentence, space)
        if breaks:
            last, space = parts.pop() if parts else ("", "")
            parts.append((last, space + breaks))
    return parts


def _split_lines(text: str) -> list[tuple[str, str]]:
    """Returns lines, each with the line breaks after it."""
    lines, start = [], 0
    for breaks in _LINE_BREAKS.finditer(text):
        lines.append((text[start : breaks.start()], breaks[0]))
        start = breaks.end()
    return [*lines, (text[start:], "")]


def _split_long(sentence: str, space: str) -> list[tuple[str, str]]:
    """Returns a sentence in parts that are not too long, at white space if possible."""
    parts, start = [], 0
    spans = find_spans(sentence) if len(sentence) > MAX_SENTENCE_CHARACTERS else []
    while len(sentence) - start > MAX_SENTENCE_CHARACTERS:
        end = start + MAX_SENTENCE_CHARACTERS
        # No placeholder or address is cut.
        for first, last in spans:
            if first < end < last:
                end = first if first > start else last
        gap = _LAST_GAP.search(sentence, start + 1, end)
        first, last = gap.span("space") if gap else (end, end)
        while gap and last < len(sentence) and sentence[last].isspace():
            last += 1
        parts.append((sentence[start:first], sentence[first:last]))
        start = last
    return [*parts, (sentence[start:], space)]
