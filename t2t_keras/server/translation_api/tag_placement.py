"""Inline tags of a sentence, put into its translation by word alignment.

Each element becomes one span of the translation: that with the most words which are
linked to its own words, and the fewest others, each weighed by its attention to them.
Spans nest as the elements do, so that well-formed HTML stays so.

Positions are numbers of words of the translation; position J is its end.
"""

import bisect
import html
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from t2t_keras.server.translation_api.attention_links import Alignment, Span
from t2t_keras.server.translation_api.html_runs import Node


@dataclass
class Element:
    """Element, or part of one, in a sentence.

    Attributes:
        node: The element in its run.
        words: First and last source word in it, as a range; empty for none.
        starts: Whether its start tag is put into this sentence. Otherwise it is before.
        ends: Whether its end tag is put into this sentence.
        after: Whether it is without words, and follows one without a space.
        children: Elements in it, in order.
    """

    node: Node
    words: range
    starts: bool = True
    ends: bool = True
    after: bool = False
    children: list["Element"] = field(default_factory=list)


@dataclass(frozen=True)
class _Placed:
    element: Element
    first: int
    last: int


def elements_of_sentence(
    nodes: Sequence[Node], sentence: Span, between: Span, words: Sequence[Span]
) -> list[Element]:
    """Returns the elements whose tags go into a sentence.

    Those around the whole sentence, and before and after it, stay where they are.

    Args:
        nodes: Elements of the run.
        sentence: Start and end of the sentence in the run's text.
        between: End of the sentence before, and start of the next one.
        words: Source words, as offsets from the start of the sentence.
    """
    start, end = sentence
    elements = []
    # Nodes are in order. A run may have very many, and as many sentences.
    number = bisect.bisect_right(nodes, start, key=lambda node: node.end)
    for node in itertools.islice(nodes, number, None):
        if node.start >= end:
            break
        if node.start <= start and node.end >= end:
            elements += elements_of_sentence(node.children, sentence, between, words)
        else:
            # White space between two sentences belongs to either.
            starts = node.opened and node.start >= between[0]
            ends = node.closed and node.end <= between[1]
            inner = (
                _all_elements(node.children, start, words)
                if starts and ends
                else elements_of_sentence(node.children, sentence, between, words)
            )
            own = _words_of(node, start, words)
            after = _is_after(node, start, own, words)
            elements.append(Element(node, own, starts, ends, after, inner))
    return elements


def _all_elements(
    nodes: Sequence[Node], start: int, words: Sequence[Span]
) -> list[Element]:
    elements = []
    for node in nodes:
        own = _words_of(node, start, words)
        after = _is_after(node, start, own, words)
        inner = _all_elements(node.children, start, words)
        elements.append(Element(node, own, after=after, children=inner))
    return elements


def _words_of(node: Node, start: int, words: Sequence[Span]) -> range:
    """Returns the words that an element has, or the place of one without words."""
    first = bisect.bisect_right(words, node.start - start, key=lambda word: word[1])
    last = bisect.bisect_left(words, node.end - start, key=lambda word: word[0])
    return range(first, max(first, last) if node.end > node.start else first)


def _is_after(node: Node, start: int, own: range, words: Sequence[Span]) -> bool:
    """Returns whether an element without words follows a word without a space."""
    number = own.start - 1
    return (
        node.start == node.end and number >= 0 and words[number][1] + start == node.end
    )


def place_tags(
    source: str, translation: str, elements: Sequence[Element], alignment: Alignment
) -> str:
    """Returns a translation as HTML, with the tags of `elements_of_sentence`."""
    placer = _Placer(source, translation, alignment)
    count = len(alignment.target)
    return placer.render(elements, (0, count), (0, len(translation)))


