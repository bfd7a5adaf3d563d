"""Bucket and packed batching through one interface, and its summary."""

import dataclasses
import itertools

import numpy as np
import pytest

from t2t_keras.input_pipeline.batches import packing
from t2t_keras.input_pipeline.batches.batching import check_batch, gather_batch
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.batches.summary import batching_summary
from tests.input_pipeline.made_up import build_corpus, random_corpus
from tests.input_pipeline.read_back import count_corpus_pairs, count_pairs, read_shape

TOKENS = 150


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(230, longest=24, seed=22)


@pytest.fixture(params=["buckets", "packed"])
def strategy(request, corpus, monkeypatch):
    buckets, packed = strategies(corpus)
    # Several blocks per epoch.
    monkeypatch.setattr(packing, "_pairs_per_block", lambda *_: 35)
    return buckets if request.param == "buckets" else packed


def strategies(corpus):
    return (
        BucketBatching.from_lengths(
            corpus.lengths, max_shapes=5, tokens_per_batch=TOKENS
        ),
        PackedBatching.from_lengths(corpus.lengths, tokens_per_batch=TOKENS),
    )


def test_what_is_made_has_the_shapes_that_were_named(corpus):
    buckets, packed = strategies(corpus)
    assert (buckets.packed, packed.packed) == (False, True)
    assert len(packed.shapes) == 1
    assert 2 <= len(buckets.shapes) <= 5
    for strategy in (buckets, packed):
        shapes = set()
        for planned in strategy.plan(seed=1, epoch=2):
            batch = strategy.make(gather_batch(corpus, planned))
            check_batch(batch)
            assert ("encoder_segment_ids" in batch) == strategy.packed
            source = batch["encoder_input_tokens"].shape
            target = batch["decoder_target_tokens"].shape
            assert planned.shape == (*source, target[1])
            assert max(np.prod(source), np.prod(target)) <= TOKENS
            shapes.add(planned.shape)
        assert shapes == set(strategy.shapes)


def test_the_summary_counts_an_epoch(corpus, strategy):
    summary = batching_summary(corpus, strategy)
    stream = TrainingBatches(corpus, strategy, seed=0)
    batches = [
        batch for batch, _ in itertools.islice(stream, summary.batches_per_epoch)
    ]
    assert count_pairs(batches) == count_corpus_pairs(corpus)
    source = sum(int((b["encoder_input_tokens"] > 0).sum()) for b in batches)
    target = sum(int(b["decoder_loss_weights"].sum()) for b in batches)
    positions = sum(
        b["encoder_input_tokens"].size + b["decoder_input_tokens"].size for b in batches
    )
    assert (summary.pairs, summary.source_tokens, summary.target_tokens) == (
        len(corpus),
        source,
        target,
    )
    assert summary.num_shapes == len(set(map(read_shape, batches)))
    assert summary.padding_share == pytest.approx(1 - (source + target) / positions)
    assert summary.mean_source_tokens == pytest.approx(source / len(batches))
    assert summary.mean_target_tokens == pytest.approx(target / len(batches))
    assert summary.packed == strategy.packed


def test_the_summary_counts_rows_that_devices_add(corpus, strategy):
    alone = batching_summary(corpus, strategy)
    shared = batching_summary(corpus, strategy, lambda shape: 3 * shape.rows)
    real = 1 - alone.padding_share
    assert shared.padding_share == pytest.approx(1 - real / 3)
    assert dataclasses.replace(shared, padding_share=alone.padding_share) == alone


def test_the_summary_in_words():
    corpus = build_corpus([([5, 6], [7]), ([8], [9, 5, 6])])
    buckets = BucketBatching.from_lengths(
        corpus.lengths, max_shapes=1, tokens_per_batch=8
    )
    assert batching_summary(corpus, buckets).describe() == (
        "2 pairs: 5 source and 6 target tokens\n"
        "1 batches per epoch, on average 5 source and 6 target tokens each\n"
        "1 batch shape, one pair per row; 78.6% of all positions are real tokens"
    )
    packed = PackedBatching.from_lengths(corpus.lengths, tokens_per_batch=8)
    assert batching_summary(corpus, packed).describe().splitlines()[2] == (
        "1 batch shape, several pairs per row; 73.3% of all positions are real tokens"
    )
