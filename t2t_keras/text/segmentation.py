"""Subword regularization: segmentations drawn from keyed random numbers (ADR 0028).

For a BPE vocabulary it is BPE-dropout (Provilkov et al. 2020, algorithm 1): a merge
that is due is skipped with a probability, the rate, and may be made later. For a
unigram vocabulary it is the sampling of Kudo (2018): a segmentation is drawn in
proportion to its probability to the power of alpha = 1 - rate. Words are segmented one
by one, since pieces do not go beyond a space.

No TensorFlow is imported: processes that only encode need none.
"""

import bisect
import collections
import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.text.normalization import normalize
from t2t_keras.text.sentencepiece_models import (
    BYTE,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    read_piece_types,
)
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID, Vocabulary

_SPACE = "\u2581"
# l of Kudo (2018), the number of best segmentations that are drawn from; here those of
# a word, of which few have more.
_MAX_SEGMENTATIONS = 64
# Words that are remembered with their segmentations.
_MAX_REMEMBERED = 1 << 16
_WORDS_PER_DRAW = 64


class RandomNumbers:
    """The random numbers of one text: decisions to skip, or fractions.

    Args:
        bit_generator: Its raw words of 64 bits are used in their order. NumPy
            guarantees that they never change.
        rate: Probability of a skip, in [0, 1).
    """

    def __init__(self, bit_generator: np.random.Philox, rate: float):
        self._bit_generator = bit_generator
        self._threshold = np.uint64(int(rate * 2.0**64))
        self._drawn = self._used = 0
        self._skips: collections.deque[int] = collections.deque()
        self._fractions: Iterator[float] = iter(())

    def skips_none(self, count: int) -> bool:
        """Returns whether the next decisions skip nothing; if so, they are used up."""
        end = self._used + count
        while self._drawn < end:
            words = self._bit_generator.random_raw(_WORDS_PER_DRAW)
            skips = np.flatnonzero(words < self._threshold) + self._drawn
            self._skips.extend(skips.tolist())
            self._drawn += _WORDS_PER_DRAW
        if self._skips and self._skips[0] < end:
            return False
        self._used = end
        return True

    def skips_next(self) -> bool:
        """Returns the next decision."""
        if self.skips_none(1):
            return False
        self._used += 1
        self._skips.popleft()
        return True

    def fraction(self) -> float:
        """Returns a number in [0, 1). A text uses either these or decisions."""
        number = next(self._fractions, None)
        if number is None:
            words = self._bit_generator.random_raw(_WORDS_PER_DRAW)
            # The 53 bits that a float has.
            fractions = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
            self._fractions = iter(fractions.tolist())
            number = next(self._fractions)
        return number


def check_can_sample(vocabulary: Vocabulary) -> SubwordVocabulary:
    """Returns the vocabulary, whose segmentations can be drawn.

    Raises:
        UserError: If it is one of an imported model.
    """
    if not isinstance(vocabulary, SubwordVocabulary):
        raise UserError(
            "--subword_sampling needs a vocabulary that this project learned, and "
            "this is one of an imported model. Leave it out."
        )
    return vocabulary


class SubwordSampler:
    """Draws segmentations of texts.

    Args:
        vocabulary: BPE or unigram.
        rate: In (0, 1). BPE: probability of skipping a merge, published 0.1. Unigram:
            1 - alpha, published 0.8 and 0.9.

    Raises:
        ValueError: If `rate` is out of range.
        UserError: If the vocabulary has unused pieces.
    """

    def __init__(self, vocabulary: Vocabulary, rate: float):
        if not 0.0 < rate < 1.0:
            raise ValueError(f"rate must be in (0, 1). Received: {rate}")
        vocabulary = check_can_sample(vocabulary)
        self._rate = rate
        self._processor = vocabulary.processor
        types = read_piece_types(vocabulary.model_proto)
        if UNUSED in types:
            raise UserError(
                "--subword_sampling needs a vocabulary without unused pieces, and this "
                f"one has {types.count(UNUSED)}. Learn a vocabulary, or leave out "
                "--subword_sampling."
            )
        pieces = dict(zip(vocabulary.pieces(range(len(types))), types, strict=True))
        self._symbols = {
            piece: token_id
            for token_id, (piece, kind) in enumerate(pieces.items())
            if kind == USER_DEFINED
        }
        longest_first = sorted(self._symbols, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})").split
        self._segmenter = (
            _Unigram(vocabulary, 1.0 - rate)
            if vocabulary.is_unigram
            else _BytePairs(vocabulary, types)
        )
        # In vocabularies of other origin a piece may contain a space.
        self._splits_words = not any(
            _SPACE in piece[1:] for piece, kind in pieces.items() if kind == NORMAL
        )
        self._joins_unknown = BYTE not in types

    def encode(self, text: str | bytes, bit_generator: np.random.Philox) -> list[int]:
        """Returns ids of the normalized text, EOS_ID last, which decode to it.

        Args:
            text: Any text.
            bit_generator: Generator of this text's numbers. The same words give the
                same ids.
        """
        random = RandomNumbers(bit_generator, self._rate)
        ids: list[int] = []
        for unit in self._units(self._processor.normalize(normalize(text))):
            symbol = self._symbols.get(unit)
            ids += self._segmenter.draw(unit, random) if symbol is None else (symbol,)
        if self._joins_unknown:  # as SentencePiece does
            groups = itertools.groupby(ids)
            ids = [i for i, same in groups for i in ([i] if i == UNK_ID else same)]
        return [*ids, EOS_ID]

    def _units(self, text: str) -> Iterator[str]:
        """Yields the words and the user symbols of a text with "▁" for spaces."""
        for part in self._split(text) if self._symbols else (text,):
            if part in self._symbols or not self._splits_words:
                words = [part]
            else:
                first, *others = part.split(_SPACE)
                words = [first, *(_SPACE + word for word in others)]
            yield from filter(None, words)


