"""Several corpora as one: which of their pairs an epoch has, and where these are.

An epoch has every pair of the main corpus once, and of each other part as many as its
rate says. A part is gone through in passes, each in an order of its own; an epoch takes
what follows on the epoch before. So no pair is seen twice before all others were seen
once, and what an epoch takes is a pure function of seed and epoch (ADR 0022).

Shapes: N pairs of all parts, n of an epoch.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from t2t_keras.input_pipeline.batches.plan import random_stream, shuffled
from t2t_keras.input_pipeline.records.tokenized import (
    Sentences,
    TokenizationReport,
    TokenizedCorpus,
    token_positions,
)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """How many pairs each part has, and how often an epoch has each of them.

    Attributes:
        sizes: Pairs of each part, the main corpus first.
        rates: Of each part after the first: how often each of its pairs is seen in
            an epoch, on average. Above 0.
    """

    sizes: tuple[int, ...]
    rates: tuple[Fraction, ...]

    def counts(self, epoch: int) -> tuple[int, ...]:
        """Returns how many pairs of each part an epoch has.

        Those of a part differ from size times rate, and from epoch to epoch, by less
        than one; of the first k epochs together, too, they do.
        """
        return self.sizes[0], *(
            end - begin for begin, end in (self._run(i, epoch) for i in self._others())
        )

    def pairs(self, seed: int, epoch: int) -> np.ndarray:
        """Returns the numbers [n] int64 of an epoch's pairs, part by part.

        Numbers count through all parts; where a rate is above 1, some come again.

        Args:
            seed: Of the order, in [0, 2**64).
            epoch: In [0, 2**64), from 0.
        """
        firsts = np.cumsum([0, *self.sizes])
        chosen = [np.arange(self.sizes[0])]
        for part in self._others():
            chosen += [
                numbers + firsts[part] for numbers in self._passes(seed, epoch, part)
            ]
        return np.concatenate(chosen)

    def _others(self) -> range:
        return range(1, len(self.sizes))

    def _run(self, part: int, epoch: int) -> tuple[int, int]:
        """Returns where an epoch begins and ends in the endless passes of a part."""
        an_epoch = self.sizes[part] * self.rates[part - 1]
        return int(an_epoch * epoch), int(an_epoch * (epoch + 1))

    def _passes(self, seed: int, epoch: int, part: int) -> list[np.ndarray]:
        """Returns numbers of a part's pairs, those of each pass that an epoch meets."""
        size = self.sizes[part]
        begin, end = self._run(part, epoch)
        found = []
        for number in range(begin // size, -(-end // size)) if size else ():
            own = slice(max(begin - number * size, 0), min(end - number * size, size))
            if own == slice(0, size):
                found.append(np.arange(size))  # whole; the epoch has its own order
            else:
                found.append(shuffled(size, random_stream(seed, number, part))[own])
        return found


def joined_corpora(parts: Sequence[TokenizedCorpus]) -> TokenizedCorpus:
    """Returns the pairs of several corpora as one, those of the first part first.

    Args:
        parts: At least one, with ids of the same vocabulary.
    """
    report = sum((part.report for part in parts), TokenizationReport(0, 0, 0, 0, 0))
    return TokenizedCorpus(
        JoinedSentences([part.source for part in parts]),
        JoinedSentences([part.target for part in parts]),
        report,
    )


class JoinedSentences:
    """Sentences of several parts, numbered on from part to part.

    Args:
        parts: In memory or on disk.
    """

    def __init__(self, parts: Sequence[Sentences]):
        self._parts = parts
        self._firsts = np.cumsum([0, *(len(part.lengths) for part in parts)])

    @property
    def lengths(self) -> np.ndarray:
        """[N] integers: tokens of each, end of sentence included."""
        return np.concatenate([part.lengths for part in self._parts])

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `tokenized.Sentences.gather`."""
        part_n = np.searchsorted(self._firsts, indices, side="right") - 1
        numbers = range(len(self._parts))
        of_parts = [np.flatnonzero(part_n == number) for number in numbers]
        gathered = [
            self._parts[number].gather(indices[own] - self._firsts[number])
            for number, own in enumerate(of_parts)
        ]
        lengths = np.empty(len(indices), np.int64)
        for own, (_, own_lengths) in zip(of_parts, gathered, strict=True):
            lengths[own] = own_lengths
        starts = np.cumsum(lengths) - lengths
        tokens = np.empty(lengths.sum(), gathered[0][0].dtype)
        for own, (own_tokens, own_lengths) in zip(of_parts, gathered, strict=True):
            tokens[token_positions(starts[own], own_lengths)] = own_tokens
        return tokens, lengths
