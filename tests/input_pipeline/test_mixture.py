"""Mixture of corpora: the pairs of each epoch, and their batches."""

import collections
import itertools
from fractions import Fraction

import numpy as np
import pytest

from t2t_keras.input_pipeline.batches.batching import gather_batch
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.mixture import (
    JoinedSentences,
    Mixture,
    MixtureBatching,
    join_corpora,
    mixture_lengths,
)
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import DataPosition, TrainingBatches
from t2t_keras.input_pipeline.batches.plan import WorkerShard
from t2t_keras.input_pipeline.batches.summary import batching_summary
from tests.input_pipeline.made_up import build_corpus, random_corpus
from tests.input_pipeline.read_back import count_pairs, read_shape

TOKENS = 100
SIZES = (41, 30, 30, 7, 1)
RATES = (Fraction(1, 4), Fraction("0.7"), Fraction(5, 2), Fraction(1, 3))
MIXTURE = Mixture(SIZES, RATES)


def select_part(numbers: np.ndarray, part: int) -> np.ndarray:
    first = sum(SIZES[:part])
    own = numbers[(numbers >= first) & (numbers < first + SIZES[part])]
    return own - first


def test_every_epoch_has_the_main_corpus_once() -> None:
    for epoch in range(5):
        numbers = select_part(MIXTURE.pairs(9, epoch), 0)
        assert sorted(numbers) == list(range(SIZES[0]))


def test_no_pair_is_seen_twice_before_all_others_once() -> None:
    for part in (1, 2, 3, 4):
        rate, size = RATES[part - 1], SIZES[part]
        seen = np.zeros(size, int)
        for epoch in range(24):
            numbers = select_part(MIXTURE.pairs(9, epoch), part)
            assert len(numbers) == MIXTURE.counts(epoch)[part], (part, epoch)
            assert abs(len(numbers) - rate * size) < 1, (part, epoch)
            seen += np.bincount(numbers, minlength=size)
            assert seen.max() - seen.min() <= 1, (part, epoch)
            assert seen.sum() == int(rate * size * (epoch + 1)), (part, epoch)
            if (rate * (epoch + 1)).denominator == 1:
                assert (seen == rate * (epoch + 1)).all(), (part, epoch)


