"""Tokenized corpus: sentence pairs as token ids, by number, in memory or on disk.

In memory it is two flat arrays of ids with the offset of each sentence; records have
the same on disk (`manifest.py`). NumPy gathers a batch in well under a millisecond.
`tokenize_corpus` encodes text into memory, which a small corpus needs at each start.

Shapes: N pairs.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.text.vocabulary import Vocabulary

if TYPE_CHECKING:  # processes that encode records start without it
    import tensorflow as tf

TokenRows: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Ids of rows end to end, and the length of each row."""
LinePairs: TypeAlias = tuple[list[bytes], list[bytes]]
"""Text of consecutive pairs: the sources, and the same number of targets."""
# Crossing from the graph to Python costs as much for a thousand lines as for one.
_LINES_PER_CALL = 1024


@dataclasses.dataclass(frozen=True)
class TokenizationReport:
    """Numbers of pairs kept and dropped, which add up to those that were read.

    Tokens include the end of sentence.
    """

    pairs_kept: int = 0
    dropped_over_long: int = 0
    dropped_empty: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    dropped_by_filters: int = 0

    def __add__(self, other: "TokenizationReport") -> "TokenizationReport":
        """Returns the report of both parts of a corpus."""
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return TokenizationReport(*(a + b for a, b in zip(mine, theirs, strict=True)))

    @property
    def pairs_dropped(self) -> int:
        """Number of pairs that were read and are not kept."""
        return self.dropped_over_long + self.dropped_empty + self.dropped_by_filters

    def left_out(self, max_length: int) -> str:
        """Returns the number of pairs left out for each reason, and of all."""
        return (
            f"{self.dropped_over_long:,} pairs longer than {max_length} tokens, "
            f"{self.dropped_empty:,} with an empty side, {self.dropped_by_filters:,} "
            f"rejected by filters, of {self.pairs_kept + self.pairs_dropped:,}"
        )

    def check_any_left(self, max_length: int) -> None:
        """Raises `UserError` if no pair is left to train on."""
        if not self.pairs_kept:
            advice = "Check"
            if self.dropped_over_long:
                advice = "Raise --max_length, or check"
            raise UserError(
                f"No sentence pair is left: {self.left_out(max_length)}. "
                f"{advice} the corpus: each line must have text on both "
                "sides."
            )


class Rows(Protocol):
    """Rows of numbers, by number of the pair that they belong to."""

    def gather(self, indices: np.ndarray) -> TokenRows:
        """Returns the given rows end to end, and their lengths.

        Args:
            indices: [n] int64, each in [0, N), in any order.

        Returns:
            [all tokens] ids, and [n] int64 lengths.
        """
        ...


