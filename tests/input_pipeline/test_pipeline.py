import collections
import dataclasses
import functools
import itertools
import queue

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches import packing
from t2t_keras.input_pipeline.batches.batching import (
    check_batch,
    planned_dataset,
)
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import (
    DataPosition,
    EvaluationBatches,
    TrainingBatches,
)
from t2t_keras.input_pipeline.batches.plan import WorkerShard
from t2t_keras.training.update import batch_signature
from t2t_keras.typing import BatchShape, BatchSize
from tests.input_pipeline.made_up import random_corpus
from tests.input_pipeline.read_back import count_corpus_pairs, count_pairs, read_shape

TOKENS = 100


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(130, longest=24, seed=21)


@pytest.fixture(params=["buckets", "packed"])
def strategy(request, corpus, monkeypatch):
    if request.param == "buckets":
        return BucketBatching.from_lengths(
            corpus.lengths, max_shapes=4, tokens_per_batch=TOKENS
        )
    # Four blocks per epoch.
    monkeypatch.setattr(packing, "_pairs_per_block", lambda *_: 35)
    return PackedBatching.from_lengths(corpus.lengths, tokens_per_batch=TOKENS)


@pytest.fixture
def wide(strategy, corpus):
    """The same batching strategy, with more rows per batch than there are workers."""
    settings = {} if strategy.packed else {"max_shapes": 4}
    return type(strategy).from_lengths(corpus.lengths, tokens_per_batch=500, **settings)


def arrays(dataset, count=None):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


class RecordingSentences:
    """Sentences that count how often each is read."""

    def __init__(self, sentences):
        self.sentences = sentences
        self.lengths = sentences.lengths
        self.read = collections.Counter()

    def gather(self, indices):
        self.read.update(indices.tolist())
        return self.sentences.gather(indices)


def epoch_lengths(strategy, seed, epochs):
    return [len(list(strategy.plan(seed, epoch))) for epoch in range(epochs)]


def is_same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_an_epoch_holds_every_pair_once(corpus, strategy):
    counts = epoch_lengths(strategy, 4, 2)
    batches = arrays(TrainingBatches(corpus, strategy, seed=4).dataset(), sum(counts))
    epochs = batches[: counts[0]], batches[counts[0] :]
    for epoch in epochs:
        assert count_pairs(epoch) == count_corpus_pairs(corpus)
    for batch in batches:
        check_batch(batch)
        shape = batch["encoder_input_tokens"].shape
        assert (*shape, batch["decoder_input_tokens"].shape[1]) in strategy.shapes
    assert not all(map(is_same, *epochs))


def test_going_on_from_a_position_equals_never_having_stopped(corpus, strategy):
    first, second = epoch_lengths(strategy, 4, 2)
    straight = TrainingBatches(corpus, strategy, seed=4)
    whole = arrays(straight.dataset(), first + second + 4)
    done = (1, first - 1, first, first + second)
    expected = (0, 1), (0, first - 1), (1, 0), (2, 0)
    for count, position in zip(done, expected, strict=True):
        start = straight.position_after(count)
        assert (start.epoch, start.position) == position
        resumed = TrainingBatches(corpus, strategy, seed=4, start=start)
        assert all(map(is_same, arrays(resumed.dataset(), 4), whole[count : count + 4]))


def test_the_position_is_known_as_soon_as_a_batch_is_drawn(corpus, strategy):
    """Also at the end of an epoch, and after a start within an epoch."""
    first, second = epoch_lengths(strategy, 4, 2)
    start = DataPosition(0, first - 2)
    batches = TrainingBatches(corpus, strategy, seed=4, start=start)
    expected = [(0, first - 2), (0, first - 1)]
    expected += [(1, position) for position in range(second)] + [(2, 0), (2, 1)]
    # The plan itself, because the dataset prefetches some batches.
    drawn = batches._plan()
    for count, position in enumerate(expected):
        actual = batches.position_after(count)
        assert (actual.epoch, actual.position) == position
        next(drawn)


