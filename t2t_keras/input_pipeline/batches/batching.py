"""Batches of planned pairs: gathered, padded, shifted and weighted, by tf.data.

A planned batch is numbers of pairs (`plan.py`). Gathering their token ids is NumPy, for
ids may be mapped from disk; padding is a graph of TensorFlow ops. `planned_dataset`
gathers several batches in one call, because a call of Python from the graph costs as
much as padding a batch (ADR 0025). The features of a batch (ADR 0002) are

    encoder_input_tokens    the source: "wir gehen ." END
    decoder_input_tokens    the target one step late, a padding id in front
    decoder_target_tokens   the target: "we go ." END
    decoder_loss_weights    1 where a target token counts, 0 at padding

and, where several pairs share a row (sequence packing, `packing.py`), also

    encoder_segment_ids     which pair of its row a source token belongs to, from 1
    encoder_positions       position of a source token in its sentence, from 0
    decoder_segment_ids     the same of the target
    decoder_positions

All are [B, S] or [B, T], and padding is 0 everywhere. For guided alignment there is

    alignment               [B, T, S], 1 where a target and a source token are linked

`check_batch` checks names, dtypes and shapes.

Shapes: B rows of a batch, S source length, T target length, n pairs, K batches of a
chunk.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_keras.files.lines import chunks
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.input_pipeline.records.tokenized import Rows, SentencePairs
from t2t_keras.text.padding import pad_rows, shift_right
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import (
    ALIGNMENT,
    DECODER_INPUT_TOKENS,
    DECODER_LOSS_WEIGHTS,
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    FEATURE_DTYPES,
    PACKED_FEATURE_DTYPES,
    Batch,
    BatchSize,
    Tensor,
)

PlannedSize: TypeAlias = tuple[PlannedBatch, BatchSize]
"""A process's rows of a batch, and the size of the whole batch."""

# K.
_BATCHES_PER_CHUNK = 8
# Calls of each parallel `map`. More would take cores from the training step.
_PARALLEL_CALLS = 2
# Batches that are ready while one is trained on: more than one, for a slow moment.
_PREFETCHED_BATCHES = 4


class GatheredBatch(NamedTuple):
    """Token ids of a planned batch's pairs, before padding."""

    shape: Tensor
    """[3] int64, the fields of a `BatchShape`."""
    rows: Tensor
    """[n] int64, the row of each pair; ascending in packed batches."""
    source: tf.RaggedTensor
    """[n, (S)] int32."""
    target: tf.RaggedTensor
    """[n, (T)] int32."""
    links: tf.RaggedTensor | tuple[()] = ()
    """[n, (2X)] int32, source and target position of each link of tokens, in turn; `()`
    without alignments."""


def make_batch(gathered: GatheredBatch) -> Batch:
    """Returns a batch, which passes `check_batch`, with a row for each pair.

    The decoder input is the target shifted right by one (teacher forcing): at every
    position the decoder has seen all tokens before the one that it predicts. Its first
    input is PAD_ID, whose embedding is a zero vector. Rows without a pair are all
    padding and have no loss weight. Two pairs (5 6 END | 7 END) and
    (8 END | 9 5 6 END) with bounds of 4 and 5, and 3 rows, END being 1, become

        encoder_input_tokens   decoder_input_tokens   decoder_target_tokens
        5 6 1 0                0 7 1 0 0              7 1 0 0 0
        8 1 0 0                0 9 5 6 1              9 5 6 1 0
        0 0 0 0                0 0 0 0 0              0 0 0 0 0

        decoder_loss_weights
        1 1 0 0 0
        1 1 1 1 0
        0 0 0 0 0
    """
    shape, _, source, target, _ = gathered
    batch = padded_batch(pad_rows(source, shape[:2]), pad_rows(target, shape[::2]))
    if isinstance(gathered.links, tf.RaggedTensor):
        batch[ALIGNMENT] = alignment_feature(gathered, 0)
    return batch


def padded_batch(source_BS: Tensor, target_BT: Tensor) -> Batch:
    """Returns the features of a batch with a row for each pair, from padded ids."""
    return {
        ENCODER_INPUT_TOKENS: source_BS,
        DECODER_INPUT_TOKENS: shift_right(target_BT),
        DECODER_TARGET_TOKENS: target_BT,
        DECODER_LOSS_WEIGHTS: tf.cast(target_BT != PAD_ID, tf.float32),
    }


