import collections
import itertools
from types import MappingProxyType

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batch_plan import plan_epoch, plan_evaluation
from t2t_keras.input_pipeline.bucketing import bucket_bounds
from t2t_keras.input_pipeline.features import check_batch, element_spec
from t2t_keras.input_pipeline.pipeline import (
    DataPosition,
    batching_summary,
    eval_batches,
    train_batches,
)
from tests.input_pipeline.made_up import corpus_of, random_corpus

BOUNDS = bucket_bounds(24)
SHAPES = MappingProxyType({"bounds": BOUNDS, "tokens_per_batch": 100})


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(130, longest=24, seed=21)


def arrays(dataset, count=None):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def pairs_of(batches):
    """The multiset of pairs, read back from padded rows."""
    found = collections.Counter()
    for batch in batches:
        for source, target, weights in zip(
            batch["encoder_input_tokens"],
            batch["decoder_target_tokens"],
            batch["decoder_loss_weights"],
            strict=True,
        ):
            if weights.any():
                found[tuple(source[source > 0]), tuple(target[weights > 0])] += 1
            else:
                assert not source.any()
    return found


def all_pairs(corpus):
    rows = [corpus.pair(index) for index in range(len(corpus))]
    return collections.Counter((tuple(s), tuple(t)) for s, t in rows)


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_an_epoch_holds_every_pair_once(corpus):
    count = batching_summary(corpus, **SHAPES).batches_per_epoch
    batches = arrays(train_batches(corpus, seed=4, **SHAPES), 2 * count)
    for epoch in (batches[:count], batches[count:]):
        assert pairs_of(epoch) == all_pairs(corpus)
    for batch in batches:
        check_batch(batch)
        rows, bound = batch["encoder_input_tokens"].shape
        assert bound in BOUNDS
        assert rows == 100 // bound
    assert not all(map(same, batches[:count], batches[count:]))


def test_evaluation_holds_every_pair_once(corpus):
    dataset = eval_batches(corpus, **SHAPES)
    batches = arrays(dataset)
    assert len(batches) == len(dataset)
    assert pairs_of(batches) == all_pairs(corpus)
    assert all(map(same, batches, arrays(dataset)))


def test_going_on_from_a_position_equals_never_having_stopped(corpus):
    count = batching_summary(corpus, **SHAPES).batches_per_epoch
    whole = arrays(train_batches(corpus, seed=4, **SHAPES), 2 * count + 3)
    for done in (0, 1, count - 1, count, count + 2):
        start = DataPosition().advance(done, count)
        rest = train_batches(corpus, seed=4, start=start, **SHAPES)
        resumed = arrays(rest, 4)
        assert all(map(same, resumed, whole[done : done + 4]))


def test_seeds_give_different_orders(corpus):
    one = arrays(train_batches(corpus, seed=4, **SHAPES), 5)
    other = arrays(train_batches(corpus, seed=5, **SHAPES), 5)
    assert not all(map(same, one, other))


def test_position_arithmetic():
    assert DataPosition().advance(0, 7) == DataPosition(0, 0)
    assert DataPosition(2, 5).advance(1, 7) == DataPosition(2, 6)
    assert DataPosition(2, 5).advance(2, 7) == DataPosition(3, 0)
    assert DataPosition(2, 5).advance(17, 7) == DataPosition(5, 1)
    step_by_step = DataPosition()
    for _ in range(23):
        step_by_step = step_by_step.advance(1, 7)
    assert step_by_step == DataPosition().advance(23, 7) == DataPosition(3, 2)
    for epoch, position in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            DataPosition(epoch, position)


def test_the_dataset_says_what_it_yields(corpus):
    datasets = train_batches(corpus, seed=4, **SHAPES), eval_batches(corpus, **SHAPES)
    for dataset in datasets:
        check_batch(dataset.element_spec)
        for name, spec in element_spec(None, None).items():
            assert dataset.element_spec[name].is_compatible_with(spec)
            assert dataset.element_spec[name].shape.as_list() == [None, None]


def test_the_summary_counts_what_comes(corpus):
    summary = batching_summary(corpus, **SHAPES)
    batches = arrays(train_batches(corpus, seed=0, **SHAPES), summary.batches_per_epoch)
    source = sum(int((b["encoder_input_tokens"] > 0).sum()) for b in batches)
    target = sum(int(b["decoder_loss_weights"].sum()) for b in batches)
    positions = sum(2 * b["encoder_input_tokens"].size for b in batches)
    assert (summary.pairs, summary.source_tokens, summary.target_tokens) == (
        len(corpus),
        source,
        target,
    )
    assert summary.num_shapes == len({b["encoder_input_tokens"].shape for b in batches})
    assert summary.padding_share == pytest.approx(1 - (source + target) / positions)
    assert summary.mean_source_tokens == pytest.approx(source / len(batches))
    assert summary.mean_target_tokens == pytest.approx(target / len(batches))
    assert len(plan_epoch(corpus.lengths, BOUNDS, 100, 9, 9)) == len(batches)


def test_the_summary_in_words():
    corpus = corpus_of([([5, 6], [7]), ([8], [9, 5, 6])])
    summary = batching_summary(corpus, bounds=(4,), tokens_per_batch=8)
    assert summary.describe() == (
        "2 pairs: 5 source and 6 target tokens\n"
        "1 batches an epoch, on average 5 source and 6 target tokens each\n"
        "1 shapes; 31.2% of all positions are padding"
    )


def test_arguments_that_cannot_be_meant(corpus):
    count = len(plan_evaluation(corpus.lengths, BOUNDS, 100))
    with pytest.raises(ValueError, match=rf"below the {count} .* Received: {count}"):
        train_batches(corpus, seed=0, start=DataPosition(0, count), **SHAPES)
    small = {"bounds": BOUNDS, "tokens_per_batch": 20}
    for refused in (
        lambda: train_batches(corpus, seed=0, **small),
        lambda: eval_batches(corpus, **small),
        lambda: batching_summary(corpus, **small),
    ):
        with pytest.raises(UserError, match="--tokens_per_batch to 24"):
            refused()
