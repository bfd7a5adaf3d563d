import re

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.input_pipeline.batches.batching import (
    check_batch,
    gather_batch,
    make_batch,
)
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.training.update import batch_signature
from t2t_keras.typing import BatchShape
from tests.input_pipeline.made_up import build_corpus, random_corpus


def batch_by_hand(corpus, planned):
    """Fills a batch cell by cell, with one row for each pair."""
    rows, source_bound, target_bound = planned.shape
    source = [[0] * source_bound for _ in range(rows)]
    fed, target = ([[0] * target_bound for _ in range(rows)] for _ in range(2))
    weights = [[0.0] * target_bound for _ in range(rows)]
    for row, index in enumerate(planned.indices):
        source_ids, target_ids = corpus.pair(index)
        for column, token in enumerate(source_ids):
            source[row][column] = int(token)
        for column, token in enumerate(target_ids):
            target[row][column] = int(token)
            weights[row][column] = 1.0
            if column + 1 < target_bound:
                fed[row][column + 1] = int(token)
    return source, fed, target, weights


def test_random_batches_equal_those_made_by_hand():
    for seed in range(5):
        corpus = random_corpus(40, longest=11, seed=seed)
        random = np.random.default_rng(seed)
        for count, rows in ((1, 1), (6, 6), (5, 9)):
            indices = random.permutation(40)[:count]
            # As short as the pairs allow, except for one side.
            source_bound, target_bound = map(int, corpus.lengths[indices].max(axis=0))
            shape = BatchShape(rows, source_bound, target_bound + seed)
            planned = PlannedBatch(shape, indices)
            batch = make_batch(gather_batch(corpus, planned))
            check_batch(batch)
            expected = batch_by_hand(corpus, planned)
            for array, cells in zip(batch.values(), expected, strict=True):
                np.testing.assert_array_equal(array, cells, err_msg=f"{seed=}")


def test_more_pairs_than_rows_are_refused():
    corpus = build_corpus([([5], [7])] * 3)
    for rows in (None, np.array([0, 0, 2])):
        planned = PlannedBatch(BatchShape(2, 9, 9), np.arange(3), rows)
        with pytest.raises(ValueError, match=r"below 2\. Received: row 2, 3 pairs"):
            gather_batch(corpus, planned)


@pytest.mark.parametrize("bounds", [(2, 3), (5, 3), (1, 9)])
def test_a_pair_over_a_bound_is_refused(bounds):
    corpus = build_corpus([([5], [7, 8, 9]), ([5], [7])])
    shape, indices = BatchShape(2, *bounds), np.array([1, 0])
    for rows in (None, np.array([0, 1])):
        with pytest.raises(ValueError, match=r"its bound, [13]\. Received: [24]"):
            gather_batch(corpus, PlannedBatch(shape, indices, rows))


def test_pairs_that_are_too_long_together_are_refused():
    corpus = build_corpus([([5], [7, 8, 9]), ([5], [7])])
    planned = PlannedBatch(BatchShape(2, 4, 5), np.array([1, 0]), np.array([1, 1]))
    with pytest.raises(ValueError, match=r"together.*bound, 5\. Received: 6"):
        gather_batch(corpus, planned)


class NarrowStrategy:
    """Batching strategy whose shape is too narrow for one of its pairs."""

    packed = False

    def __init__(self, shape):
        self.shapes = (shape,)

    num_windows = 1

    def plan(self, seed, epoch, window):
        yield PlannedBatch(self.shapes[0], np.array([1, 0]))

    make = staticmethod(make_batch)


def test_a_dataset_cuts_no_pair():
    """Padding to a shape would truncate silently."""
    corpus = build_corpus([([5], [7, 8, 9]), ([5], [7])])
    batches = TrainingBatches(corpus, NarrowStrategy(BatchShape(2, 2, 3)), seed=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"bound, 3\. Received: 4"):
        next(iter(batches))


# --- The batch contract


def good_batch(rows=3, source_length=5, target_length=7):
    return {
        "encoder_input_tokens": np.ones([rows, source_length], np.int32),
        "decoder_input_tokens": np.ones([rows, target_length], np.int32),
        "decoder_target_tokens": np.ones([rows, target_length], np.int32),
        "decoder_loss_weights": np.ones([rows, target_length], np.float32),
    }


def packed_batch():
    batch = good_batch()
    source = np.ones_like(batch["encoder_input_tokens"])
    target = np.ones_like(batch["decoder_input_tokens"])
    return {
        **batch,
        "encoder_segment_ids": source,
        "encoder_positions": source,
        "decoder_segment_ids": target,
        "decoder_positions": target,
    }


def find_fault(batch) -> str:
    """Returns the message of `check_batch`; empty if the batch is valid."""
    try:
        check_batch(batch)
    except ValueError as error:
        return str(error)
    return ""


PACKED_ALONE = sorted(set(packed_batch()) - set(good_batch()))


@pytest.mark.parametrize("batch", [good_batch(), packed_batch()])
def test_a_good_batch_passes_as_arrays_tensors_and_specs(batch):
    check_batch(batch)
    check_batch({name: tf.constant(array) for name, array in batch.items()})
    check_batch(batch_signature(packed="encoder_positions" in batch))


def test_a_batch_is_packed_wholly_or_not():
    for name in PACKED_ALONE:
        batch = packed_batch()
        extra = batch.pop(name)
        assert f"Missing: ['{name}']. Unknown: []" in find_fault(batch), name
        fault = find_fault({**good_batch(), name: extra})
        assert re.search(r"Missing: .*_segment_ids", fault), name


def test_missing_and_unknown_features_are_named():
    batch = good_batch()
    batch["targets"] = batch.pop("decoder_target_tokens")
    with pytest.raises(
        ValueError,
        match=r"Missing: \['decoder_target_tokens'\]. Unknown: \['targets'\]",
    ):
        check_batch(batch)


def test_a_wrong_dtype_is_named():
    for name, array in packed_batch().items():
        fault = find_fault({**packed_batch(), name: array.astype(np.int64)})
        message = rf"{name} must be \w+32\. Received: int64"
        assert re.search(message, fault), (name, fault)


def test_a_wrong_rank_is_named():
    for name, array in packed_batch().items():
        fault = find_fault({**packed_batch(), name: array[0]})
        message = rf"{name} must be of rank 2.*Received: \(\d,\)"
        assert re.search(message, fault), (name, fault)


def test_features_of_a_side_have_one_shape():
    for name in ("decoder_input_tokens", "decoder_loss_weights", *PACKED_ALONE):
        batch = packed_batch()
        batch[name] = batch[name][:, 1:]
        message = rf"{name} must have the shape.*\(3, [46]\)"
        assert re.search(message, find_fault(batch)), name


def test_both_sides_have_as_many_rows():
    batch = good_batch()
    batch["encoder_input_tokens"] = batch["encoder_input_tokens"][:2]
    with pytest.raises(
        ValueError, match=r"encoder_input_tokens must have as many rows"
    ):
        check_batch(batch)
