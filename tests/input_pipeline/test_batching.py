import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.input_pipeline.batches.batching import (
    gather_batch,
    make_batch,
    make_packed_batch,
)
from t2t_keras.input_pipeline.batches.features import check_batch
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.typing import BatchShape
from tests.input_pipeline.made_up import corpus_of, random_corpus

EXAMPLE = (((5, 6), (7,)), ((8,), (9, 5, 6)))


def check_example(batch, expected, docstring):
    """The docstring shows the very arrays, but for those that are named apart."""
    check_batch(batch)
    assert {name: array.numpy().tolist() for name, array in batch.items()} == expected
    lines = [" ".join(line.split()) for line in docstring.splitlines()]
    for name, rows in expected.items():
        assert any(name in line for line in lines)
        for row in np.array(rows).astype(int).astype(str):
            assert any(" ".join(row) in line for line in lines)


def test_the_example_of_the_docstring():
    planned = PlannedBatch(BatchShape(3, 4, 5), np.array([0, 1]))
    expected = {
        "encoder_input_tokens": [[5, 6, 1, 0], [8, 1, 0, 0], [0] * 4],
        "decoder_input_tokens": [[0, 7, 1, 0, 0], [0, 9, 5, 6, 1], [0] * 5],
        "decoder_target_tokens": [[7, 1, 0, 0, 0], [9, 5, 6, 1, 0], [0] * 5],
        "decoder_loss_weights": [[1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0] * 5],
    }
    batch = make_batch(gather_batch(corpus_of(EXAMPLE), planned))
    check_example(batch, expected, make_batch.__doc__)


def test_the_packed_example_of_the_docstring():
    planned = PlannedBatch(BatchShape(2, 6, 7), np.array([0, 1]), np.array([0, 0]))
    expected = {
        "encoder_input_tokens": [[5, 6, 1, 8, 1, 0], [0] * 6],
        "decoder_input_tokens": [[0, 7, 0, 9, 5, 6, 0], [0] * 7],
        "decoder_target_tokens": [[7, 1, 9, 5, 6, 1, 0], [0] * 7],
        "decoder_loss_weights": [[1, 1, 1, 1, 1, 1, 0], [0] * 7],
        "encoder_segment_ids": [[1, 1, 1, 2, 2, 0], [0] * 6],
        "encoder_positions": [[0, 1, 2, 0, 1, 0], [0] * 6],
        "decoder_segment_ids": [[1, 1, 2, 2, 2, 2, 0], [0] * 7],
        "decoder_positions": [[0, 1, 0, 1, 2, 3, 0], [0] * 7],
    }
    batch = make_packed_batch(gather_batch(corpus_of(EXAMPLE), planned))
    check_example(batch, expected, make_packed_batch.__doc__)


def by_hand(corpus, planned):
    """A batch with a row for each pair, one cell at a time."""
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
            # As short as the pairs allow, and one side longer.
            source_bound, target_bound = map(int, corpus.lengths[indices].max(axis=0))
            shape = BatchShape(rows, source_bound, target_bound + seed)
            planned = PlannedBatch(shape, indices)
            batch = make_batch(gather_batch(corpus, planned))
            check_batch(batch)
            expected = by_hand(corpus, planned)
            for array, cells in zip(batch.values(), expected, strict=True):
                np.testing.assert_array_equal(array, cells, err_msg=f"{seed=}")


def packed_by_hand(corpus, planned):
    """A batch of shared rows, appended to token by token."""
    rows, source_bound, target_bound = planned.shape
    found = [[[] for _ in range(rows)] for _ in range(8)]
    source, fed, target, weights, sources, places, targets, steps = found
    for row, index in zip(planned.rows, planned.indices, strict=True):
        source_ids, target_ids = corpus.pair(index)
        segment = max([0, *sources[row]]) + 1
        source[row] += map(int, source_ids)
        sources[row] += [segment] * len(source_ids)
        places[row] += range(len(source_ids))
        target[row] += map(int, target_ids)
        fed[row] += [0, *map(int, target_ids[:-1])]
        weights[row] += [1.0] * len(target_ids)
        targets[row] += [segment] * len(target_ids)
        steps[row] += range(len(target_ids))
    bounds = [source_bound, *[target_bound] * 3, *[source_bound] * 2]
    bounds += [target_bound] * 2
    return [
        [row + [0] * (bound - len(row)) for row in feature]
        for feature, bound in zip(found, bounds, strict=True)
    ]


def test_random_packed_batches_equal_those_made_by_hand():
    for seed in range(5):
        corpus = random_corpus(40, longest=11, seed=seed)
        random = np.random.default_rng(seed)
        for count, rows in ((1, 1), (13, 4), (5, 9)):
            indices = random.permutation(40)[:count]
            in_rows = np.sort(random.integers(0, rows, size=count))
            sums = [
                corpus.lengths[indices[in_rows == r]].sum(axis=0) for r in range(rows)
            ]
            source_bound, target_bound = map(int, np.max(sums, axis=0))
            # One side exactly full.
            shape = BatchShape(rows, source_bound + seed, target_bound)
            planned = PlannedBatch(shape, indices, in_rows)
            batch = make_packed_batch(gather_batch(corpus, planned))
            check_batch(batch)
            expected = packed_by_hand(corpus, planned)
            for array, cells in zip(batch.values(), expected, strict=True):
                np.testing.assert_array_equal(array, cells, err_msg=f"{seed=}")


def test_more_pairs_than_rows_are_refused():
    corpus = corpus_of([([5], [7])] * 3)
    for rows in (None, np.array([0, 0, 2])):
        planned = PlannedBatch(BatchShape(2, 9, 9), np.arange(3), rows)
        with pytest.raises(ValueError, match=r"below 2\. Received: row 2, 3 pairs"):
            gather_batch(corpus, planned)


@pytest.mark.parametrize("bounds", [(2, 3), (5, 3), (1, 9)])
def test_a_pair_over_a_bound_is_refused(bounds):
    corpus = corpus_of([([5], [7, 8, 9]), ([5], [7])])
    shape, indices = BatchShape(2, *bounds), np.array([1, 0])
    for rows in (None, np.array([0, 1])):
        with pytest.raises(ValueError, match=r"its bound, [13]\. Received: [24]"):
            gather_batch(corpus, PlannedBatch(shape, indices, rows))


def test_pairs_that_are_too_long_together_are_refused():
    corpus = corpus_of([([5], [7, 8, 9]), ([5], [7])])
    planned = PlannedBatch(BatchShape(2, 4, 5), np.array([1, 0]), np.array([1, 1]))
    with pytest.raises(ValueError, match=r"together.*bound, 5\. Received: 6"):
        gather_batch(corpus, planned)


class Cutting:
    """A strategy whose last shape is too narrow for some of its pairs."""

    packed = False

    def __init__(self, shape):
        self.shapes = (shape,)

    def plan(self, seed, epoch):
        yield PlannedBatch(self.shapes[0], np.array([1, 0]))

    make = staticmethod(make_batch)


def test_a_dataset_cuts_no_pair():
    """Padding to a shape would cut without a word."""
    corpus = corpus_of([([5], [7, 8, 9]), ([5], [7])])
    batches = TrainingBatches(corpus, Cutting(BatchShape(2, 2, 3)), seed=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"bound, 3\. Received: 4"):
        next(iter(batches))
