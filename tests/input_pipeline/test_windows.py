"""Shuffle windows: permutations, balance, exact resume, and shares of workers."""

import itertools

import numpy as np
import pytest

from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import DataPosition, TrainingBatches
from t2t_keras.input_pipeline.batches.plan import ALL_ROWS, WorkerShard
from t2t_keras.input_pipeline.batches.summary import batching_summary
from t2t_keras.input_pipeline.batches.windows import WindowBatching
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from tests.input_pipeline.made_up import random_corpus, wmt_lengths


class Lengths:
    """Lengths in memory that record which are read."""

    def __init__(self, lengths):
        self.lengths = lengths
        self.read_pairs = 0

    def __len__(self):
        return len(self.lengths)

    def read(self, begin, end):
        self.read_pairs += end - begin
        return self.lengths[begin:end]


def window_batching(lengths, pairs, kind, tokens=4000):
    counts = LengthCounts.from_lengths(lengths.lengths)
    if kind == "pack":
        strategy = PackedBatching.from_lengths(counts, tokens_per_batch=tokens)
    else:
        strategy = BucketBatching.from_lengths(
            counts, max_shapes=6, tokens_per_batch=tokens
        )
    return WindowBatching(lengths, pairs, strategy)


def plan_all(batching, seed, epoch):
    return [
        list(batching.plan(seed, epoch, window))
        for window in range(batching.num_windows)
    ]


@pytest.mark.parametrize("kind", ["bucket", "pack"])
@pytest.mark.parametrize(("count", "pairs"), [(9_973, 1_000), (997, 16), (50, 60)])
def test_each_epoch_has_each_pair_once_in_another_order(kind, count, pairs):
    lengths = Lengths(wmt_lengths(count, longest=100))
    batching = window_batching(lengths, pairs, kind, tokens=600)
    orders = []
    for seed, epoch in ((1, 0), (1, 1), (2, 0)):
        windows = plan_all(batching, seed, epoch)
        order = np.concatenate([b.indices for w in windows for b in w])
        assert sorted(order.tolist()) == list(range(count))
        orders.append(order.tolist())
        sizes = [sum(len(batch.indices) for batch in window) for window in windows]
        # As equal as chunks allow, the last of which may be short.
        assert max(sizes) - min(sizes) <= 2 * batching._pairs_per_chunk
        assert max(sizes) <= max(pairs, 1)
        for window, batches in enumerate(windows):
            again = batching.plan(seed, epoch, window)
            for one, other in zip(again, batches, strict=True):
                np.testing.assert_array_equal(one.indices, other.indices)
    assert len({tuple(order) for order in orders}) == 3


