"""Text without its protected spans, and their places in its translation.

A model that has never seen a placeholder drops it, or misspells it. So the model
translates the rest of the text, and each span returns to the words between which, or at
which, it was: by links of the words of both sides. White space separates words.
"""

import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence

from t2t_keras.text.protected_spans import (
    Span,
    find_spans,
    is_spaceless,
    is_tag,
    keeps_spans,
    without_spans,
)

# Numbers of a source and of a target word.
Links = Collection[tuple[int, int]]

_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"\w")
_PAIRS = frozenset(
    [
        '""',
        "''",
        "()",
        "[]",
        "«»",
        "»«",
        "“”",
        "„“",
        "``",
        "\u2018\u2019",
        "\u201a\u2018",
    ]
)


@dataclasses.dataclass(frozen=True)
class _Unit:
    """Spans that stay together, with what is between them.

    Attributes:
        text: The text as it was.
        index: Number of words of the rest before it; of a unit at a word, its number.
        side: -1 if it precedes a word without a space, 1 if it follows one, 0 if it is
            between two words or at an end.
        inside_marks: Whether it is between the word and the marks at its end, or at its
            begin.
    """

    text: str
    index: int
    side: int = 0
    inside_marks: bool = False


class ProtectedText:
    """A text with protected spans.

    Attributes:
        rest: The text without them, with single spaces; "" if it has no word.
    """

    def __init__(self, text: str):
        self._text = text
        self._words: list[str] = []
        self._units: list[_Unit] = []
        self._leading = ""
        # Unit that the next words may join, and the marks after it.
        self._open: tuple[int, int, bool] | None = None
        self._marks = ""
        for start, end, spans in _chunks(text):
            if spans:
                self._add_spans(start, end, spans)
            else:
                self._close_unit()
                self._add_word(text[start:end])
        self._close_last_unit()
        self.rest = " ".join(self._words)
        if not _LETTER.search(self.rest):
            self.rest = ""

    def restore(self, translation: str, links: Links = ()) -> str:
        """Returns the translation of the rest with the spans at their places.

        Each span of the text is in it once, and there is no other.

        Args:
            translation: Translation of `rest`; spans in it are removed.
            links: Pairs of a word of `rest` and a word of the translation, from 0.
                Without a link for its words, a unit is placed in proportion.
        """
        if not self.rest:
            return self._text
        clean = translation
        if find_spans(translation):
            clean, links = without_spans(translation), ()
        restored = _insert(clean, self._places(clean, links))
        if keeps_spans(self._text, restored):
            return restored
        spans = [self._text[slice(*span)] for span in find_spans(self._text)]
        return " ".join([clean, *spans])

    def _add_word(self, word: str) -> None:
        self._words.append(self._leading + word)
        self._leading = ""

    def _add_spans(self, start: int, end: int, spans: list[Span]) -> None:
        """Adds what is between two spaces and has protected spans."""
        outside = "".join(_outside(self._text, start, end, spans))
        if not _LETTER.search(outside):
            self._add_marked(start, end, spans)
        elif any(map(is_spaceless, outside)):
            self._add_split(start, end, spans)
        elif all(is_tag(self._text[first:last]) for first, last in spans):
            self._add_tagged(start, end, spans, outside)
        else:
            # Such as file_{n}.txt, or {name}'s.
            word = self._text[start:end]
            marks = len(word) - len(word.rstrip(".,;:!?"))
            self._add_marked(start, end, [(start, max(spans[-1][1], end - marks))])

    def _add_marked(self, start: int, end: int, spans: list[Span]) -> None:
        """Adds spans with marks around them, which belong to the words around them."""
        first, last = spans[0][0], spans[-1][1]
        while (
            start < first
            and last < end
            and self._text[first - 1] + (self._text[last]) in _PAIRS
        ):
            first, last = first - 1, last + 1
        if self._open is not None:
            # What is between two units stays as it is.
            first = self._open[0]
        elif start < first:
            self._leading += self._text[start:first]
        self._open = first, last, bool(self._leading)
        self._marks = self._text[last:end]

    def _close_unit(self) -> None:
        """Adds the open unit.

        Marks after it go to the word before it, if there is one without marks.
        """
        if self._open is None:
            return
        first, last, inside = self._open
        if self._marks and not (self._words and self._words[-1][-1].isalnum()):
            last, self._marks = last + len(self._marks), ""
        if self._marks:
            self._words[-1] += self._marks
            inside = True
        unit = _Unit(self._text[first:last], len(self._words), 0, inside)
        self._units.append(unit)
        self._open, self._marks = None, ""

    def _close_last_unit(self) -> None:
        """Adds the open unit; no word follows it, so marks before it stay with it."""
        if self._open is not None and self._leading:
            first, last, _ = self._open
            self._open = first - len(self._leading), last, False
            self._leading = ""
        self._close_unit()

    def _add_tagged(self, start: int, end: int, spans: list[Span], word: str) -> None:
        """Adds a word with tags around it."""
        self._close_unit()
        letters = [match.start() for match in _LETTER.finditer(word)]
        removed = 0
        for first, last in spans:
            # Place of the tag in the word without tags.
            place = first - start - removed
            removed += last - first
            is_before = place <= letters[0]
            marks = 0 < place if is_before else place < len(word)
            self._units.append(
                _Unit(
                    self._text[first:last],
                    len(self._words),
                    -1 if is_before else 1,
                    marks,
                )
            )
        self._add_word(word)

    def _add_split(self, start: int, end: int, spans: list[Span]) -> None:
        """Adds a text of a script without spaces: its parts are words."""
        self._close_unit()
        parts = _outside(self._text, start, end, spans)
        for part, span in zip(parts, [*spans, None], strict=True):
            if part:
                self._add_word(part)
            if span:
                unit = _Unit(self._text[slice(*span)], len(self._words))
                self._units.append(unit)

    def _places(self, translation: str, links: Links) -> list[tuple[int, str]]:
        """Returns the offset of each unit in the translation, and its text."""
        targets = [match.span() for match in _WORD.finditer(translation)]
        placer = _Placer(translation, targets, len(self._words), links)
        places, opened = [], {}
        for unit in self._units:
            offset = placer.offset(unit)
            name = unit.text.strip("</>").split(" ")[0]
            if unit.text.startswith("</"):
                # A closing tag is not before its opening one.
                opening = opened.pop(name, 0)
                if offset < opening:
                    offset = placer.word_end(opening)
            elif is_tag(unit.text) and unit.side == -1:
                opened[name] = offset
            text = unit.text
            if unit.side == 0 and translation:
                text = f"{text} " if placer.begins_word(offset) else f" {text}"
            places.append((offset, text))
        return places


