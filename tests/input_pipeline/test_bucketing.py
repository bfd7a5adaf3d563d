"""Bucket shapes chosen from lengths, compared with an exhaustive search."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.bucketing import (
    bucket_shapes,
    largest_shape,
    smallest_shapes,
)
from t2t_keras.typing import BatchShape
from tests.forked import run_python
from tests.input_pipeline.made_up import wmt_lengths

LENGTHS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=80
)


def real_fraction(lengths, shapes):
    """Fraction of real tokens if each pair is in the shape that pads it least."""
    positions = 0
    for source, target in lengths:
        positions += min(
            shape.source_bound + shape.target_bound
            for shape in shapes
            if shape.source_bound >= source and shape.target_bound >= target
        )
    return np.sum(lengths) / positions


@given(LENGTHS, st.integers(1, 9), st.integers(60, 400))
def test_shapes_hold_every_pair_and_keep_to_the_budget(lengths, max_shapes, tokens):
    shapes = bucket_shapes(
        np.array(lengths), max_shapes=max_shapes, tokens_per_batch=tokens
    )
    assert 1 <= len(shapes) <= max_shapes
    assert len(set(shapes)) == len(shapes)
    # The last shape is exactly as long as the longest sentences.
    sources, targets = zip(*lengths, strict=True)
    assert shapes[-1][1:] == (max(sources), max(targets))
    sums = [shape.positions for shape in shapes]
    assert sums == sorted(sums)
    for rows, source_bound, target_bound in shapes:
        # The largest number of rows with which neither side exceeds the budget.
        assert rows * source_bound <= tokens
        assert rows * target_bound <= tokens
        longer = max(source_bound, target_bound)
        assert (rows + 1) * longer > tokens
        assert source_bound <= max(sources) and target_bound <= max(targets)


@given(LENGTHS, st.integers(1, 6))
def test_the_order_of_the_pairs_does_not_matter(lengths, max_shapes):
    arguments = {"max_shapes": max_shapes, "tokens_per_batch": 60}
    backwards = bucket_shapes(np.array(lengths[::-1]), **arguments)
    assert bucket_shapes(np.array(lengths), **arguments) == backwards


def test_shapes_are_nearly_optimal():
    # Exhaustive search over all choices of three shapes.
    for seed in range(4):
        lengths = np.random.default_rng(seed).geometric([0.3, 0.25], size=[400, 2])
        lengths = np.minimum(lengths, [9, 11])
        longest = tuple(lengths.max(axis=0))
        shapes = bucket_shapes(lengths, max_shapes=3, tokens_per_batch=11)
        grid = itertools.product(range(1, longest[0] + 1), range(1, longest[1] + 1))
        costs = np.array([
            np.where((lengths <= bounds).all(axis=1), sum(bounds), sum(longest))
            for bounds in grid
        ])  # fmt: skip
        best = min(
            np.minimum(one, costs).sum(axis=1).min() for one in np.unique(costs, axis=0)
        )
        assert real_fraction(lengths, shapes) > 0.99 * lengths.sum() / best, seed


def test_24_shapes_at_25_000_tokens_are_86_percent_real_tokens():
    lengths = wmt_lengths(50_000)
    shapes = bucket_shapes(lengths, max_shapes=24, tokens_per_batch=25_000)
    assert len(shapes) <= 24
    # Measured: 90 %.
    assert real_fraction(lengths[:5_000], shapes) > 0.86


@pytest.mark.slow
def test_no_other_threads_compute():
    """Those of BLAS wait for each other, on a busy machine for most of the time."""
    done = run_python(
        "-c",
        "import time\n"
        "import numpy as np\n"
        "from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes\n"
        # As many different ones as WMT14 has.
        "lengths = np.argwhere(np.ones([160, 160])) + 1\n"
        "before = time.process_time(), time.thread_time()\n"
        "bucket_shapes(lengths, max_shapes=8, tokens_per_batch=25_000)\n"
        "print(time.process_time() - before[0], time.thread_time() - before[1])\n",
    )
    all_threads, own = map(float, done.stdout.split())
    assert own > 0.1
    assert all_threads < 1.5 * own


def test_a_shape_that_saves_less_than_half_a_batch_is_not_made():
    # 60 pairs of 3 and 4 tokens in rows of 9 and 7: a separate shape saves 60 * 9
    # positions.
    lengths = np.array([[3, 4]] * 60 + [[9, 7]] * 9)
    for tokens, count in ((539, 2), (540, 1)):
        shapes = bucket_shapes(lengths, max_shapes=9, tokens_per_batch=tokens)
        assert len(shapes) == count


@given(LENGTHS, st.integers(1, 9))
def test_a_pair_goes_where_it_is_padded_least(lengths, max_shapes):
    lengths = np.array(lengths)
    shapes = bucket_shapes(lengths, max_shapes=max_shapes, tokens_per_batch=60)
    for pair, number in zip(lengths, smallest_shapes(lengths, shapes), strict=True):
        holding = [
            index
            for index, shape in enumerate(shapes)
            if all(pair <= [shape.source_bound, shape.target_bound])
        ]
        sums = [shapes[index].positions for index in holding]
        assert number == holding[int(np.argmin(sums))]


def test_a_budget_that_holds_no_long_pair():
    with pytest.raises(UserError, match=r"row of this corpus needs 12.*_batch to 12"):
        largest_shape((8, 12), 11)
    with pytest.raises(UserError, match=r"row of this corpus needs 12"):
        bucket_shapes(np.array([[12, 3]]), max_shapes=2, tokens_per_batch=11)


def test_rows_are_a_multiple_for_equal_shares_of_devices():
    lengths = np.array([[3, 4]] * 60 + [[9, 7]] * 9)
    settings = {"max_shapes": 2, "tokens_per_batch": 65}
    assert [s.rows for s in bucket_shapes(lengths, **settings)] == [16, 7]
    batching = BucketBatching.from_lengths(lengths, row_multiple=3, **settings)
    assert [tuple(shape) for shape in batching.shapes] == [(15, 3, 4), (6, 9, 7)]
    assert {planned.shape for planned in batching.plan(1, 0)} <= set(batching.shapes)
    with pytest.raises(UserError, match="is 65, but 8 rows of this corpus need 72"):
        bucket_shapes(lengths, row_multiple=8, **settings)
    with pytest.raises(UserError, match=r"row_multiple .* at least 1\. Received: 0"):
        largest_shape((8, 12), 20, row_multiple=0)


def test_arguments_that_cannot_be_meant():
    for pairs, max_shapes in (([[1, 1]], 0), (np.zeros([0, 2], int), 3)):
        with pytest.raises(ValueError, match=rf"Received: max_shapes={max_shapes}, "):
            bucket_shapes(np.array(pairs), max_shapes=max_shapes, tokens_per_batch=9)
    shapes = (BatchShape(2, 4, 4), BatchShape(1, 9, 8))
    for pair in ([9, 9], [10, 2]):
        lengths = np.array([[1, 1], pair])
        with pytest.raises(ValueError, match=rf"Received: .* \({pair[0]}, {pair[1]}\)"):
            smallest_shapes(lengths, shapes)
