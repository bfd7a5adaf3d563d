"""Mixture of corpora: the pairs of an epoch, by rates, and one corpus of all parts.

An epoch has every pair of the main corpus once, and pairs of each other part in
proportion to its rate. Each part is passed through again and again, every pass in an
order of its own, and an epoch continues where the epoch before stopped. So no pair is
seen twice before all others were seen once, and the pairs of an epoch are a pure
function of seed and epoch (ADR 0022).

Shapes: N pairs of all parts, n of an epoch.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from t2t_keras.input_pipeline.batches.batching import GatheredBatch
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.plan import (
    PlannedBatch,
    permutation,
    random_stream,
)
from t2t_keras.input_pipeline.records.token_links import TokenLinks, no_rows
from t2t_keras.input_pipeline.records.tokenized import (
    KeptText,
    LinePairs,
    Sentences,
    TokenizationReport,
    TokenizedCorpus,
    token_positions,
)
from t2t_keras.typing import Batch, BatchShape


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Sizes of the parts, and the rates at which an epoch has their pairs.

    Attributes:
        sizes: Number of pairs of each part, the main corpus first.
        rates: Mean number of times that each pair of a part is seen in an epoch, for
            each part after the first. Above 0.
    """

    sizes: tuple[int, ...]
    rates: tuple[Fraction, ...]

    def counts(self, epoch: int) -> tuple[int, ...]:
        """Returns the number of pairs of each part in an epoch.

        It is within 1 of size x rate. The total over the first k epochs is within 1 of
        k x size x rate.
        """
        ranges = (self._range(part, epoch) for part in self._other_parts())
        return self.sizes[0], *(end - begin for begin, end in ranges)

    def pairs(self, seed: int, epoch: int) -> np.ndarray:
        """Returns the numbers [n] int64 of an epoch's pairs, part by part.

        Numbers count through all parts; where a rate is above 1, some are repeated.

        Args:
            seed: Seed of the order, in [0, 2**64).
            epoch: In [0, 2**64), from 0.
        """
        firsts = np.cumsum([0, *self.sizes])
        numbers = [np.arange(self.sizes[0])]
        for part in self._other_parts():
            numbers += [own + firsts[part] for own in self._passes(seed, epoch, part)]
        return np.concatenate(numbers)

    def _other_parts(self) -> range:
        return range(1, len(self.sizes))

    def _range(self, part: int, epoch: int) -> tuple[int, int]:
        """Returns begin and end of an epoch in the endless passes of a part."""
        pairs_per_epoch = self.sizes[part] * self.rates[part - 1]
        return int(pairs_per_epoch * epoch), int(pairs_per_epoch * (epoch + 1))

    def _passes(self, seed: int, epoch: int, part: int) -> list[np.ndarray]:
        """Returns the numbers of a part's pairs in an epoch, pass by pass."""
        size = self.sizes[part]
        begin, end = self._range(part, epoch)
        passes = []
        for number in range(begin // size, -(-end // size)) if size else ():
            own = slice(max(begin - number * size, 0), min(end - number * size, size))
            if own == slice(0, size):
                passes.append(np.arange(size))  # whole; the epoch has its own order
            else:
                order = permutation(size, random_stream(seed, number, part))
                passes.append(order[own])
        return passes


class EpochBatching:
    """Base of strategies that let another batch the pairs of each epoch.

    Attributes:
        strategy: The other strategy.
    """

    strategy: Any

    @property
    def num_windows(self) -> int:
        """Number of shuffle windows of an epoch."""
        return 1

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """All shapes that batches may have, from small to large."""
        return self.strategy.shapes

    @property
    def packed(self) -> bool:
        """Whether several pairs share a row."""
        return self.strategy.packed

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch."""
        return self.strategy.make(gathered)


@dataclasses.dataclass(frozen=True, eq=False)
class MixtureBatching(EpochBatching):
    """Batches of a mixture: another strategy on the pairs of each epoch.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair of all parts.
        mixture: Selects the pairs of an epoch.
        strategy: Batches the pairs of an epoch; its own lengths do not matter.
    """

    lengths: np.ndarray
    mixture: Mixture
    strategy: BucketBatching | PackedBatching

    def plan(self, seed: int, epoch: int, window: int = 0) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch."""
        pairs = self.mixture.pairs(seed, epoch)
        strategy = dataclasses.replace(self.strategy, lengths=self.lengths[pairs])
        for planned in strategy.plan(seed, epoch):
            yield planned._replace(indices=pairs[planned.indices])


def mixture_lengths(lengths: np.ndarray, mixture: Mixture) -> np.ndarray:
    """Returns lengths [n, 2] that represent every epoch of a mixture.

    They are the lengths of one epoch, then the longest source and the longest target of
    all pairs: shapes that hold these hold the pairs of every epoch.

    Args:
        lengths: [N, 2] int, source and target length of every pair of all parts.
        mixture: Selects the pairs of an epoch.
    """
    one_epoch = lengths[mixture.pairs(0, 0)]
    return np.concatenate([one_epoch, lengths.max(axis=0, keepdims=True)])


def join_corpora(parts: Sequence[TokenizedCorpus]) -> TokenizedCorpus:
    """Returns one corpus of the pairs of several of one vocabulary, part after part."""
    report = sum((part.report for part in parts), TokenizationReport())
    source = JoinedSentences([part.source for part in parts])
    target = JoinedSentences([part.target for part in parts])
    return TokenizedCorpus(
        source,
        target,
        report,
        tuple(text for part in parts for text in part.texts),
        _join_links(parts, source, target),
    )


def _join_links(
    parts: Sequence[TokenizedCorpus], source: Sentences, target: Sentences
) -> TokenLinks | None:
    """Returns the links of joined parts; those without any have none."""
    known = [part.links for part in parts if part.links is not None]
    if not known:
        return None
    words = [part.links.words if part.links else no_rows(len(part)) for part in parts]
    size = sum(map(len, parts))
    return TokenLinks(JoinedSentences(words), source, target, known[0].spaces, size)


def tag_sources(
    corpus: TokenizedCorpus, tag_ids: Sequence[int], max_length: int
) -> TokenizedCorpus:
    """Returns a corpus with the ids of a tag before each source.

    Encoding the tag and the text together would give the same ids: pieces neither
    contain a user symbol nor go beyond a space.

    Args:
        corpus: Pairs in memory or on disk.
        tag_ids: At least one id.
        max_length: Pairs whose source is longer with the tag are left out.
    """
    lengths = corpus.lengths
    indices = np.flatnonzero(lengths[:, 0] + len(tag_ids) <= max_length)
    report = dataclasses.replace(
        corpus.report,
        pairs_kept=len(indices),
        dropped_over_long=corpus.report.dropped_over_long + len(lengths) - len(indices),
        source_tokens=int(lengths[indices, 0].sum()) + len(tag_ids) * len(indices),
        target_tokens=int(lengths[indices, 1].sum()),
    )
    report.check_any_left(max_length)
    return TokenizedCorpus(
        PrefixedSentences(corpus.source, indices, tag_ids),
        PrefixedSentences(corpus.target, indices, ()),
        report,
        tuple(_tag_text(text, indices, tag_ids) for text in corpus.texts),
    )


def _tag_text(text: KeptText, indices: np.ndarray, tag_ids: Sequence[int]) -> KeptText:
    """Returns the text of some pairs, with the ids of a tag before each source."""

    def open_lines() -> Iterator[LinePairs]:
        first = 0
        for source, target in text.open_lines():
            end = first + len(source)
            own = indices[slice(*np.searchsorted(indices, [first, end]))] - first
            yield [source[i] for i in own], [target[i] for i in own]
            first = end

    return KeptText(open_lines, (*tag_ids, *text.prefix))


class PrefixedSentences:
    """Some of the sentences of a part, each after the same ids.

    Args:
        sentences: Sentences in memory or on disk.
        indices: [N] numbers of the sentences.
        prefix: Ids before each; may be empty.
    """

    def __init__(
        self, sentences: Sentences, indices: np.ndarray, prefix: Sequence[int]
    ):
        self._sentences = sentences
        self._indices = indices
        self._prefix = np.array(prefix, np.int32)

    @property
    def lengths(self) -> np.ndarray:
        """[N] integers: tokens of each, prefix and end of sentence included."""
        return self._sentences.lengths[self._indices] + len(self._prefix)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `tokenized.Sentences.gather`."""
        own_tokens, own_lengths = self._sentences.gather(self._indices[indices])
        size = len(self._prefix)
        lengths = own_lengths + size
        starts = np.cumsum(lengths) - lengths
        tokens = np.empty(lengths.sum(), own_tokens.dtype)
        tokens[starts[:, None] + np.arange(size)] = self._prefix
        tokens[token_positions(starts + size, own_lengths)] = own_tokens
        return tokens, lengths


class JoinedSentences:
    """Sentences of several parts, numbered from part to part."""

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
        places = [np.flatnonzero(part_n == number) for number in numbers]
        gathered = [
            self._parts[number].gather(indices[own] - self._firsts[number])
            for number, own in enumerate(places)
        ]
        lengths = np.empty(len(indices), np.int64)
        for own, (_, own_lengths) in zip(places, gathered, strict=True):
            lengths[own] = own_lengths
        starts = np.cumsum(lengths) - lengths
        tokens = np.empty(lengths.sum(), gathered[0][0].dtype)
        for own, (own_tokens, own_lengths) in zip(places, gathered, strict=True):
            tokens[token_positions(starts[own], own_lengths)] = own_tokens
        return tokens, lengths