class _Merged(NamedTuple):
    """Segmentation of a word from which no merge was skipped."""

    ids: tuple[int, ...]
    merges: int


class _BytePairs:
    """BPE-dropout.

    The possible merges are tried from the best to the worst: each is skipped with the
    probability of the rate, and the first that is not is made. Then all are possible
    again. A word is done when all were skipped. The published algorithm draws for all
    possible merges first and then makes the best; that is the same, as the numbers for
    worse merges decide nothing.
    """

    def __init__(self, vocabulary: SubwordVocabulary, types: list[int]):
        ids = range(len(types))
        pieces = vocabulary.pieces(ids)
        self._ids = {pieces[i]: i for i in ids if types[i] == NORMAL}
        # SentencePiece makes the merge with the highest score, the leftmost of equals.
        self._costs = {
            piece: -vocabulary.processor.get_score(i) for piece, i in self._ids.items()
        }
        self._byte_ids = {
            int(pieces[i][3:-1], 16): i
            for i in ids
            if types[i] == BYTE  # <0x41>
        }
        self._remembered: dict[str, _Merged] = {}

    def draw(self, word: str, random: RandomNumbers) -> tuple[int, ...]:
        """Returns ids of a word with "▁" for a space."""
        merged = self._remembered.get(word)
        if merged is None:
            symbols = self._merge(word, None)
            merged = _Merged(self._spell(symbols), len(word) - len(symbols))
            _remember(self._remembered, word, merged)
        # Most words: no merge is skipped, so the numbers need not be used one by one.
        if random.skips_none(merged.merges):
            return merged.ids
        return self._spell(self._merge(word, random))

    def _merge(self, word: str, random: RandomNumbers | None) -> list[str]:
        """Returns the symbols of a word after all merges that were not skipped."""
        find_cost = self._costs.get
        symbols = list(word)
        costs = [
            find_cost(left + right, math.inf)
            for left, right in itertools.pairwise(symbols)
        ]
        while costs:
            skipped = []
            while (cost := min(costs)) < math.inf:
                place = costs.index(cost)
                if random is None or not random.skips_next():
                    break
                skipped.append((place, cost))
                costs[place] = math.inf
            else:
                break
            for other, cost in skipped:
                costs[other] = cost
            merged = symbols[place] + symbols[place + 1]
            symbols[place : place + 2] = [merged]
            del costs[place]
            if place:
                costs[place - 1] = find_cost(symbols[place - 1] + merged, math.inf)
            if place < len(costs):
                costs[place] = find_cost(merged + symbols[place + 1], math.inf)
        return symbols

    def _spell(self, symbols: list[str]) -> tuple[int, ...]:
        """Returns the ids of symbols: a piece, or bytes, or unknown."""
        ids: list[int] = []
        for symbol in symbols:
            known = self._ids.get(symbol)
            if known is not None:
                ids.append(known)
            elif self._byte_ids:
                ids += [self._byte_ids[byte] for byte in symbol.encode()]
            else:
                ids.append(UNK_ID)
        return tuple(ids)


class _Unigram:
    """Sampling of segmentations in proportion to their probability ** alpha.

    Words are independent in a unigram model, so drawing words is drawing sentences,
    with the l best segmentations of each word instead of the l best of a sentence.
    """

    def __init__(self, vocabulary: SubwordVocabulary, alpha: float):
        self._processor = vocabulary.piece_processor
        score = vocabulary.processor.get_score
        self._scores = [alpha * score(i) for i in range(vocabulary.size)]
        self._remembered: dict[str, tuple[list[tuple[int, ...]], list[float]]] = {}

    def draw(self, word: str, random: RandomNumbers) -> tuple[int, ...]:
        """Returns ids of a word with "▁" for a space."""
        remembered = self._remembered.get(word)
        if remembered is None:
            remembered = self._weigh(word)
            _remember(self._remembered, word, remembered)
        segmentations, sums = remembered
        if len(segmentations) == 1:
            return segmentations[0]
        return segmentations[bisect.bisect_right(sums, random.fraction())]

    def _weigh(self, word: str) -> tuple[list[tuple[int, ...]], list[float]]:
        """Returns the best segmentations and the sums of their probabilities."""
        segmentations = [
            tuple(ids)
            for ids in self._processor.nbest_encode_as_ids(word, _MAX_SEGMENTATIONS)
        ]
        scores = [sum(map(self._scores.__getitem__, ids)) for ids in segmentations]
        best = max(scores)
        weights = [math.exp(score - best) for score in scores]
        sums = list(itertools.accumulate(weights))
        # Without the last, which is the rest.
        return segmentations, [each / sums[-1] for each in sums[:-1]]


def _remember(remembered: dict, word: str, value: object) -> None:
    if len(remembered) >= _MAX_REMEMBERED:
        remembered.clear()
    remembered[word] = value
