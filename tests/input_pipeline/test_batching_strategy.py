"""Both ways to fill batches, through the same door."""

import collections

import numpy as np
import pytest

from t2t_keras.input_pipeline.batches.batching import gather_batch
from t2t_keras.input_pipeline.batches.batching_strategy import (
    BucketBatching,
    PackedBatching,
)
from t2t_keras.input_pipeline.batches.features import check_batch
from tests.input_pipeline.made_up import random_corpus

TOKENS = 150


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(230, longest=24, seed=22)


def strategies(corpus):
    return (
        BucketBatching.of(corpus.lengths, max_shapes=5, tokens_per_batch=TOKENS),
        PackedBatching.of(corpus.lengths, tokens_per_batch=TOKENS),
    )


def test_what_is_made_has_the_shapes_that_were_named(corpus):
    buckets, packed = strategies(corpus)
    assert (buckets.packed, packed.packed) == (False, True)
    assert len(packed.shapes) == 1
    assert 2 <= len(buckets.shapes) <= 5
    for strategy in (buckets, packed):
        found = set()
        for planned in strategy.plan(seed=1, epoch=2):
            batch = strategy.make(gather_batch(corpus, planned))
            check_batch(batch)
            assert ("encoder_segment_ids" in batch) == strategy.packed
            source = batch["encoder_input_tokens"].shape
            target = batch["decoder_target_tokens"].shape
            assert planned.shape == (*source, target[1])
            assert max(np.prod(source), np.prod(target)) <= TOKENS
            found.add(planned.shape)
        assert found == set(strategy.shapes)


def test_both_hold_the_same_tokens(corpus):
    counted = []
    for strategy in strategies(corpus):
        counts = collections.Counter()
        for planned in strategy.plan(seed=1, epoch=0):
            batch = strategy.make(gather_batch(corpus, planned))
            for name in ("encoder_input_tokens", "decoder_target_tokens"):
                tokens = batch[name]
                counts.update((name, int(t)) for t in tokens[tokens > 0])
            counts["weight"] += int(np.sum(batch["decoder_loss_weights"]))
        counted.append(counts)
    assert counted[0] == counted[1]
    assert counted[0]["weight"] == corpus.lengths[:, 1].sum()
