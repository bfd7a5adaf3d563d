"""Word alignments: links between words, in Pharaoh format, and from subword weights.

A word is what white space separates, as `normalize` defines it. Links count words from
0, source first.

Shapes: S source pieces, T target pieces, I source words, J target words, R layers of
the decoder, H heads.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.text.normalization import normalize

Link = tuple[int, int]

# "-" is a sure link. Possible ones are written "1p2" by some tools, "1?2" by others.
_LINK = re.compile(r"(\d{1,9})([-p?])(\d{1,9})")
_HEAD = re.compile(r"(\d{1,4})(?::(\d{1,4}))?")


class WordAlignment(NamedTuple):
    """Links of a sentence pair.

    Attributes:
        sure: Links that annotators agree on, or that a system found.
        possible: Further links, which may be there or not.
    """

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


def split_words(text: str | bytes) -> list[str]:
    """Returns the words of a text, without white space."""
    return normalize(text).split()


def format_links(links: Iterable[Link]) -> str:
    """Returns links in Pharaoh format: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in links)


def parse_alignment(line: str | bytes, where: str) -> WordAlignment:
    """Returns the links of a line in Pharaoh format.

    Args:
        line: Links with blanks between: `0-0` is sure, `0p0` and `0?0` are possible.
        where: Name of the line, for the message.

    Raises:
        UserError: If a link is malformed.
    """
    sure, possible = set(), set()
    for text in split_words(line):
        match = _LINK.fullmatch(text)
        if match is None:
            raise UserError(
                f"{where} must have links such as 0-0, the numbers of a source word "
                "and a target word from 0, or 0p0 for one that is only possible. "
                f"Received: {text:.40}"
            )
        links = sure if match[2] == "-" else possible
        links.add((int(match[1]), int(match[3])))
    return WordAlignment(frozenset(sure), frozenset(possible - sure))


def parse_alignments(lines: Iterable[bytes], name: str) -> Iterator[WordAlignment]:
    """Yields the alignment of each line of a file.

    Raises:
        UserError: If a link is malformed.
    """
    for number, line in enumerate(lines, start=1):
        yield parse_alignment(line, f"Line {number:,} of {name}")


def read_aligned(
    pairs: Iterable[tuple[bytes, bytes]], lines: Iterable[bytes], name: str
) -> Iterator[tuple[tuple[bytes, bytes], WordAlignment]]:
    """Yields each pair of a text with its alignment.

    Args:
        pairs: Source and target of each line of the text, empty ones included.
        lines: As many lines of links.
        name: Name of the file of links, for messages.

    Raises:
        UserError: If a link is malformed or outside its sentences, or the numbers of
            lines differ.
    """
    alignments = parse_alignments(lines, name)
    for number, (pair, alignment) in enumerate(
        itertools.zip_longest(pairs, alignments), start=1
    ):
        if pair is None or alignment is None:
            longer = name if pair is None else "the text"
            raise UserError(
                f"Line {number:,} is in {longer} only. {name} must have a line for "
                "each line of the text, empty if no word is aligned."
            )
        check_within(alignment, *pair, where=f"Line {number:,} of {name}")
        yield pair, alignment


def check_within(
    alignment: WordAlignment, source: str | bytes, target: str | bytes, where: str
) -> None:
    """Raises `UserError` if a link is outside the sentences of its pair."""
    if not alignment.sure and not alignment.possible:
        return
    lengths = len(split_words(source)), len(split_words(target))
    for link in sorted(alignment.sure | alignment.possible):
        if link[0] >= lengths[0] or link[1] >= lengths[1]:
            raise UserError(
                f"{where} has the link {format_links([link])}, but the sentences have "
                f"{lengths[0]} and {lengths[1]} words, numbered from 0. Check that the "
                "files are of the same text, source first, and not tokenized."
            )


def link_words(
    weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]
) -> list[Link]:
    """Returns a link for each target word, in order; none without source words.

    It is to the source word of the most weight.
    The weight of a word is the sum over its source pieces and the mean over its target
    pieces, so that the weights of a target word add up to the same as those of a piece.
    Of equal weights the first source word gets the link.

    Args:
        weights: [T, S] float, attention of each target piece; ends of sentences are
            left out.
        source_words: Number of the word of each source piece; a negative one belongs to
            no word.
        target_words: The same of each target piece.
    """
    if max(source_words, default=-1) < 0:
        return []
    sums_TI = np.zeros((len(weights), max(source_words) + 1))
    for piece, word in enumerate(source_words):
        if word >= 0:
            sums_TI[:, word] += weights[:, piece]
    links = []
    for word, group in itertools.groupby(
        range(len(target_words)), target_words.__getitem__
    ):
        mean_I = sums_TI[[*group]].mean(axis=0)
        if word >= 0:
            links.append((int(mean_I.argmax()), word))
    return sorted(links)


def parse_alignment_heads(heads: str) -> tuple[tuple[int, int | None], ...]:
    """Returns layer and head of each item of --alignment_heads, both from 1.

    Args:
        heads: `LAYER:HEAD,...`; `LAYER` alone is all heads of a layer, for which the
            head is None.

    Raises:
        UserError: If an item is malformed, or there is none.
    """
    matches = [_HEAD.fullmatch(item.strip()) for item in str(heads).split(",")]
    if not all(matches):
        raise UserError(
            "--alignment_heads takes LAYER:HEAD, or LAYER for all of its heads, with "
            f"commas between, both from 1: 5:2,5:3 or 5. Received: {heads}"
        )
    parts = [match.groups() for match in matches if match]
    return tuple((int(layer), int(head) if head else None) for layer, head in parts)


def head_shares(heads: str, layers: int, num_heads: int) -> np.ndarray:
    """Returns the share of each head in an alignment's weights, [R, H] float32.

    Args:
        heads: As in `parse_alignment_heads`.
        layers: Number of layers of the decoder.
        num_heads: Number of heads of each.

    Raises:
        UserError: If the model does not have a head, or one is named twice.
    """
    items = parse_alignment_heads(heads)
    counts = np.zeros((layers, num_heads), np.float32)
    for layer, head in items:
        if not (1 <= layer <= layers and (head is None or 1 <= head <= num_heads)):
            raise UserError(
                f"--alignment_heads={heads} names a head that the model lacks: its "
                f"decoder has layers 1 to {layers}, with heads 1 to {num_heads} each."
            )
        counts[layer - 1, slice(None) if head is None else head - 1] += 1
    if counts.max() > 1:
        raise UserError(
            f"--alignment_heads={heads} names a head twice. Name each once."
        )
    return counts / counts.sum()