def alignment_feature(gathered: GatheredBatch, starts: Tensor | int) -> Tensor:
    """Returns the feature of guided alignment, [B, T, S] uint8.

    Args:
        gathered: The pairs, with links.
        starts: [n, 2] int64, position of each pair's source and target in its row; 0
            where each pair has its own.
    """
    links: Any = gathered.links
    pair_X = links.value_rowids()[::2]
    starts_n2 = tf.zeros([tf.shape(gathered.rows)[0], 2], tf.int64) + starts
    positions_X2 = tf.cast(tf.reshape(links.flat_values, [-1, 2]), tf.int64)
    positions_X2 += tf.gather(starts_n2, pair_X)
    places_X3 = tf.concat(
        [tf.gather(gathered.rows, pair_X)[:, None], positions_X2[:, ::-1]], axis=1
    )
    rows, source_bound, target_bound = tf.unstack(gathered.shape)
    ones_X = tf.ones(tf.shape(pair_X), tf.uint8)
    shape = tf.stack([rows, target_bound, source_bound])
    matrix = tf.scatter_nd(places_X3, ones_X, shape)
    matrix.set_shape([None, None, None])
    return matrix


def gather_batch(corpus: SentencePairs, planned: PlannedBatch) -> GatheredBatch:
    """Returns the pairs of one planned batch, after `check_fits`."""
    check_fits(corpus.pair_lengths(planned.indices), planned)

    def gather(rows: Rows) -> tf.RaggedTensor:
        tokens, lengths = rows.gather(planned.indices)
        return tf.RaggedTensor.from_row_lengths(tokens.astype(np.int32), lengths)

    return GatheredBatch(
        tf.constant(planned.shape, tf.int64),
        tf.constant(planned.row_numbers()),
        gather(corpus.source),
        gather(corpus.target),
        () if corpus.links is None else gather(corpus.links),
    )


def check_fits(lengths: np.ndarray, planned: PlannedBatch) -> None:
    """Refuses a planned batch whose pairs do not fit its shape: padding would cut them.

    Args:
        lengths: [n, 2] integers, source and target length of each pair of the batch.
        planned: The batch.

    Raises:
        ValueError: If a pair has no row, or a row is too short for its pairs.
    """
    row_n = planned.row_numbers()
    if row_n.max(initial=-1) >= planned.shape.rows:
        raise ValueError(
            f"Pairs of a batch must be in rows below {planned.shape.rows}. "
            f"Received: row {row_n.max()}, {len(row_n)} pairs"
        )
    bounds = (planned.shape.source_bound, planned.shape.target_bound)
    for bound, length_n in zip(bounds, lengths.T, strict=True):
        longest = int(np.bincount(row_n, length_n).max(initial=0))
        if longest > bound:
            raise ValueError(
                f"Pairs of a row must be no longer, together, than its bound, {bound}. "
                f"Received: {longest}"
            )


def planned_dataset(
    corpus: SentencePairs,
    plan: Callable[[], Iterator[PlannedSize]],
    make: Callable[[GatheredBatch], Batch],
) -> tf.data.Dataset:
    """Returns a `tf.data.Dataset` of the batches of a plan, in its order.

    Args:
        corpus: The pairs.
        plan: Called for each iteration over the dataset.
        make: Returns the features of a batch; it is traced.

    Returns:
        Elements (features by name, [5] int64): a batch, and the shape and token counts
        of its `BatchSize`.
    """

    def gather(chunk: dict[str, Tensor]) -> tuple[GatheredBatch, Tensor]:
        counts = chunk["counts"]

        def by_batch(values: Any) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)

        source, target, *links = (
            by_batch(_gather_in_graph(rows, chunk["pairs"]))
            for rows in (corpus.source, corpus.target, corpus.links)
            if rows is not None
        )
        rows = by_batch(chunk["rows"])
        gathered = GatheredBatch(chunk["shapes"], rows, source, target, *links)
        return gathered, chunk["sizes"]

    def make_checked(gathered: GatheredBatch, size: Tensor) -> tuple[Batch, Tensor]:
        batch = make(gathered)
        check_batch(batch)
        return batch, size

    dataset = tf.data.Dataset.from_generator(
        lambda: map(_chunk_arrays, chunks(plan(), _BATCHES_PER_CHUNK)),
        output_signature={
            "pairs": tf.TensorSpec([None], tf.int64),
            "rows": tf.TensorSpec([None], tf.int64),
            "counts": tf.TensorSpec([None], tf.int64),
            "shapes": tf.TensorSpec([None, 3], tf.int64),
            "sizes": tf.TensorSpec([None, 5], tf.int64),
        },
    )
    gathered = map_in_parallel(dataset, gather).unbatch()
    return prefetch_batches(map_in_parallel(gathered, make_checked))


