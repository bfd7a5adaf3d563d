import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.input_pipeline.batches.bucketing import largest_shape
from t2t_keras.input_pipeline.batches.plan import (
    permutation,
    plan_epoch,
    plan_evaluation,
    random_stream,
)

# All bounds differ. The fourth shape holds pairs of the third, but not of the second.
BOUNDS = ((4, 5), (11, 3), (6, 9), (7, 13), (20, 17))
LENGTHS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 17)), max_size=60)
WORDS = st.integers(0, 2**64 - 1)


def build_shapes(tokens_per_batch, bounds=BOUNDS):
    return tuple(largest_shape(pair, tokens_per_batch) for pair in bounds)


def as_array(lengths):
    return np.array(lengths, np.int64).reshape(-1, 2)


def check_nothing_is_lost(plan, lengths, tokens_per_batch):
    members = [int(index) for batch in plan for index in batch.indices]
    assert sorted(members) == list(range(len(lengths)))
    for batch in plan:
        assert batch.rows is None
        assert batch.shape in build_shapes(tokens_per_batch)
        rows, source_bound, target_bound = batch.shape
        assert 1 <= len(batch.indices) <= rows
        assert all(lengths[batch.indices].max(axis=0) <= (source_bound, target_bound))
        assert rows * source_bound <= tokens_per_batch
        assert rows * target_bound <= tokens_per_batch
    not_full = [b for b in plan if len(b.indices) < b.shape.rows]
    assert len(not_full) <= 1


@given(LENGTHS, st.integers(20, 150), WORDS, WORDS)
def test_training_loses_nothing(lengths, tokens_per_batch, seed, epoch):
    lengths = as_array(lengths)
    arguments = (lengths, build_shapes(tokens_per_batch), seed, epoch)
    plan = plan_epoch(*arguments)
    check_nothing_is_lost(plan, lengths, tokens_per_batch)
    again = plan_epoch(*arguments)
    assert [b.shape for b in plan] == [b.shape for b in again]
    for one, other in zip(plan, again, strict=True):
        np.testing.assert_array_equal(one.indices, other.indices)


@given(LENGTHS, st.integers(20, 150))
def test_evaluation_loses_nothing(lengths, tokens_per_batch):
    lengths = as_array(lengths)
    plan = plan_evaluation(lengths, build_shapes(tokens_per_batch))
    check_nothing_is_lost(plan, lengths, tokens_per_batch)
    sums = [batch.shape.positions for batch in plan]
    assert sums[:-1] == sorted(sums[:-1])  # the last batch has the remaining pairs


@given(LENGTHS, st.integers(20, 150), st.integers(0, 5), st.integers(0, 5))
def test_every_epoch_has_as_many_batches(lengths, tokens_per_batch, seed, epoch):
    lengths = as_array(lengths)
    counts = {
        len(plan_epoch(lengths, build_shapes(tokens_per_batch), s, e))
        for s, e in ((seed, epoch), (seed, epoch + 1), (seed + 1, epoch))
    }
    assert len(counts) == 1


def random_lengths(count):
    return np.random.default_rng(7).integers(1, [21, 18], size=[count, 2])


def flatten(plan):
    return [int(index) for batch in plan for index in batch.indices]


