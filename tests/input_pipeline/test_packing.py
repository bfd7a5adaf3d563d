"""Packing: no pair is lost, rows are full, batches equal those made by hand."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches import packing
from t2t_keras.input_pipeline.batches.batching import check_batch, gather_batch
from t2t_keras.input_pipeline.batches.packing import (
    make_packed_batch,
    pack_rows,
    packed_shape,
    plan_packed_epoch,
)
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.typing import BatchShape
from tests.input_pipeline.made_up import (
    random_corpus,
    wmt_lengths,
)

LENGTHS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(1, 17)), min_size=1, max_size=120
)
SHAPES = st.builds(
    BatchShape, st.integers(1, 7), st.integers(20, 60), st.integers(17, 60)
)
WORDS = st.integers(0, 2**64 - 1)


def summarize_rows(plan, lengths):
    """Returns (pairs, source tokens, target tokens) of every row that has a pair."""
    rows = []
    for batch in plan:
        filled = collections.defaultdict(list)
        for row, index in zip(batch.rows, batch.indices, strict=True):
            filled[int(row)].append(lengths[index])
        rows += [(len(row), *map(int, np.sum(row, axis=0))) for row in filled.values()]
    return rows


def check_nothing_is_lost(plan, lengths, shape):
    members = [int(index) for batch in plan for index in batch.indices]
    assert sorted(members) == list(range(len(lengths)))
    for _, source, target in summarize_rows(plan, lengths):
        assert source <= shape.source_bound
        assert target <= shape.target_bound
    for batch in plan:
        assert batch.shape == shape
        assert list(batch.rows) == sorted(batch.rows)
        assert 0 <= batch.rows[0] and batch.rows[-1] < shape.rows
    # Only the last batch may have empty rows.
    assert all(len(set(b.rows)) == shape.rows for b in plan[:-1])


@given(LENGTHS, SHAPES, WORDS, WORDS, st.integers(1, 9))
def test_training_loses_nothing(lengths, shape, seed, epoch, pairs_per_block):
    lengths = np.array(lengths)
    with pytest.MonkeyPatch.context() as patch:
        # Very small blocks: some have less than a batch.
        patch.setattr(packing, "_pairs_per_block", lambda *_: pairs_per_block)
        plan = list(plan_packed_epoch(lengths, shape, seed, epoch))
        again = list(plan_packed_epoch(lengths, shape, seed, epoch))
    check_nothing_is_lost(plan, lengths, shape)
    for one, other in zip(plan, again, strict=True):
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.rows, other.rows)


@given(LENGTHS, SHAPES, st.integers(0, 30), st.data())
def test_placed_pairs_fit_and_enough_rows_hold_all_pairs(
    lengths, shape, num_rows, data
):
    lengths = np.array(lengths)
    carried = data.draw(st.integers(0, len(lengths)))
    rows = pack_rows(lengths, shape, num_rows, carried)
    for row in range(num_rows):
        assert all(lengths[rows == row].sum(axis=0) <= shape[1:])
    assert all((rows >= -1) & (rows < num_rows))
    if num_rows >= len(lengths):
        assert all(rows >= 0)


@given(LENGTHS, st.integers(1, 3000))
def test_a_row_holds_any_pair_and_keeps_to_the_budget(lengths, tokens):
    lengths = np.array(lengths)
    longest, means = lengths.max(axis=0), lengths.mean(axis=0)
    try:
        rows, *bounds = packed_shape(lengths, tokens)
    except UserError:
        # Refused only if a row for the longest pair exceeds the budget.
        assert tokens < np.ceil((longest / means).max() * means.max() - 1e-9)
        return
    assert rows * max(bounds) <= tokens
    # The budget is used: a longer row or another row would exceed it.
    assert tokens < rows * (max(bounds) + 1) or tokens < (rows + 1) * max(bounds)
    assert all(bounds >= longest)
    assert rows < 32 or rows % 8 == 0
    # Both bounds hold the same number of mean pairs, rounded up.
    assert max((np.array(bounds) - 1) / means) < min(bounds / means) + 1e-9
    if tokens >= 8 * means.max() + 1:
        assert min(bounds / means) >= 8 - 1e-9


def test_at_25_000_tokens_97_percent_are_real():
    lengths = wmt_lengths(120_000)
    shape = packed_shape(lengths, 25_000)
    assert tuple(shape) == (80, 290, 312)
    for epoch in range(2):
        plan = list(plan_packed_epoch(lengths, shape, seed=3, epoch=epoch))
        check_nothing_is_lost(plan, lengths, shape)
        for num_devices in (1, 2, 4, 8, 16):
            # Computed rows include padding, which makes the shards of devices equal.
            rows = num_devices * -(-shape.rows // num_devices)
            positions = len(plan) * rows * shape.positions
            assert lengths.sum() / positions > 0.97  # measured: 98 %


def test_short_pairs_do_not_wait_for_the_end():
    # Many blocks; a tenth of the pairs is shorter than all others.
    lengths = np.random.default_rng(5).integers(12, 50, size=[20_000, 2])
    lengths[::10] = 2
    shape = BatchShape(10, 150, 150)
    plan = list(plan_packed_epoch(lengths, shape, seed=1, epoch=0))
    short = [np.mean(lengths[batch.indices].sum(axis=1) == 4) for batch in plan]
    parts = [
        np.mean(short[start : start + 60]) for start in range(0, len(short) - 60, 60)
    ]
    assert len(parts) > 5
    assert all(0.05 < part < 0.2 for part in parts)


def test_seed_and_epoch_both_change_the_order():
    lengths = wmt_lengths(500)
    shape = packed_shape(lengths, 2_000)
    orders = {
        tuple(
            int(i)
            for b in plan_packed_epoch(lengths, shape, seed, epoch)
            for i in b.indices
        )
        for seed, epoch in itertools.product(range(3), range(3))
    }
    assert len(orders) == 9


def test_one_pair_and_none():
    shape = BatchShape(3, 20, 17)
    (batch,) = plan_packed_epoch(np.array([[20, 17]]), shape, 0, 0)
    assert (batch.indices.tolist(), batch.rows.tolist()) == ([0], [0])
    assert list(plan_packed_epoch(np.zeros([0, 2], int), shape, 0, 0)) == []


def test_arguments_that_cannot_be_meant():
    shape = BatchShape(3, 5, 7)
    for lengths in ([[6, 1]], [[1, 8]]):
        with pytest.raises(ValueError, match=r"longer than a row, \(5, 7\)\. Received"):
            list(plan_packed_epoch(np.array(lengths), shape, 0, 0))
    with pytest.raises(ValueError, match="epoch must be in"):
        list(plan_packed_epoch(np.array([[1, 1]]), shape, 0, -1))
    with pytest.raises(ValueError, match="Received: 0 pairs"):
        packed_shape(np.zeros([0, 2], int), 100)
    with pytest.raises(UserError, match="tokens_per_batch is 19"):
        packed_shape(np.array([[20, 20]]), 19)


def packed_by_hand(corpus, planned):
    """Fills a packed batch token by token."""
    rows, source_bound, target_bound = planned.shape
    features = [[[] for _ in range(rows)] for _ in range(8)]
    source, fed, target, weights, sources, places, targets, steps = features
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
        for feature, bound in zip(features, bounds, strict=True)
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