def map_in_parallel(
    dataset: tf.data.Dataset, function: Callable[..., Any]
) -> tf.data.Dataset:
    """Returns the dataset with a function applied to its elements, in order.

    AutoGraph is off: it takes time when the function is traced, and our functions have
    no Python control flow that depends on a tensor.
    """
    return dataset.map(
        tf.autograph.experimental.do_not_convert(function),
        num_parallel_calls=_PARALLEL_CALLS,
        deterministic=True,
    )


def prefetch_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same batches with a prefetch buffer."""
    # Autotuning gains nothing here, and on one core its thread takes several seconds
    # to end.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_PREFETCHED_BATCHES).with_options(options)


def _chunk_arrays(planned: Sequence[PlannedSize]) -> dict[str, np.ndarray]:
    """Returns K planned batches as arrays that a graph can take."""
    batches, sizes = zip(*planned, strict=True)
    return {
        "pairs": np.concatenate([batch.indices for batch in batches]),
        "rows": np.concatenate([batch.row_numbers() for batch in batches]),
        "counts": np.array([len(batch.indices) for batch in batches]),
        "shapes": np.array([batch.shape for batch in batches]),
        "sizes": np.array([(*size.shape, *size[1:]) for size in sizes]),
    }


def _gather_in_graph(rows: Rows, pairs: Tensor) -> tf.RaggedTensor:
    """Returns the ids [n, (L)] int32 of rows in memory or mapped from disk."""

    def gather(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tokens, lengths = rows.gather(pairs)
        return tokens.astype(np.int32), lengths

    # Stateless: the same pairs always have the same ids.
    tokens, lengths = tf.numpy_function(
        gather, [pairs], [tf.int32, tf.int64], stateful=False
    )
    tokens.set_shape([None])
    lengths.set_shape([None])
    return tf.RaggedTensor.from_row_lengths(tokens, lengths, validate=False)


def check_batch(batch: Batch) -> None:
    """Refuses a batch, or its TensorSpecs, that breaks the batch contract (ADR 0002).

    Checks names, dtypes and static shapes only: it costs nothing inside a traced
    function and next to nothing outside. A batch with one feature of packed batches
    must have all of them.

    Raises:
        ValueError: If a feature is missing or unknown, or has another dtype,
            rank or shape; the message names it.
    """
    packed_only = set(dict(PACKED_FEATURE_DTYPES)) - set(dict(FEATURE_DTYPES))
    dtypes = PACKED_FEATURE_DTYPES if packed_only & set(batch) else FEATURE_DTYPES
    if ALIGNMENT in batch:
        dtypes = (*dtypes, (ALIGNMENT, "uint8"))
    expected = dict(dtypes)
    if set(batch) != set(expected):
        raise ValueError(
            f"A batch must have the features {sorted(expected)}. Missing: "
            f"{sorted(set(expected) - set(batch))}. "
            f"Unknown: {sorted(set(batch) - set(expected))}"
        )
    for name, dtype in dtypes:
        received = tf.as_dtype(batch[name].dtype).name
        if received != dtype:
            raise ValueError(f"{name} must be {dtype}. Received: {received}")
        shape = tf.TensorShape(batch[name].shape)
        rank, axes = (3, "[B, T, S]") if name == ALIGNMENT else (2, "[B, L]")
        if shape.rank != rank:
            raise ValueError(
                f"{name} must be of rank {rank}, {axes}. Received: {shape}"
            )
    _check_shapes_agree(batch)


def _check_shapes_agree(batch: Batch) -> None:
    source = tf.TensorShape(batch[ENCODER_INPUT_TOKENS].shape)
    target = tf.TensorShape(batch[DECODER_TARGET_TOKENS].shape)
    for name, feature in batch.items():
        side, expected = (
            (ENCODER_INPUT_TOKENS, source)
            if name.startswith("encoder")
            else (DECODER_TARGET_TOKENS, target)
        )
        if name == ALIGNMENT:
            expected = target.concatenate(source[1:])
            side = f"{DECODER_TARGET_TOKENS} and the length of {ENCODER_INPUT_TOKENS}"
        shape = tf.TensorShape(feature.shape)
        if not shape.is_compatible_with(expected):
            raise ValueError(
                f"{name} must have the shape of {side}, {expected}. Received: {shape}"
            )
    if not source[:1].is_compatible_with(target[:1]):
        raise ValueError(
            f"{ENCODER_INPUT_TOKENS} must have as many rows as "
            f"{DECODER_TARGET_TOKENS}, {target}. Received: {source}"
        )
