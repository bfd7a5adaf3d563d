"""Lexicons for shortlists: counted from word alignments, written and read as text.

Each line has a target piece, a source piece, and the probability of the target piece
given the source piece. It is the format of Marian, whose files can be used too if they
were counted on pieces of the same vocabulary.
"""

import collections
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_input, open_output
from t2t_keras.input_pipeline.corpora.parallel_text import (
    ParallelText,
    open_parallel_text,
)
from t2t_keras.text.vocabulary import UNK_ID, Vocabulary
from t2t_keras.text.word_alignments import read_aligned
from t2t_keras.text.word_numbers import word_numbers

# Maximum translations of a source piece that are written.
_MOST_CANDIDATES = 100
# Marian's sign for a word without a link.
_NO_WORD = "NULL"

_LEXICON_LINE = re.compile(r"([^ ]+) ([^ ]+) ([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)")

# A target and a source id, as a key of counts.
_PiecePair = tuple[int, int]


def make_shortlist(
    vocabulary: Vocabulary,
    text: tuple[Sequence[str], Sequence[str]],
    alignments: str,
    output: str,
    languages: Sequence[str] = (),
    columns: Sequence[str] = (),
    on_start: Callable[[int], object] = lambda _: None,
    on_progress: Callable[[int], object] = lambda _: None,
) -> str:
    """Counts linked pieces, writes their probabilities, and returns a description.

    Args:
        vocabulary: Vocabulary of the model.
        text: Files of the training text, in the source and in the target language; of
            the source alone if they hold both sides.
        alignments: File with the word alignment of each line, in Pharaoh format.
        output: File to write, or "-".
        languages: Codes of both languages, for files that hold both sides.
        columns: Names of their columns; see `open_parallel_text`.
        on_start: Called once with the number of lines of the text.
        on_progress: Called with the number of lines counted since the last call.

    Raises:
        UserError: If a file cannot be used, the numbers of lines differ, a link is
            outside its sentence, or there is no link.
    """
    _check_joint(vocabulary)
    # Opened first: a path that cannot be written costs no count.
    with open_output(output) as file:
        pairs = open_parallel_text(*text, languages=languages, columns=columns)
        on_start(pairs.report.lines)
        counts = _count_links(pairs, alignments, vocabulary, on_progress)
        if not counts:
            raise UserError(
                f"{alignments} (--alignments) has no link between words, so a "
                "shortlist would be empty. Check that it is the alignment of this text."
            )
        by_source = collections.defaultdict(list)
        for (target_id, source_id), count in counts.items():
            by_source[source_id].append((count, target_id))
        entries = 0
        pieces = vocabulary.pieces(range(vocabulary.size))
        for source_id in sorted(by_source):
            # Likeliest first, and of equals the lower id.
            found = sorted(by_source[source_id], key=lambda each: (-each[0], each[1]))
            total = sum(count for count, _ in found)
            for count, target_id in found[:_MOST_CANDIDATES]:
                probability = count / total
                file.write(
                    f"{pieces[target_id]} {pieces[source_id]} {probability:.8f}\n"
                )
                entries += 1
    return (
        f"shortlist: {entries:,} pairs of pieces, for {len(by_source):,} source pieces "
        f"of a vocabulary of {vocabulary.size:,}, from {counts.total():,} links"
    )


def _count_links(
    text: ParallelText,
    alignments: str,
    vocabulary: Vocabulary,
    on_progress: Callable[[int], object],
) -> collections.Counter[_PiecePair]:
    """Returns how often pieces are in linked words, special ids aside."""
    counts: collections.Counter[_PiecePair] = collections.Counter()
    name = f"{alignments} (--alignments)"
    with open_input(alignments, "alignments") as lines:
        for pair, alignment in read_aligned(text.lines(), lines, name):
            sources = _pieces_of_words(vocabulary.source, pair[0])
            targets = _pieces_of_words(vocabulary, pair[1])
            for source_word, target_word in alignment.sure:
                counts.update(
                    itertools.product(targets[target_word], sources[source_word])
                )
            on_progress(1)
    return counts


def _pieces_of_words(vocabulary: Vocabulary, text: bytes) -> Mapping[int, list[int]]:
    """Returns the ids of the pieces of each word by its number."""
    words = collections.defaultdict(list)
    ids = vocabulary.encode(text)[:-1]  # without EOS
    numbers = word_numbers(vocabulary.marked_pieces(ids))
    for piece_id, word in zip(ids, numbers, strict=True):
        if piece_id > UNK_ID:
            words[word].append(piece_id)
    return words


def read_lexicon(
    path: str | os.PathLike[str], vocabulary: Vocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """Returns candidates and probabilities of each source id, as `Shortlist` has them.

    Args:
        path: A file of `make_shortlist`.
        vocabulary: Vocabulary of the model.

    Raises:
        UserError: If the file cannot be read, is empty or malformed, or has a piece
            that the vocabulary does not have.
    """
    _check_joint(vocabulary)
    every_id = range(vocabulary.size)
    ids = dict(zip(vocabulary.pieces(every_id), every_id, strict=True))
    by_source: list[list[tuple[float, int]]] = [[] for _ in every_id]
    with open_input(os.fspath(path), "shortlist") as lines:
        for target, source, probability in _parse_lexicon(lines, f"{path}", ids):
            by_source[source].append((-probability, target))
    width = max(map(len, by_source))
    if not width:
        raise UserError(
            f"{path} (--shortlist) is empty. python -m t2t_keras.prepare --shortlist "
            "makes one from word alignments."
        )
    candidates = np.zeros((vocabulary.size, width), np.int32)
    probabilities = np.zeros((vocabulary.size, width), np.float32)
    for source, found in enumerate(by_source):
        for column, (negative, target) in enumerate(sorted(found)):
            candidates[source, column] = target
            probabilities[source, column] = -negative
    return candidates, probabilities


def _check_joint(vocabulary: Vocabulary) -> None:
    """Raises `UserError` if the two languages have other pieces."""
    every_id = range(vocabulary.size)
    if vocabulary.source.size != vocabulary.size or (
        vocabulary.source.pieces(every_id) != vocabulary.pieces(every_id)
    ):
        raise UserError(
            "A shortlist needs one vocabulary for both languages, and this imported "
            "model has two. Leave --shortlist out."
        )


def _parse_lexicon(
    lines: Iterable[bytes], path: str, ids: Mapping[str, int]
) -> Iterator[tuple[int, int, float]]:
    """Yields target id, source id and probability of each line."""
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", errors="replace")
        match = _LEXICON_LINE.fullmatch(text)
        if match is None or float(match[3]) > 1.0:
            raise UserError(
                f"Line {number:,} of {path} (--shortlist) must have a target piece, a "
                "source piece and a probability, with a space between. Received: "
                f"{text:.60}"
            )
        target, source, probability = match.groups()
        if _NO_WORD in (target, source):
            continue
        for piece in (target, source):
            if piece not in ids:
                raise UserError(
                    f"{path} (--shortlist) is for another vocabulary: line {number:,} "
                    f"has the piece {piece}, which the model's does not have. Make one "
                    "with python -m t2t_keras.prepare --shortlist --vocabulary_file="
                    "MODEL_DIR/vocabulary.model"
                )
        yield ids[target], ids[source], float(probability)