class Sentences(Rows, Protocol):
    """Sentences of one language, by number."""

    @property
    def lengths(self) -> np.ndarray:
        """[N] integers: tokens of each, end of sentence included."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedSide:
    """Sentences of one language in memory, end to end; or other rows of numbers."""

    tokens: np.ndarray
    """[all tokens] uint16 or int32; a sentence ends with EOS_ID."""
    offsets: np.ndarray
    """[N + 1] int64: sentence i is `tokens[offsets[i]:offsets[i + 1]]`."""

    @property
    def lengths(self) -> np.ndarray:
        """[N] int32 tokens of each, end of sentence included."""
        return np.diff(self.offsets).astype(np.int32)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Sentences.gather`."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        return self.tokens[token_positions(starts, lengths)], lengths


@dataclasses.dataclass(frozen=True)
class KeptText:
    """Text of the pairs of a corpus, to segment it again (ADR 0028)."""

    open_lines: Callable[[], Iterator[LinePairs]]
    """Yields the text of the pairs, in their order, about a thousand at a time."""
    prefix: tuple[int, ...] = ()
    """Ids before each source: a tag."""


class SentencePairs(Protocol):
    """Sentence pairs as ids, by number."""

    @property
    def source(self) -> Sentences:
        """The sources."""
        ...

    @property
    def target(self) -> Sentences:
        """The targets."""
        ...

    @property
    def links(self) -> Rows | None:
        """Links of the tokens of each pair, as `TokenLinks` has them; None for none."""
        ...

    def pair_lengths(self, indices: np.ndarray) -> np.ndarray:
        """Returns source and target lengths [n, 2] of the given pairs."""
        ...


class CountedPairs(SentencePairs, Protocol):
    """Sentence pairs whose numbers are known."""

    @property
    def report(self) -> TokenizationReport:
        """Numbers of pairs kept and dropped, and of tokens."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """Sentence pairs as ids: neither side empty, neither over the limit."""

    source: Sentences
    target: Sentences
    report: TokenizationReport
    texts: tuple[KeptText, ...] = ()
    """Text of the pairs, one for each part of a mixture; empty if it is not kept."""
    links: Any = None
    """Links of the tokens of each pair, a `TokenLinks`; None for none."""
    is_kept: np.ndarray | None = None
    """[pairs of text] bool, which pairs of its text it has; None if not known."""
    mapped: Any = None
    """The same pairs on disk, a `MappedPairs`; None for pairs in memory."""
    counts: Any = None
    """Number of pairs of each length, a `LengthCounts`; None if not known."""

    def __len__(self) -> int:
        return self.report.pairs_kept

    def read(self, begin: int, end: int) -> np.ndarray:
        """Returns source and target lengths [end - begin, 2] of a range of pairs."""
        if self._is_on_disk:
            return self.mapped.read(begin, end)
        return self.lengths[begin:end]

    @property
    def _is_on_disk(self) -> bool:
        """Whether the lengths are on disk, and not also in memory."""
        return self.mapped is not None and "lengths" not in vars(self)

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns source and target ids of one pair, each with EOS_ID last."""
        one = np.array([index])
        return self.source.gather(one)[0], self.target.gather(one)[0]

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """[N, 2] int32: source and target length, end of sentence included."""
        lengths_N2 = np.empty([len(self), 2], np.int32)
        lengths_N2[:, 0] = self.source.lengths
        lengths_N2[:, 1] = self.target.lengths
        return lengths_N2

    def pair_lengths(self, indices: np.ndarray) -> np.ndarray:
        """Returns source and target lengths [n, 2] of the given pairs."""
        if self._is_on_disk:
            return self.mapped.gather(indices)
        return self.lengths[indices]