def test_counts_are_exact_where_floats_are_not() -> None:
    """A tenth of 3 * 10^9 pairs after a billion epochs, where floats are 64 apart."""
    mixture = Mixture((1, 3_333_333_333), (Fraction("0.1"),))
    epoch = 10**9 + 1
    exact = [k * 3_333_333_333 // 10 for k in (epoch, epoch + 1)]
    assert mixture.counts(epoch) == (1, exact[1] - exact[0])


def test_orders_depend_only_on_seed_pass_and_part() -> None:
    order = MIXTURE.pairs(9, 3)
    np.testing.assert_array_equal(order, MIXTURE.pairs(9, 3))
    assert not np.array_equal(order, MIXTURE.pairs(10, 3))
    # Two parts of equal size have different orders.
    twins = Mixture((5, 300, 300), (Fraction(1, 2),) * 2)
    numbers = twins.pairs(9, 0)[5:]
    assert set(numbers[:150]) != set(numbers[150:] - 300)
    # Each pass over a part has another order.
    halves = [set(twins.pairs(9, epoch)[5:155]) for epoch in range(4)]
    assert halves[0] | halves[1] == halves[2] | halves[3] == set(range(5, 305))
    assert halves[0] not in halves[2:]
    # The order of a part does not depend on the other parts.
    alone = Mixture((41, 30), RATES[:1])
    np.testing.assert_array_equal(
        select_part(alone.pairs(9, 3), 1), select_part(order, 1)
    )


@pytest.fixture(scope="module")
def parts():
    return [random_corpus(size, 24, seed=size + i) for i, size in enumerate(SIZES)]


def test_joined_corpora_have_their_pairs_in_a_row(parts) -> None:
    joined = join_corpora(parts)
    expected = [part.pair(i) for part in parts for i in range(len(part))]
    assert len(joined) == len(expected) == sum(SIZES)
    for i, pair in enumerate(expected):
        for actual, side in zip(joined.pair(i), pair, strict=True):
            np.testing.assert_array_equal(actual, side)
    np.testing.assert_array_equal(joined.lengths, [[*map(len, p)] for p in expected])
    assert joined.report.source_tokens == joined.lengths[:, 0].sum()
    # Indices in any order, with repetitions, or none at all.
    indices = np.random.default_rng(1).integers(0, len(joined), 300)
    tokens, lengths = joined.target.gather(indices)
    np.testing.assert_array_equal(
        tokens, np.concatenate([expected[i][1] for i in indices])
    )
    np.testing.assert_array_equal(lengths, [len(expected[i][1]) for i in indices])
    assert tokens.dtype == np.uint16
    nothing, none = joined.source.gather(np.zeros(0, np.int64))
    assert (len(nothing), len(none)) == (0, 0)


def test_parts_may_be_joined_again(parts) -> None:
    whole = join_corpora(parts)
    nested = join_corpora([join_corpora(parts[:2]), join_corpora(parts[2:])])
    assert isinstance(nested.source, JoinedSentences)
    indices = np.arange(len(whole))[::-3]
    for side in ("source", "target"):
        for one, other in zip(
            getattr(whole, side).gather(indices),
            getattr(nested, side).gather(indices),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


@pytest.fixture(params=["buckets", "packed"])
def mixed(request, parts):
    corpus = join_corpora(parts)
    lengths = mixture_lengths(corpus.lengths, MIXTURE)
    if request.param == "buckets":
        batching = BucketBatching.from_lengths(
            lengths, max_shapes=4, tokens_per_batch=TOKENS
        )
    else:
        batching = PackedBatching.from_lengths(lengths, tokens_per_batch=TOKENS)
    return corpus, MixtureBatching(corpus.lengths, MIXTURE, batching)


def arrays(batches, count):
    return [batch for batch, _ in itertools.islice(batches, count)]


def epoch_lengths(strategy, epochs):
    return [len(list(strategy.plan(4, epoch))) for epoch in range(epochs)]


def test_batches_hold_what_the_epoch_has(mixed) -> None:
    corpus, strategy = mixed
    counts = epoch_lengths(strategy, 3)
    batches = iter(arrays(TrainingBatches(corpus, strategy, seed=4), sum(counts)))
    for epoch, count in enumerate(counts):
        made = list(itertools.islice(batches, count))
        expected = [corpus.pair(i) for i in MIXTURE.pairs(4, epoch)]
        assert count_pairs(made) == collections.Counter(
            (tuple(s), tuple(t)) for s, t in expected
        )
        assert {read_shape(batch) for batch in made} <= set(strategy.shapes)


def test_a_resumed_run_has_the_batches_of_an_uninterrupted_one(mixed) -> None:
    corpus, strategy = mixed
    counts = epoch_lengths(strategy, 3)
    straight = TrainingBatches(corpus, strategy, seed=4)
    whole = arrays(straight, sum(counts))
    for done in (1, counts[0] - 1, counts[0] + counts[1]):
        start = straight.position_after(done)
        resumed = arrays(TrainingBatches(corpus, strategy, seed=4, start=start), 4)
        for one, other in zip(resumed, whole[done : done + 4], strict=True):
            for name, feature in one.items():
                np.testing.assert_array_equal(feature, other[name])


def test_workers_split_each_batch(mixed) -> None:
    corpus, strategy = mixed
    start = DataPosition(1, 2)
    whole = arrays(TrainingBatches(corpus, strategy, seed=4, start=start), 6)
    shards = [
        arrays(TrainingBatches(corpus, strategy, seed=4, start=start, shard=shard), 6)
        for shard in (WorkerShard(worker, 2, 2) for worker in range(2))
    ]
    for batch, *made in zip(whole, *shards, strict=True):
        for name, feature in batch.items():
            joined = np.concatenate([part[name] for part in made])
            np.testing.assert_array_equal(joined[: len(feature)], feature)
            assert not joined[len(feature) :].any()


def test_a_pair_of_a_later_epoch_fits_too() -> None:
    """The longest pair is not in the first epoch."""
    short, long = [([3], [4])] * 9, ([3] * 40, [4] * 50)
    corpus = join_corpora([build_corpus(short), build_corpus([*short, long, *short])])
    mixture = Mixture((9, 19), (Fraction(1, 19),))
    lengths = mixture_lengths(corpus.lengths, mixture)
    assert len(lengths) == 11
    for batching in (
        BucketBatching.from_lengths(lengths, max_shapes=3, tokens_per_batch=60),
        PackedBatching.from_lengths(lengths, tokens_per_batch=60),
    ):
        strategy = MixtureBatching(corpus.lengths, mixture, batching)
        for epoch in range(19):
            for planned in strategy.plan(4, epoch):
                gather_batch(corpus, planned)


def test_the_summary_is_of_an_epoch(mixed) -> None:
    corpus, strategy = mixed
    summary = batching_summary(corpus, strategy)
    numbers = MIXTURE.pairs(0, 0)
    assert summary.pairs == len(numbers) == sum(MIXTURE.counts(0))
    tokens = corpus.lengths[numbers].sum(axis=0)
    assert (summary.source_tokens, summary.target_tokens) == tuple(tokens)
