"""A `tf.data.Dataset` of planned batches: the plan from Python, the rest a graph.

The plan stays Python, a pure function of seed and epoch, because it makes resuming
exact (ADR 0025). Pairs are gathered for several batches at a time, because a call of
Python from the graph costs as much as padding a batch. Batches come in the order of the
plan.

Shapes: K batches of a chunk, n pairs of them all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_keras.files.lines import chunks
from t2t_keras.input_pipeline.batches.batching import GatheredBatch
from t2t_keras.input_pipeline.batches.features import check_batch
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.input_pipeline.records.tokenized import Sentences, TokenizedCorpus
from t2t_keras.typing import Batch, BatchSize, Tensor

PlannedSize: TypeAlias = tuple[PlannedBatch, BatchSize]
"""A process's rows of a batch, and the size of the whole."""

# K.
_BATCHES_AT_A_TIME = 8
# Arguments of each parallel `map`. More calls would take cores from the training step.
PARALLEL: Mapping[str, Any] = MappingProxyType(
    {"num_parallel_calls": 2, "deterministic": True}
)
# Batches that are ready while one is trained on: more than one, for a slow moment.
_BATCHES_AHEAD = 4


def planned_dataset(
    corpus: TokenizedCorpus,
    plan: Callable[[], Iterator[PlannedSize]],
    make: Callable[[GatheredBatch], Batch],
) -> tf.data.Dataset:
    """Returns the batches of a plan, in its order.

    Args:
        corpus: Where the pairs are.
        plan: Called for each iteration over the dataset.
        make: Returns the features of a batch; it is traced.

    Returns:
        Elements (features by name, [5] int64): a batch, and the shape and token counts
        of its `BatchSize`.
    """

    def gather(chunk: dict[str, Tensor]) -> tuple[GatheredBatch, Tensor]:
        counts = chunk["counts"]
        source, target = (
            tf.RaggedTensor.from_row_lengths(
                _gather(side, chunk["pairs"]), counts, validate=False
            )
            for side in (corpus.source, corpus.target)
        )
        rows = tf.RaggedTensor.from_row_lengths(chunk["rows"], counts, validate=False)
        return GatheredBatch(chunk["shapes"], rows, source, target), chunk["sizes"]

    def make_checked(gathered: GatheredBatch, size: Tensor) -> tuple[Batch, Tensor]:
        batch = make(gathered)
        check_batch(batch)
        return batch, size

    dataset = tf.data.Dataset.from_generator(
        lambda: map(_chunk, chunks(plan(), _BATCHES_AT_A_TIME)),
        output_signature={
            "pairs": tf.TensorSpec([None], tf.int64),
            "rows": tf.TensorSpec([None], tf.int64),
            "counts": tf.TensorSpec([None], tf.int64),
            "shapes": tf.TensorSpec([None, 3], tf.int64),
            "sizes": tf.TensorSpec([None, 5], tf.int64),
        },
    )
    gathered = dataset.map(gather, **PARALLEL).unbatch()
    return prefetch_batches(gathered.map(make_checked, **PARALLEL))


def prefetch_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same batches, made ahead."""
    # Nothing here is worth tuning, and on one core the thread that tunes takes
    # several seconds to end.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_BATCHES_AHEAD).with_options(options)


def _chunk(planned: Sequence[PlannedSize]) -> dict[str, np.ndarray]:
    batches, sizes = zip(*planned, strict=True)
    return {
        "pairs": np.concatenate([batch.indices for batch in batches]),
        "rows": np.concatenate([batch.row_numbers() for batch in batches]),
        "counts": np.array([len(batch.indices) for batch in batches]),
        "shapes": np.array([batch.shape for batch in batches]),
        "sizes": np.array([(*size.shape, *size[1:]) for size in sizes]),
    }


def _gather(side: Sentences, pairs: Tensor) -> tf.RaggedTensor:
    """Returns the ids [n, (L)] int32 of sentences in memory or mapped from disk."""

    def gather(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tokens, lengths = side.gather(pairs)
        return tokens.astype(np.int32), lengths

    # Stateless: the same pairs always have the same ids.
    tokens, lengths = tf.numpy_function(
        gather, [pairs], [tf.int32, tf.int64], stateful=False
    )
    tokens.set_shape([None])
    lengths.set_shape([None])
    return tf.RaggedTensor.from_row_lengths(tokens, lengths, validate=False)