class RecordingStrategy:
    """Batching strategy that records which epochs' plans were started."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.started_epochs: queue.Queue[int] = queue.Queue()

    num_windows = 1

    def plan(self, seed, epoch, window):
        self.started_epochs.put(epoch)
        yield from self.strategy.plan(seed, epoch)


def test_the_next_epoch_is_planned_while_this_one_is_trained_on(corpus, strategy):
    recording = RecordingStrategy(strategy)
    batches = TrainingBatches(corpus, recording, seed=4)
    assert recording.started_epochs.get_nowait() == 0
    drawn = batches._plan()
    next(drawn)
    assert recording.started_epochs.get_nowait() == 0
    assert recording.started_epochs.empty()  # nothing delays the first batch
    next(drawn)
    assert recording.started_epochs.get(timeout=30) == 1
    count = epoch_lengths(strategy, 4, 1)[0]
    assert len(list(itertools.islice(drawn, count - 2))) == count - 2
    assert recording.started_epochs.empty()
    next(drawn), next(drawn)
    assert recording.started_epochs.get(timeout=30) == 2


def test_every_iteration_begins_at_the_start(corpus, strategy):
    dataset = TrainingBatches(corpus, strategy, seed=4).dataset()
    assert all(map(is_same, arrays(dataset, 5), arrays(dataset, 5)))


def test_a_position_is_not_negative():
    for epoch, position in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="No number must be negative"):
            DataPosition(epoch, position)


def test_the_dataset_says_what_it_yields(corpus, strategy):
    dataset = TrainingBatches(corpus, strategy, seed=4).dataset()
    check_batch(dataset.element_spec)
    assert dataset.element_spec == batch_signature(packed=strategy.packed)


# --- Several workers


@pytest.mark.parametrize(
    ("workers", "replicas"),
    [pytest.param(7, 3, marks=pytest.mark.slow), (3, 2), (1, 4)],
)
def test_workers_make_their_rows_of_each_batch(corpus, wide, workers, replicas):
    # The last two batches of an epoch, and the first two of the next one.
    start = DataPosition(0, epoch_lengths(wide, 4, 1)[0] - 2)
    whole = TrainingBatches(corpus, wide, seed=4, start=start)
    shards = [
        TrainingBatches(
            corpus,
            wide,
            seed=4,
            start=start,
            shard=WorkerShard(worker, workers, workers * replicas),
        )
        for worker in range(workers)
    ]
    together = zip(whole, *shards, strict=True)
    for (batch, size), *made in itertools.islice(together, 4):
        parts, sizes = zip(*made, strict=True)
        # All workers know the size of the global batch and have equally many rows.
        assert set(sizes) == {size}
        assert len({read_shape(part) for part in parts}) == 1
        for part in parts:
            check_batch(part)
            assert workers == 1 or len(part["encoder_input_tokens"]) % replicas == 0
        for name, feature in batch.items():
            joined = np.concatenate([part[name] for part in parts])
            np.testing.assert_array_equal(joined[: len(feature)], feature)
            assert not joined[len(feature) :].any()
            assert len(joined) - len(feature) < workers * replicas
        source, target = (
            np.count_nonzero(batch[name])
            for name in ("encoder_input_tokens", "decoder_target_tokens")
        )
        assert size == BatchSize(BatchShape(*read_shape(batch)), source, target)


def test_a_worker_reads_no_rows_but_its_own(corpus, wide):
    read = []
    for worker in range(3):
        shard = WorkerShard(worker, 3, 3)
        sides = RecordingSentences(corpus.source), RecordingSentences(corpus.target)
        watched = dataclasses.replace(corpus, source=sides[0], target=sides[1])
        size = BatchSize(BatchShape(0, 0, 0), 0, 0)
        planned = [(shard.select(whole), size) for whole in wide.plan(seed=4, epoch=0)]
        arrays(planned_dataset(watched, functools.partial(iter, planned), wide.make))
        assert sides[0].read == sides[1].read
        read.append(sides[0].read)
    assert min(map(len, read)) > len(corpus) / 8
    assert sum(read, collections.Counter()) == collections.Counter(range(len(corpus)))


def test_any_worker_can_make_the_global_batch_again(corpus, strategy):
    """This also works past the end of an epoch."""
    start = DataPosition(0, 2)
    whole = TrainingBatches(corpus, strategy, seed=4, start=start)
    expected = arrays(whole.dataset(), epoch_lengths(strategy, 4, 1)[0])
    shard = TrainingBatches(
        corpus, strategy, seed=4, start=start, shard=WorkerShard(1, 2, 2)
    )
    arrays(shard.dataset(), len(expected))
    for count in (0, 1, len(expected) - 3, len(expected) - 2, len(expected) - 1):
        assert is_same(shard.whole_batch(count), expected[count])


def test_a_batch_of_padding_has_the_shape_of_the_workers_batches(corpus, strategy):
    batches = TrainingBatches(corpus, strategy, seed=4, shard=WorkerShard(1, 2, 4))
    shapes = {read_shape(batch) for batch in arrays(batches.dataset(), 60)}
    padding = [batches.padding_batch(shape) for shape in strategy.shapes]
    assert {read_shape(batch) for batch in padding} == shapes
    assert not any(feature.any() for batch in padding for feature in batch.values())


def test_arguments_that_cannot_be_meant(corpus, strategy):
    (count,) = epoch_lengths(strategy, 4, 1)
    for position in (count, count + 7):
        message = rf"below the {count} .* of epoch 0\. Received: {position}"
        with pytest.raises(ValueError, match=message):
            TrainingBatches(corpus, strategy, seed=4, start=DataPosition(0, position))


# --- Evaluation


def test_evaluation_holds_every_pair_once(corpus):
    evaluation = EvaluationBatches(corpus, max_shapes=4, tokens_per_batch=TOKENS)
    batches = list(evaluation)
    assert len(batches) == len(evaluation)
    assert count_pairs(batches) == count_corpus_pairs(corpus)
    assert {read_shape(batch) for batch in batches} == set(evaluation.shapes)
    assert 2 <= len(evaluation.shapes) <= 4
    for one, other in zip(batches, evaluation, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    for shape in evaluation.shapes:
        padding = evaluation.padding_batch(shape)
        assert read_shape(padding) == shape
        assert not any(feature.any() for feature in padding.values())


def test_workers_evaluate_every_pair_once(corpus):
    parts = [
        EvaluationBatches(
            corpus, max_shapes=3, tokens_per_batch=TOKENS, shard=WorkerShard(w, 3, 6)
        )
        for w in range(3)
    ]
    pairs = sum(map(count_pairs, parts), collections.Counter())
    assert pairs == count_corpus_pairs(corpus)
    # All workers have equally many batches, of the same shapes in the same order.
    assert len({tuple(map(read_shape, part)) for part in parts}) == 1


def test_a_batch_must_hold_the_longest_pair(corpus):
    with pytest.raises(UserError, match="--tokens_per_batch to 23"):
        EvaluationBatches(corpus, max_shapes=4, tokens_per_batch=20)
