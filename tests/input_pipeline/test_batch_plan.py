import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batch_plan import plan_epoch, plan_evaluation
from t2t_keras.input_pipeline.bucketing import bucket_rows

BOUNDS = (4, 6, 11, 20)
LENGTHS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), max_size=60)


def as_array(lengths):
    return np.array(lengths, np.int64).reshape(-1, 2)


def check_nothing_is_lost(plan, lengths, tokens_per_batch):
    rows = dict(zip(BOUNDS, bucket_rows(BOUNDS, tokens_per_batch), strict=True))
    members = [int(index) for batch in plan for index in batch.indices]
    assert sorted(members) == list(range(len(lengths)))
    for batch in plan:
        assert 1 <= len(batch.indices) <= rows[batch.bound]
        assert max(lengths[batch.indices].max(axis=1)) <= batch.bound
        assert rows[batch.bound] * batch.bound <= tokens_per_batch
    not_full = [b for b in plan if len(b.indices) < rows[b.bound]]
    assert len(not_full) <= 1


@given(
    LENGTHS,
    st.integers(40, 150),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_training_loses_nothing(lengths, tokens_per_batch, seed, epoch):
    lengths = as_array(lengths)
    arguments = (lengths, BOUNDS, tokens_per_batch, seed, epoch)
    plan = plan_epoch(*arguments)
    check_nothing_is_lost(plan, lengths, tokens_per_batch)
    again = plan_epoch(*arguments)
    assert [b.bound for b in plan] == [b.bound for b in again]
    for one, other in zip(plan, again, strict=True):
        np.testing.assert_array_equal(one.indices, other.indices)


@given(LENGTHS, st.integers(40, 150))
def test_evaluation_loses_nothing(lengths, tokens_per_batch):
    lengths = as_array(lengths)
    plan = plan_evaluation(lengths, BOUNDS, tokens_per_batch)
    check_nothing_is_lost(plan, lengths, tokens_per_batch)
    longer = lengths.max(axis=1, initial=0)
    in_order = [longer[index] for batch in plan for index in batch.indices]
    assert in_order == sorted(in_order)


@given(LENGTHS, st.integers(20, 150), st.integers(0, 5), st.integers(0, 5))
def test_every_epoch_has_as_many_batches(lengths, tokens_per_batch, seed, epoch):
    lengths = as_array(lengths)
    counts = {
        len(plan_epoch(lengths, BOUNDS, tokens_per_batch, s, e))
        for s, e in ((seed, epoch), (seed, epoch + 1), (seed + 1, epoch))
    }
    assert len(counts) == 1


def random_lengths(count):
    return np.random.default_rng(7).integers(1, 21, size=[count, 2])


def flat(plan):
    return [int(index) for batch in plan for index in batch.indices]


def test_seed_and_epoch_both_change_the_order():
    lengths = random_lengths(300)
    orders = {
        tuple(flat(plan_epoch(lengths, BOUNDS, 120, seed, epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9
    # Not one and the same sum of the two.
    assert flat(plan_epoch(lengths, BOUNDS, 120, 1, 2)) != flat(
        plan_epoch(lengths, BOUNDS, 120, 2, 1)
    )


def test_companions_and_batch_order_are_shuffled():
    lengths = np.full([1000, 2], 20)
    plan = plan_epoch(lengths, BOUNDS, 100, seed=0, epoch=0)
    order = np.array(flat(plan))
    # Neighbours in the corpus end up anywhere: a third of the corpus apart.
    assert 250 < np.abs(np.diff(order)).mean() < 420
    mixed = random_lengths(1000)
    bounds = [batch.bound for batch in plan_epoch(mixed, BOUNDS, 100, 0, 0)]
    changes = sum(a != b for a, b in itertools.pairwise(bounds))
    assert changes > len(bounds) / 5  # in sorted order there would be three


def test_a_pair_goes_to_the_bucket_of_its_longer_side():
    lengths = as_array([(3, 11), (11, 3), (4, 4), (5, 2), (12, 20)])
    plan = plan_epoch(lengths, (4, 6, 11, 20), 20, seed=0, epoch=0)
    bound_of = {int(i): batch.bound for batch in plan for i in batch.indices}
    # Rows are 5, 3, 1, 1. Pairs 2 and 3 fill no batch of theirs and move up.
    assert bound_of == {0: 11, 1: 11, 2: 11, 3: 11, 4: 20}


def test_what_is_left_takes_the_smallest_shape_that_holds_it():
    # Rows are 10, 5, 2: ten fill a batch, of three that rise two fill another.
    plan = plan_epoch(as_array([(3, 2)] * 13), (4, 8, 16), 40, seed=3, epoch=0)
    assert sorted((b.bound, len(b.indices)) for b in plan) == [(4, 1), (4, 10), (16, 2)]
    # A longer one among what is left decides.
    plan = plan_epoch(as_array([(3, 6)]), (4, 8, 16), 40, seed=3, epoch=0)
    assert [(b.bound, len(b.indices)) for b in plan] == [(8, 1)]


def test_the_order_is_that_of_philox_alone():
    # Written out anew from the key: a change here would break resumed runs.
    random = np.random.Philox(key=(5 << 0) + (9 << 64))
    order = np.argsort(random.random_raw(6), kind="stable")
    plan = plan_epoch(as_array([(2, 2)] * 6), (4,), 24, seed=5, epoch=9)
    assert flat(plan) == order.tolist()


def test_no_pairs_make_no_batches():
    assert plan_epoch(as_array([]), BOUNDS, 100, 0, 0) == []
    assert plan_evaluation(as_array([]), BOUNDS, 100) == []


def test_arguments_that_cannot_be_meant():
    lengths = as_array([(3, 21), (2, 2)])
    with pytest.raises(ValueError, match=r"largest bound, 20\. Received: .* 21"):
        plan_epoch(lengths, BOUNDS, 100, 0, 0)
    for seed, epoch, name in ((-1, 0, "seed"), (0, -1, "epoch"), (2**64, 0, "seed")):
        with pytest.raises(ValueError, match=f"{name} must be in"):
            plan_epoch(lengths[1:], BOUNDS, 100, seed, epoch)
    with pytest.raises(UserError, match="tokens_per_batch is 19"):
        plan_epoch(lengths[1:], BOUNDS, 19, 0, 0)
    with pytest.raises(UserError, match="tokens_per_batch is 19"):
        plan_evaluation(lengths[1:], BOUNDS, 19)
