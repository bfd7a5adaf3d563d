"""Statistics of attention heads over a corpus: where weights go, and how far.

Every query of every sentence counts once, so neither the length of a batch nor the
order of the sentences changes anything. Weights of padding are left out.

Shapes: R layers, H heads, Q queries, C keys.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from t2t_keras.model.sentence_maps import AttentionMap, SentenceMaps
from t2t_keras.pictures.words import is_punctuation

# Positions between a query and a key from which their distance is called long.
LONG = 6
# And up to which it is near.
NEAR = 2


class HeadStatistics(NamedTuple):
    """Statistics of a head, averaged over queries.

    Positions of source and target are counted from the first token of each, so for
    attention from decoder to encoder "same" means the same number.

    Attributes:
        kind: A field of `SentenceMaps`.
        layer: From 1.
        head: From 1.
        previous: Share of the weights on the position before; from 0 to 1, as all
            shares.
        same: On the position itself.
        next: On the position after.
        begin: On the decoder's begin of the sentence; 0 in other kinds.
        end: On the end of the sentence; 0 in the decoder, which never reads it.
        punctuation: On tokens that consist of punctuation marks.
        near: On positions `NEAR` or less away, its own among them.
        distant: On positions `LONG` or more away.
        distance: Mean number of positions to the key, by weight.
        entropy: Entropy of the weights, in bits.
        evenness: Normalized entropy: the entropy divided by its maximum over the
            visible keys. 1 if all weights are equal, 0 if each query attends to a
            single key, NaN if there is never more than one key.
        largest: Mean of each query's largest weight.
    """

    kind: str
    layer: int
    head: int
    previous: float
    same: float
    next: float
    begin: float
    end: float
    punctuation: float
    near: float
    distant: float
    distance: float
    entropy: float
    evenness: float
    largest: float


class HeadSums:
    """Accumulator of head statistics over the queries of sentences.

    Args:
        neighborhood: Width r of the encoder's restricted self-attention, if any.
    """

    def __init__(self, neighborhood: int | None = None):
        self._neighborhood = neighborhood
        self._sums: dict[str, Mapping[str, np.ndarray]] = {}
        self._queries: dict[str, int] = {}

    def add(self, maps: SentenceMaps) -> None:
        """Adds a sentence, by subwords."""
        for kind, attention in zip(maps._fields, maps, strict=True):
            sums = self._sum_queries(kind, attention)
            before = self._sums.get(kind)
            if before is not None:
                sums = {name: before[name] + value for name, value in sums.items()}
            self._sums[kind] = sums
            queries = len(attention.queries)
            self._queries[kind] = self._queries.get(kind, 0) + queries

    def means(self) -> list[HeadStatistics]:
        """Returns the means of each kind, layer and head; empty without sentences."""
        return [
            self._head_means(kind, layer, head)
            for kind, sums in self._sums.items()
            for layer, head in np.ndindex(sums["entropy"].shape)
        ]

    def _head_means(self, kind: str, layer: int, head: int) -> HeadStatistics:
        sums = {
            name: float(value[layer, head]) for name, value in self._sums[kind].items()
        }
        most = sums.pop("most_entropy")
        means = {name: value / self._queries[kind] for name, value in sums.items()}
        evenness = sums["entropy"] / most if most else float("nan")
        return HeadStatistics(kind, layer + 1, head + 1, evenness=evenness, **means)

    def _sum_queries(
        self, kind: str, attention: AttentionMap
    ) -> Mapping[str, np.ndarray]:
        """Returns sums over the queries of a sentence, [R, H] float64 each."""
        weights = np.asarray(attention.weights, "float64")
        offset_QC = np.subtract.outer(
            np.arange(len(attention.queries)), np.arange(len(attention.keys))
        )
        distance_QC = np.abs(offset_QC)
        position_C = np.arange(len(attention.keys))
        punctuation_C = np.array([is_punctuation(token) for token in attention.keys])

        def total(counted: np.ndarray) -> np.ndarray:
            return (weights * counted).sum((2, 3))

        most = np.log2(self._count_allowed(kind, distance_QC, offset_QC)).sum()
        # 0 log 0 is 0.
        logs = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
        return {
            "previous": total(offset_QC == 1),
            "same": total(offset_QC == 0),
            "next": total(offset_QC == -1),
            "begin": total((kind == "decoder") & (position_C == 0)),
            "end": total((kind != "decoder") & (position_C == position_C[-1])),
            "punctuation": total(punctuation_C),
            "near": total(distance_QC <= NEAR),
            "distant": total(distance_QC >= LONG),
            "distance": total(distance_QC),
            "entropy": -(weights * logs).sum((2, 3)),
            "most_entropy": np.full(weights.shape[:2], most),
            "largest": weights.max(3).sum(2),
        }

    def _count_allowed(
        self, kind: str, distance_QC: np.ndarray, offset_QC: np.ndarray
    ) -> np.ndarray:
        """Returns [Q], the number of keys that each query may attend to."""
        if kind == "decoder":
            return (offset_QC >= 0).sum(1)
        if kind == "encoder" and self._neighborhood is not None:
            return (distance_QC <= self._neighborhood // 2).sum(1)
        return np.full(len(distance_QC), distance_QC.shape[1])