def token_positions(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the positions of the tokens of some sentences in turn, [tokens] int64.

    Args:
        starts: [n] integers, position of the first token of each sentence.
        lengths: [n] int64.

    >>> token_positions(np.array([7, 2]), np.array([3, 1]))
    array([7, 8, 9, 2])
    """
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedChunk:
    """Consecutive pairs as token ids, without the dropped ones."""

    tokens: tuple[np.ndarray, np.ndarray]
    """Source and target ids of the pairs kept, end to end."""
    lengths: np.ndarray
    """[kept, 2] int32."""
    report: TokenizationReport
    is_kept: np.ndarray | None = None
    """[pairs of text] bool; None if it is not known."""

    def keep_lines(self, source: list[bytes], target: list[bytes]) -> LinePairs:
        """Returns the text of the pairs kept, given that of all; one line each.

        A line break within a sentence becomes a space, which it is to a vocabulary.
        """
        if self.is_kept is None:
            raise ValueError("A joined chunk does not know which pairs it has.")
        is_kept = self.is_kept.tolist()
        kept = [
            [line.replace(b"\n", b" ") for line in itertools.compress(side, is_kept)]
            for side in (source, target)
        ]
        return kept[0], kept[1]


def filter_pairs(
    source: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    max_length: int,
    vocabulary_size: int,
) -> TokenizedChunk:
    """Returns pairs without those that cannot be trained on: empty or too long.

    Args:
        source: Ids end to end, and the length of each sentence.
        target: The same for the target sentences.
        max_length: Longest side that is kept, end of sentence included.
        vocabulary_size: Number of ids of a side, which take two bytes each if they
            fit.
    """
    lengths = np.stack([source[1], target[1]], axis=1)
    is_empty = (lengths == 1).any(axis=1)  # the end of sentence alone
    is_over_long = (lengths > max_length).any(axis=1) & ~is_empty
    keep = ~is_empty & ~is_over_long
    dtype = np.uint16 if vocabulary_size <= 1 << 16 else np.int32
    tokens = [
        ids[np.repeat(keep, row_lengths)].astype(dtype)
        for ids, row_lengths in (source, target)
    ]
    return TokenizedChunk(
        (tokens[0], tokens[1]),
        lengths[keep].astype(np.int32),
        TokenizationReport(
            pairs_kept=int(keep.sum()),
            dropped_over_long=int(is_over_long.sum()),
            dropped_empty=int(is_empty.sum()),
            source_tokens=len(tokens[0]),
            target_tokens=len(tokens[1]),
        ),
        keep,
    )


def join_chunks(chunks: Iterable[TokenizedChunk]) -> TokenizedChunk:
    """Returns one chunk of all pairs of one or more chunks, in order."""
    all_chunks = list(chunks)
    report = TokenizationReport()
    for chunk in all_chunks:
        report += chunk.report
    source, target = (
        np.concatenate([chunk.tokens[side] for chunk in all_chunks]) for side in (0, 1)
    )
    lengths = np.concatenate([chunk.lengths for chunk in all_chunks])
    known = [chunk.is_kept for chunk in all_chunks if chunk.is_kept is not None]
    is_kept = np.concatenate(known) if len(known) == len(all_chunks) else None
    return TokenizedChunk((source, target), lengths, report, is_kept)


def corpus_in_memory(
    chunk: TokenizedChunk, texts: tuple[KeptText, ...] = ()
) -> TokenizedCorpus:
    """Returns a corpus of the pairs of a chunk."""
    source, target = (
        TokenizedSide(
            chunk.tokens[side],
            np.concatenate([[0], np.cumsum(chunk.lengths[:, side], dtype=np.int64)]),
        )
        for side in (0, 1)
    )
    return TokenizedCorpus(source, target, chunk.report, texts, is_kept=chunk.is_kept)


def tokenize_corpus(
    dataset: "tf.data.Dataset",
    vocabulary: Vocabulary,
    max_length: int,
    *,
    keep_text: bool = False,
    before: TokenizationReport | None = None,
) -> TokenizedCorpus:
    """Returns a corpus as ids in memory, without pairs that cannot be trained on.

    Args:
        dataset: Elements `{"source": ..., "target": ...}`, string scalars.
        vocabulary: Encodes both sides.
        max_length: Longest side that is kept, end of sentence included. At
            least 2.
        keep_text: Whether the corpus keeps its text in memory, for `SampledCorpus`.
        before: Pairs that the dataset lacks, to count as left out. Default: none.

    Raises:
        ValueError: If `max_length` is below 2.
        UserError: If no pair is left.
    """
    if max_length < 2:
        raise ValueError(f"max_length must be at least 2. Received: {max_length}")

    # Each side of a thousand pairs is one object: Python's lists take more memory.
    kept: list[tuple[bytes, bytes]] = []

    def encode_batches() -> Iterator[TokenizedChunk]:
        batches: Any = dataset.batch(_LINES_PER_CALL).prefetch(2)
        for texts in batches.as_numpy_iterator():
            source, target = texts["source"].tolist(), texts["target"].tolist()
            chunk = filter_pairs(
                vocabulary.source.encode_all(source),
                vocabulary.encode_all(target),
                max_length,
                vocabulary.largest_size,
            )
            if keep_text and chunk.report.pairs_kept:
                lines = chunk.keep_lines(source, target)
                kept.append((b"\n".join(lines[0]), b"\n".join(lines[1])))
            yield chunk

    def split_lines() -> Iterator[LinePairs]:
        for source, target in kept:
            yield source.split(b"\n"), target.split(b"\n")

    no_rows = np.zeros(0, np.int32), np.zeros(0, np.int64)
    nothing = filter_pairs(no_rows, no_rows, max_length, vocabulary.largest_size)
    if before is not None:
        nothing = dataclasses.replace(nothing, report=before)
    chunk = join_chunks(itertools.chain([nothing], encode_batches()))
    chunk.report.check_any_left(max_length)
    return corpus_in_memory(chunk, (KeptText(split_lines),) if keep_text else ())
