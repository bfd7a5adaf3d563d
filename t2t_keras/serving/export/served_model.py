"""What the signatures of an export ask of a model, whichever it is.

Shapes: B batch, S source length, T target length, N translations of each.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from t2t_keras.decoding.beam_search import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.typing import Tensor


class Search(Protocol):
    """A search for translations."""

    def __call__(
        self,
        source: Tensor,
        settings: BeamSearchSettings,
        *,
        options: RowOptions | None = None,
        growing: bool = True,
    ) -> BeamSearchResult:
        """Returns the N best translations of source ids [B, S] int32.

        Args:
            source: Each row ended by EOS and padded with 0.
            settings: How to search.
            options: What each row has instead.
            growing: Whether shapes may change on the way, which XLA does not allow.
        """
        ...


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model as functions that can be traced.

    Source and target are ids [B, S] and [B, T] int32, each row ended by EOS and
    padded with 0.

    Attributes:
        search: Finds translations.
        target_log_probs: Of (source, target), each target token's log probability,
            [B, T] float32; 0 at padding.
        attention: Of (source, decoder input), the weights of encoder, decoder, and
            from decoder to encoder, as `signature` has their shapes.
        weights: Every variable that these read.
    """

    search: Search
    target_log_probs: Callable[[Tensor, Tensor], Tensor]
    attention: Callable[[Tensor, Tensor], Sequence[Any]]
    weights: Sequence[tf.Variable]