def rest_of(text: str) -> str:
    """Returns what a model translates of a text: all but its protected spans."""
    return ProtectedText(text).rest if find_spans(text) else text


@dataclasses.dataclass(frozen=True)
class _Placer:
    """Places in a translation.

    Attributes:
        text: The translation.
        words: Start and end of its words.
        count: Number of source words.
        links: Pairs of a source and a target word.
    """

    text: str
    words: Sequence[Span]
    count: int
    links: Links

    def offset(self, unit: _Unit) -> int:
        """Returns where in the text a unit is inserted."""
        if not self.words:
            return 0
        if unit.side == 0:
            return self._offset_between(unit)
        linked = [
            target
            for source, target in self.links
            if source == unit.index and target < len(self.words)
        ]
        own = unit.index * len(self.words) // max(1, self.count)
        number = (min if unit.side < 0 else max)(linked or [own])
        return self._edge(number, unit.side, unit.inside_marks)

    def begins_word(self, offset: int) -> bool:
        """Returns whether a place is directly before a letter or a mark of a word."""
        return offset == 0 or any(
            first <= offset < last and not _LETTER.search(self.text[first:offset])
            for first, last in self.words
        )

    def word_end(self, offset: int) -> int:
        """Returns the end of the word at an offset."""
        return min((end for _, end in self.words if end > offset), default=offset)

    def _offset_between(self, unit: _Unit) -> int:
        if unit.index == 0:
            return self._edge(0, -1, unit.inside_marks)
        if unit.index == self.count:
            return self._edge(len(self.words) - 1, 1, unit.inside_marks)
        expected = unit.index * len(self.words) / self.count
        linked = set(self.links)

        def rank(gap: int) -> tuple[float, float]:
            after = (unit.index - 1, gap - 1) in linked
            before = (unit.index, gap) in linked
            # Between the same two words in the other order.
            turned = (unit.index - 1, gap) in linked and (unit.index, gap - 1) in linked
            return max(after + before, 1.5 * turned), -abs(gap - expected)

        gap = max(range(len(self.words) + 1), key=rank)
        if gap == 0:
            return self._edge(0, -1, False)
        return self._edge(gap - 1, 1, unit.inside_marks)

    def _edge(self, number: int, side: int, inside_marks: bool) -> int:
        """Returns the start (side -1) or end of a word, or of its letters."""
        first, last = self.words[number]
        letters = [match.start() for match in _LETTER.finditer(self.text, first, last)]
        if not inside_marks or not letters:
            return first if side < 0 else last
        return letters[0] if side < 0 else letters[-1] + 1


def _insert(text: str, places: Sequence[tuple[int, str]]) -> str:
    """Returns a text with others inserted, in their order where offsets are equal."""
    output, start = [], 0
    for offset, inserted in sorted(places, key=lambda place: place[0]):
        output += text[start:offset], inserted
        start = offset
    return "".join([*output, text[start:]])


def _chunks(text: str) -> Iterator[tuple[int, int, list[Span]]]:
    """Yields start, end and protected spans of what is between spaces.

    White space in a span separates nothing.
    """
    spans = find_spans(text)
    covered = list(text)
    for first, last in spans:
        covered[first:last] = "x" * (last - first)
    number = 0
    for match in _WORD.finditer("".join(covered)):
        own = []
        while number < len(spans) and spans[number][0] < match.end():
            own.append(spans[number])
            number += 1
        yield *match.span(), own


def _outside(text: str, start: int, end: int, spans: Sequence[Span]) -> list[str]:
    """Returns the parts of a text before, between and after spans."""
    bounds = [start, *(edge for span in spans for edge in span), end]
    return [
        text[first:last] for first, last in zip(bounds[::2], bounds[1::2], strict=True)
    ]