def test_a_window_is_from_all_over_the_corpus():
    lengths = Lengths(wmt_lengths(64_000))
    batching = window_batching(lengths, 8_000, "bucket")
    assert batching.num_windows == 8
    for window in range(8):
        chunks = batching.pairs(3, 0, window)
        assert len(chunks) == 16 and all(len(chunk) == 500 for chunk in chunks)
        starts = np.array([chunk.start for chunk in chunks])
        assert np.ptp(starts) > 32_000
        # And each batch from all over the window.
        batch = next(batching.plan(3, 0, window))
        assert len(np.unique(batch.indices // 500)) > 5


@pytest.mark.slow
def test_a_million_pairs_are_planned_a_window_at_a_time():
    lengths = Lengths(wmt_lengths(1_000_003))
    batching = window_batching(lengths, 100_000, "bucket", tokens=25_000)
    seen = np.zeros(len(lengths), np.int32)
    batches, shapes = 0, set()
    for window in range(batching.num_windows):
        lengths.read_pairs = 0
        for planned in batching.plan(5, 2, window):
            seen[planned.indices] += 1
            shapes.add(planned.shape)
            batches += 1
        assert lengths.read_pairs <= 100_000
    assert (seen == 1).all()
    assert shapes <= set(batching.shapes)
    whole = BucketBatching(lengths.lengths, batching.shapes)
    # What is left over in each window moves up into the next larger shapes.
    more = batches - len(list(whole.plan(5, 2)))
    assert 0 <= more <= batching.num_windows * len(batching.shapes)


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(400, longest=24, seed=3)


START = DataPosition()


def make_batches(corpus, kind, start=START, shard=ALL_ROWS):
    lengths = Lengths(corpus.lengths)
    batching = window_batching(lengths, 100, kind, tokens=150)
    assert batching.num_windows == 5
    return TrainingBatches(corpus, batching, seed=4, start=start, shard=shard)


def assert_equal(one, other):
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("kind", ["bucket", "pack"])
def test_going_on_from_any_position_equals_never_having_stopped(corpus, kind):
    batches = make_batches(corpus, kind)
    count = 3 + sum(
        len(list(batches._strategy.plan(4, 0, window))) for window in range(5)
    )
    drawn, positions = [], [START]
    for batch, _ in itertools.islice(batches, count):
        drawn.append(batch)
        positions.append(batches.position_after(len(drawn)))
    assert {p.window for p in positions} == set(range(5))
    assert positions[-1].epoch == 1
    for number in range(0, count, 3):
        start = DataPosition(**positions[number].to_fields())
        assert start == positions[number]
        again, _ = next(iter(make_batches(corpus, kind, start)))
        assert_equal(again, drawn[number])
        assert_equal(batches.whole_batch(number), drawn[number])
    end = DataPosition(0, 10_000, 2)
    with pytest.raises(ValueError, match=r"must be below the .* batches of epoch 0"):
        make_batches(corpus, kind, end)


def test_workers_have_equal_shares_of_the_same_batches(corpus):
    shards = [WorkerShard(worker, 2, 4) for worker in (0, 1)]
    start = DataPosition(0, 1, 3)
    both = [make_batches(corpus, "pack", start, shard) for shard in shards]
    alone = make_batches(corpus, "pack", start)
    for (one, size), (other, _), (whole, _) in itertools.islice(
        zip(*both, alone, strict=False), 30
    ):
        for name in one:
            joined = np.concatenate([one[name], other[name]])[: size.shape.rows]
            np.testing.assert_array_equal(joined, whole[name])


def test_only_windows_after_the_first_are_stored_with_a_position():
    assert DataPosition(2, 3).to_fields() == {"epoch": 2, "position": 3}
    fields = DataPosition(2, 3, 1).to_fields()
    assert fields == {"epoch": 2, "position": 3, "window": 1}


@pytest.mark.parametrize("kind", ["bucket", "pack"])
def test_the_summary_is_that_of_all_windows(kind):
    corpus = random_corpus(40_000, longest=9, seed=8)
    lengths = Lengths(corpus.lengths)
    batching = window_batching(lengths, 20_000, kind, tokens=60)
    summary = batching_summary(corpus, batching)
    assert lengths.read_pairs < 10_000  # to plan a window takes too long
    batches = [b for window in plan_all(batching, 0, 0) for b in window]
    count = len(batches)
    positions = sum(b.shape.rows * b.shape.positions for b in batches)
    assert summary.pairs == 40_000
    assert summary.source_tokens == corpus.report.source_tokens
    assert abs(summary.batches_per_epoch - count) <= 0.01 * count
    padding = 1 - int(corpus.lengths.sum()) / positions
    assert abs(summary.padding_share - padding) <= 0.01


def test_shapes_depend_on_the_counts_of_lengths_alone():
    lengths = wmt_lengths(5_000)
    parts = [lengths[:700], lengths[700:701], lengths[:0], lengths[701:]]
    joined = LengthCounts.join(map(LengthCounts.from_lengths, parts))
    whole = LengthCounts.from_lengths(lengths)
    for one, other in zip(joined, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    again = LengthCounts.from_array(whole.to_array())
    for kind in (whole, joined, again):
        for make, settings in (
            (BucketBatching.from_lengths, {"max_shapes": 9}),
            (PackedBatching.from_lengths, {}),
        ):
            known = make(kind, tokens_per_batch=5_000, **settings).shapes
            assert known == make(lengths, tokens_per_batch=5_000, **settings).shapes
    # Lengths so different that no array could count them all.
    huge = np.array([[5, 1 << 40], [1 << 21, 2], [5, 1 << 40]])
    counts = LengthCounts.from_lengths(huge).to_array()
    assert counts.tolist() == [[5, 1 << 40, 2], [1 << 21, 2, 1]]
