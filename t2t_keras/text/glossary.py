"""Glossary: terms of the source language, and how they are to be translated."""

import bisect
import dataclasses
import operator
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_input
from t2t_keras.text.protected_spans import find_spans, is_spaceless


@dataclasses.dataclass(frozen=True)
class Term:
    """Term of a glossary: its text in both languages."""

    source: str
    target: str


class Glossary:
    """Terms to be looked up in sentences.

    Args:
        terms: Target term of each source term. White space in them is single spaces.

    Raises:
        UserError: If a term is empty, or a source term has two target terms.
    """

    def __init__(self, terms: Mapping[str, str]):
        self._terms: dict[str, Term] = {}
        # Lengths of the terms with a first word, the longest first: a sentence that
        # lacks it costs one lookup for each of its words.
        self._lengths: dict[str, list[int]] = {}
        for source, target in terms.items():
            term = Term(" ".join(source.split()), " ".join(target.split()))
            if not (term.source and term.target):
                raise UserError(
                    "A term of a glossary must have a source and a target. "
                    f"Received: {source!r} and {target!r}"
                )
            if self._terms.setdefault(term.source, term) != term:
                raise UserError(
                    f"A glossary has two translations of {term.source!r}: "
                    f"{self._terms[term.source].target!r} and {term.target!r}. Keep "
                    "one of them."
                )
            first_word = _fold(_word_at(term.source, 0))
            lengths = self._lengths.setdefault(first_word, [])
            if len(term.source) not in lengths:
                bisect.insort(lengths, len(term.source), key=operator.neg)

    @property
    def terms(self) -> list[Term]:
        """The terms."""
        return list(self._terms.values())

    def find(self, text: str | bytes) -> list[Term]:
        """Returns the terms of a sentence, in order; one of each target.

        At each place the longest counts, and none is within another, or within a
        placeholder or an address. A term without capitals may have some in the
        sentence; one with capitals is found as it is. It is whole words, except in
        scripts without spaces.

        Args:
            text: The sentence; bytes are UTF-8, and replaced where they are not.
        """
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        for start, end in reversed(find_spans(text)):
            text = f"{text[:start]}\0{text[end:]}"
        text = " ".join(text.split())
        folded, found, place = _fold(text), {}, 0
        while place < len(text):
            word = _word_at(folded, place)
            term = self._at(text, folded, place, word)
            if term is None:
                place += len(word)
            else:
                found.setdefault(term.target, term)
                place += len(term.source)
        return list(found.values())

    def _at(self, text: str, folded: str, start: int, word: str) -> Term | None:
        """Returns the longest term at a place, where a word begins."""
        for length in self._lengths.get(word, ()):
            end = start + length
            if end <= len(text) and _is_boundary(text, end):
                words = text[start:end], folded[start:end]
                if found := self._terms.get(words[0]) or self._terms.get(words[1]):
                    return found
        return None


def unmet_terms(translation: str, terms: Iterable[Term]) -> tuple[str, ...]:
    """Returns the target terms that a translation does not have.

    Capitals and forms of characters do not count: a vocabulary may not keep them.
    """
    plain = _plain(translation)
    return tuple(term.target for term in terms if _plain(term.target) not in plain)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def read_glossary(path: str | os.PathLike[str]) -> Glossary:
    """Returns the glossary of a file: a source term, a tab and a target term a line.

    Raises:
        UserError: If the file cannot be read, a line is malformed or not UTF-8, or a
            source term has two target terms.
    """
    with open_input(os.fspath(path), "glossary") as lines:
        return parse_glossary(lines, f"{path} (--glossary)")


def parse_glossary(lines: Iterable[bytes], name: str) -> Glossary:
    """Returns the glossary of the lines of a file, which messages call `name`.

    Raises:
        UserError: As `read_glossary`.
    """
    return Glossary(dict(_parse(lines, name)))


def _parse(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, str]]:
    seen: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines, start=1):
        where = f"Line {number:,} of {name}"
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{where} is not text in UTF-8. Convert the file.") from (
                error
            )
        if not text.strip():
            continue
        parts = [" ".join(part.split()) for part in text.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise UserError(
                f"{where} must have a source term, a tab and a target term. Received: "
                f"{text:.60}"
            )
        source, target = parts
        before = seen.setdefault(source, (number, target))
        if before[1] != target:
            raise UserError(
                f"{where} has another translation of {source!r} than line {before[0]:,}"
                f": {target!r} and {before[1]!r}. Keep one of them."
            )
        yield source, target


def _fold(text: str) -> str:
    """Returns a text in lower case, of the same length."""
    return "".join(lower if len(lower := each.lower()) == 1 else each for each in text)


def _word_at(text: str, start: int) -> str:
    """Returns what is between a boundary and the next one; a space is a word too."""
    end = start + 1
    while not _is_boundary(text, end):
        end += 1
    return text[start:end]


def _is_boundary(text: str, place: int) -> bool:
    """Returns whether a word may begin or end at a place."""
    if place in (0, len(text)):
        return True
    before, after = text[place - 1], text[place]
    if is_spaceless(before) or is_spaceless(after):
        return True
    return not (_is_letter(before) and _is_letter(after))


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"