def test_seed_and_epoch_both_change_the_order():
    lengths, shapes = random_lengths(300), build_shapes(120)
    orders = {
        tuple(flatten(plan_epoch(lengths, shapes, seed, epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9
    # The order does not depend on the sum of seed and epoch alone.
    assert flatten(plan_epoch(lengths, shapes, 1, 2)) != flatten(
        plan_epoch(lengths, shapes, 2, 1)
    )


def test_companions_and_batch_order_are_shuffled():
    lengths, shapes = np.full([1000, 2], 17), build_shapes(100)
    order = np.array(flatten(plan_epoch(lengths, shapes, seed=0, epoch=0)))
    # Adjacent pairs are on average a third of the corpus apart in it.
    assert 250 < np.abs(np.diff(order)).mean() < 420
    mixed = random_lengths(1000)
    actual = [batch.shape for batch in plan_epoch(mixed, shapes, 0, 0)]
    changes = sum(a != b for a, b in itertools.pairwise(actual))
    assert changes > len(actual) / 5  # in sorted order there would be four


def test_a_pair_goes_to_the_shape_that_pads_it_least():
    pairs = {(4, 5): (4, 5), (5, 5): (6, 9), (11, 3): (11, 3), (11, 4): (20, 17)}
    pairs |= {(1, 10): (7, 13), (1, 3): (4, 5), (8, 13): (20, 17)}
    rows = {shape[1:]: shape.rows for shape in build_shapes(20)}
    for pair, bounds in pairs.items():
        lengths = as_array([pair] * rows[bounds])
        (batch,) = plan_epoch(lengths, build_shapes(20), seed=0, epoch=0)
        assert batch.shape[1:] == bounds


def test_remaining_pairs_move_to_a_larger_shape_that_holds_them():
    # Rows are 4, 1, 2, 1, 1. One of five pairs of the first bucket moves to the third,
    # because the second is too narrow, and fills the batch there.
    lengths = as_array([(3, 4)] * 5 + [(6, 9)] + [(11, 3)])
    plan = plan_epoch(lengths, build_shapes(20), seed=1, epoch=0)
    actual = sorted((b.shape[1:], len(b.indices)) for b in plan)
    assert actual == [((4, 5), 4), ((6, 9), 2), ((11, 3), 1)]


def test_remaining_pairs_take_the_smallest_shape_that_holds_them():
    shapes = build_shapes(40, ((4, 4), (8, 8), (16, 16)))
    # Rows are 10, 5, 2: ten pairs fill a batch, two of the other three another one.
    plan = plan_epoch(as_array([(3, 2)] * 13), shapes, seed=3, epoch=0)
    assert sorted((b.shape[1], len(b.indices)) for b in plan) == [
        (4, 1),
        (4, 10),
        (16, 2),
    ]
    # The longest remaining pair decides.
    (batch,) = plan_epoch(as_array([(3, 6)]), shapes, seed=3, epoch=0)
    assert (batch.shape[1], len(batch.indices)) == (8, 1)


def test_the_order_is_that_of_philox_alone():
    # Computed here from the key: a change of the order would break resumed runs.
    words = np.random.Philox(key=(5 << 0) + (9 << 64)).random_raw(6).tolist()
    expected = sorted(range(6), key=lambda number: (words[number] >> 3, number))
    (shape,) = build_shapes(24, ((4, 3),))
    plan = plan_epoch(as_array([(2, 2)] * 6), (shape,), seed=5, epoch=9)
    assert flatten(plan) == expected


@given(st.integers(0, 300), WORDS, WORDS)
def test_shuffling_keeps_every_number(count, seed, epoch):
    order = permutation(count, random_stream(seed, epoch))
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(count))


def test_every_order_is_as_likely():
    counts = np.zeros([5, 5])
    random = random_stream(1, 2)
    for _ in range(4000):
        counts[np.arange(5), permutation(5, random)] += 1
    # 800 of each expected; the deviation of a fair shuffle is 25.
    assert np.abs(counts - 800).max() < 5 * 25


def test_no_pairs_make_no_batches():
    assert plan_epoch(as_array([]), build_shapes(100), 0, 0) == []
    assert plan_evaluation(as_array([]), build_shapes(100)) == []


def test_arguments_that_cannot_be_meant():
    lengths, shapes = as_array([(3, 18), (2, 2)]), build_shapes(100)
    with pytest.raises(ValueError, match=r"largest shape.* Received: .* \(3, 18\)"):
        plan_epoch(lengths, shapes, 0, 0)
    for seed, epoch, name in ((-1, 0, "seed"), (0, -1, "epoch"), (2**64, 0, "seed")):
        with pytest.raises(ValueError, match=f"{name} must be in"):
            plan_epoch(lengths[1:], shapes, seed, epoch)
    with pytest.raises(ValueError, match=r"last .* must hold every other"):
        plan_epoch(lengths, shapes[:-1], 0, 0)
    with pytest.raises(ValueError, match=r"last .* must hold every other"):
        plan_evaluation(lengths, shapes[:-1])