class _Placer:
    def __init__(self, source: str, translation: str, alignment: Alignment):
        self._source = source
        self._text = translation
        self._words = alignment.target
        self._alignment = alignment

    def render(
        self, elements: Sequence[Element], positions: Span, characters: Span
    ) -> str:
        """Returns part of the translation with some elements in it."""
        output, start = [], characters[0]
        for placed in self._place(elements, *positions):
            first, last = self._characters(placed, (start, characters[1]))
            output.append(escape_text(self._text[start:first]))
            element = placed.element
            output.append(element.node.opening if element.starts else "")
            inside = placed.first, placed.last
            output.append(self.render(element.children, inside, (first, last)))
            output.append(element.node.closing if element.ends else "")
            start = last
        return "".join([*output, escape_text(self._text[start : characters[1]])])

    def _characters(self, placed: _Placed, around: Span) -> Span:
        """Returns start and end of an element in the text of the translation."""
        first, last = placed.first, placed.last
        if first == last:
            if placed.element.after and first:
                start = self._words[first - 1][1]
            else:
                start = self._words[first][0] if first < len(self._words) else around[1]
            end = start = min(max(start, around[0]), around[1])
        else:
            start, end = self._words[first][0], self._words[last - 1][1]
        if not placed.element.starts:
            start = around[0]
        if not placed.element.ends:
            end = around[1]
        return start, max(start, end)

    def _place(self, elements: Sequence[Element], low: int, high: int) -> list[_Placed]:
        """Returns the elements of one level, in the order of the translation."""
        free = [True] * (high - low)
        placed: list[tuple[int, int, int, Element]] = []

        def put(number: int, element: Element, first: int, last: int) -> None:
            free[first - low : last - low] = [False] * (last - first)
            placed.append((first, last, number, element))

        # Elements that reach an end of the sentence first: the others are between.
        between = low, high
        order = sorted(
            enumerate(elements), key=lambda item: item[1].starts and item[1].ends
        )
        for number, element in order:
            if element.words or not (element.starts and element.ends):
                first, last = self._best_span(element, free, low, between)
                put(number, element, first, last)
                if not element.starts:
                    between = last, between[1]
                elif not element.ends:
                    between = between[0], first
        # Span around each position that is inside of one.
        inside: dict[int, Span] = {
            at: (first, last)
            for first, last, _, _ in placed
            for at in range(first + 1, last)
        }
        for number, element in order:
            if not element.words and element.starts and element.ends:
                at = self._best_point(element, inside, between)
                put(number, element, at, at)
        # An element without words is before the words at its position, and one
        # that reached the start before all others.
        placed.sort(key=lambda each: (each[3].starts, each[0], each[1], each[2]))
        return [_Placed(element, first, last) for first, last, _, element in placed]

    def _best_span(
        self, element: Element, free: list[bool], low: int, between: Span
    ) -> Span:
        """Returns the span of an element, among free positions between two.

        `free` says whether each position is free, from `low` on.
        """
        first, last = between
        if not element.starts:
            return self._prefix(element, first, last)
        if not element.ends:
            return self._suffix(element, first, last)
        gains = self._gains(element)
        best, span, score = 0.0, None, 0.0
        for position in range(*between):
            if not free[position - low] or score < 0:
                score, first = 0.0, position
            if not free[position - low]:
                first = position + 1
                continue
            score += gains[position]
            if score > best:
                best, span = score, (first, position + 1)
        if span is None:
            return self._strongest(element, free, low, between)
        return self._without_last_marks(element, *span)

    def _gains(self, element: Element) -> list[float]:
        """Returns what each word of the translation adds to the score of a span.

        It is the share of its attention to the element's words for one that is linked
        to them, and minus the share to others for another. With the links alone, a
        word that attends a little more to an element than to its own source would
        count as much as the right one.
        """
        shares = self._alignment.shares_on(element.words)
        is_linked = self._alignment.is_linked(element.words)
        return np.where(is_linked, shares, shares - 1.0).tolist()

    def _without_last_marks(self, element: Element, first: int, last: int) -> Span:
        """Returns a span without the sentence's last marks if the element has none.

        A full stop often attends to the word before it.
        """
        last_source = self._alignment.source[element.words.stop - 1]
        if last == len(self._words) and not _is_mark(self._source, last_source):
            while last - 1 > first and _is_mark(self._text, self._words[last - 1]):
                last -= 1
        return first, last

    def _prefix(self, element: Element, low: int, high: int) -> Span:
        """Returns the span of an element that began before the sentence."""
        scores = self._sums(element, range(low, high))
        return low, low + scores.index(max(scores))

    def _suffix(self, element: Element, low: int, high: int) -> Span:
        """Returns the span of an element that ends after the sentence."""
        scores = self._sums(element, range(high - 1, low - 1, -1))
        return high - scores.index(max(scores)), high

    def _sums(self, element: Element, positions: range) -> list[float]:
        """Returns the sums of gains, of each number of positions."""
        gains = self._gains(element)
        return list(itertools.accumulate((gains[at] for at in positions), initial=0.0))

    def _strongest(
        self, element: Element, free: list[bool], low: int, between: Span
    ) -> Span:
        """Returns the free word with the most weight on an element's words."""
        positions = [each for each in range(*between) if free[each - low]]
        if not positions:
            return between[1], between[1]
        own = self._alignment.weights_on(element.words)
        best = max(positions, key=lambda each: own[each])
        return best, best + 1

    def _best_point(
        self, element: Element, inside: Mapping[int, Span], between: Span
    ) -> int:
        """Returns the position of an element without words, outside all spans."""
        low, high = between
        after = int(element.after)
        word = element.words.start - after
        if word >= len(self._alignment.source) or low == high:
            return high
        weights_J = self._alignment.weights_on(range(word, word + 1))[low:high]
        # Of several words that are linked to one, the last.
        at = high - weights_J[::-1].argmax() if after else low + weights_J.argmax()
        at = int(at)
        return inside.get(at, (at, at))[after]


def _is_mark(text: str, word: Span) -> bool:
    """Returns whether a word has neither letters nor digits."""
    return not any(map(str.isalnum, text[slice(*word)]))


def escape_text(text: str) -> str:
    """Returns a text as HTML. A no-break space stays visible as one."""
    return html.escape(text, quote=False).replace("\u00a0", "&nbsp;")
