"""Word alignments of training pairs, as links between tokens (guided alignment).

Links are read and kept as numbers of words. Which tokens a word has depends on its
segmentation, which subword sampling changes in each epoch, so links between tokens are
made when a batch is gathered.

Shapes: N pairs, n of a batch, K links of these between words, X links between tokens.
"""

import array
import dataclasses
from collections.abc import Iterable

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.tokenized import (
    LinePairs,
    Rows,
    Sentences,
    TokenizedSide,
    TokenRows,
)
from t2t_keras.text.normalization import is_blank
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.text.word_alignments import read_aligned
from t2t_keras.text.word_numbers import count_spaces

# More words than any sentence has.
_MOST_WORDS = 1 << 24


def read_word_links(
    chunks: Iterable[LinePairs], lines: Iterable[bytes], name: str
) -> TokenizedSide:
    """Returns the sure links of all pairs that have text on both sides.

    Args:
        chunks: Source and target of each line of the training text, many at a time.
        lines: A line of links for each, in Pharaoh format.
        name: Name of the file of links, for messages.

    Returns:
        For each pair, the numbers of source and target word of each link, in turn.

    Raises:
        UserError: As `read_aligned`; or if there is no link at all.
    """
    words = array.array("i")
    counts = array.array("q")
    pairs = (pair for chunk in chunks for pair in zip(*chunk, strict=True))
    for pair, alignment in read_aligned(pairs, lines, name):
        if not any(map(is_blank, pair)):
            for link in sorted(alignment.sure):
                words.extend(link)
            counts.append(2 * len(alignment.sure))
    if not words:
        raise UserError(
            f"{name} has no link between words. Check that it is the alignment of the "
            "training text."
        )
    return _rows(np.frombuffer(words, np.int32), np.frombuffer(counts, np.int64))


def select_rows(rows: TokenizedSide, is_selected: np.ndarray | None) -> TokenizedSide:
    """Returns some of the rows, where `is_selected` [N] bool is True; None for all."""
    if is_selected is None:
        return rows
    lengths = rows.lengths
    tokens = rows.tokens[np.repeat(is_selected, lengths)]
    return _rows(tokens, lengths[is_selected])


def no_rows(count: int) -> TokenizedSide:
    """Returns empty rows, for pairs without an alignment."""
    return _rows(np.zeros(0, np.int32), np.zeros(count, np.int64))


def _rows(tokens: np.ndarray, lengths: np.ndarray) -> TokenizedSide:
    ends = np.cumsum(lengths, dtype=np.int64)
    return TokenizedSide(tokens, np.concatenate([[0], ends]))


@dataclasses.dataclass(frozen=True, eq=False)
class PieceSpaces:
    """Number of spaces in each piece of a vocabulary, which separate words.

    Attributes:
        leading: [V] int64, spaces at the begin of each piece.
        total: [V] int64, all of its spaces.
        is_tag: [V] bool, whether it is that of a language, which is part of no word.
    """

    leading: np.ndarray
    total: np.ndarray
    is_tag: np.ndarray

    @classmethod
    def from_vocabulary(cls, vocabulary: Vocabulary) -> "PieceSpaces":
        """Returns the numbers for the pieces of a vocabulary."""
        pieces = vocabulary.marked_pieces(range(vocabulary.size))
        counts = [*map(count_spaces, pieces)]
        is_tag = np.array([not piece for piece in pieces])
        leading, total = np.array(counts, np.int64).T
        return cls(leading, total, is_tag)


@dataclasses.dataclass(frozen=True, eq=False)
class TokenLinks:
    """Links between the tokens of each pair: all tokens of two linked words.

    Pair i may have several numbers, i plus any multiple of N, as in a `SampledCorpus`.

    Attributes:
        words: N rows, of source and target word of each link, in turn.
        source: The sources, each ended by EOS, which is part of no word.
        target: The targets, likewise.
        spaces: Spaces of the pieces of each side, by which words are counted.
        size: N.
    """

    words: Sentences
    source: Rows
    target: Rows
    spaces: tuple[PieceSpaces, PieceSpaces]
    size: int

    def of(self, source: Rows, target: Rows) -> "TokenLinks":
        """Returns the links of the same pairs in other segmentations."""
        return dataclasses.replace(self, source=source, target=target)

    def gather(self, indices: np.ndarray) -> TokenRows:
        """Returns source and target position of each link, in turn, pair by pair.

        Args:
            indices: [n] int64 numbers of pairs.

        Returns:
            [2 X] int32 and, for each pair, twice the number of its links, [n] int64.
        """
        words, counts = self.words.gather(indices % self.size)
        pair_K = np.repeat(np.arange(len(indices)), counts // 2)
        firsts, sizes = [], []
        for side, spaces, word_K in zip(
            (self.source, self.target),
            self.spaces,
            words.reshape(-1, 2).T,
            strict=True,
        ):
            tokens, lengths = side.gather(indices)
            starts = np.cumsum(lengths) - lengths
            keys = _word_keys(spaces, tokens, lengths, starts)
            wanted_K = pair_K * _MOST_WORDS + word_K
            begin_K = np.searchsorted(keys, wanted_K)
            firsts.append(begin_K - starts[pair_K])
            sizes.append(np.searchsorted(keys, wanted_K, side="right") - begin_K)
        size_K = sizes[0] * sizes[1]
        link_X = np.repeat(np.arange(len(size_K)), size_K)
        number_X = np.arange(len(link_X)) - (np.cumsum(size_K) - size_K)[link_X]
        source_X, target_X = np.divmod(number_X, np.maximum(sizes[1], 1)[link_X])
        positions = np.stack(
            [firsts[0][link_X] + source_X, firsts[1][link_X] + target_X], axis=1
        )
        lengths = 2 * np.bincount(pair_K, size_K, len(indices)).astype(np.int64)
        return positions.astype(np.int32).reshape(-1), lengths


def _word_keys(
    spaces: PieceSpaces, tokens: np.ndarray, lengths: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """Returns pair and word of each token as one number, ascending.

    The rule is that of `word_numbers`.
    """
    leading, total = spaces.leading[tokens], spaces.total[tokens]
    before = np.cumsum(total) - total
    # The first word has the number 0, with a space before it or without. A language
    # before it has -1.
    first = starts + spaces.is_tag[tokens[starts]]
    origin = before[first] + (leading[first] > 0)
    keys = before + leading - np.repeat(origin, lengths)
    keys[starts + lengths - 1] = _MOST_WORDS - 1  # EOS
    return keys + np.repeat(np.arange(len(lengths)) * _MOST_WORDS, lengths)
