"""Corpora with other segmentations in each epoch: their keys, limits and batches."""

import collections
import errno
import itertools
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.mixture import (
    Mixture,
    MixtureBatching,
    join_corpora,
    mixture_lengths,
    tag_sources,
)
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import DataPosition, TrainingBatches
from t2t_keras.input_pipeline.batches.plan import WorkerShard, random_stream
from t2t_keras.input_pipeline.batches.sampled import SampledBatching, SampledCorpus
from t2t_keras.input_pipeline.batches.summary import batching_summary
from t2t_keras.input_pipeline.records import tokenized
from t2t_keras.input_pipeline.records.tokenized import KeptText, tokenize_corpus
from t2t_keras.text.segmentation import SubwordSampler
from tests.input_pipeline.made_up import made_up_pairs
from tests.input_pipeline.read_back import count_corpus_pairs, count_pairs

RATE, SEED = 0.3, 41
PAIRS = made_up_pairs(130, seed=8)


def tokenize(vocabulary, pairs=PAIRS, max_length=60, keep_text=True):
    source, target = map(list, zip(*pairs, strict=True))
    dataset = tf.data.Dataset.from_tensor_slices({"source": source, "target": target})
    return tokenize_corpus(dataset, vocabulary, max_length, keep_text=keep_text)


def sample(corpus, vocabulary, **options):
    options = {"rate": RATE, "seed": SEED, "max_length": 60, **options}
    return SampledCorpus(corpus, vocabulary, **options)


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """Text in several chunks, as a large corpus has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenized, "_LINES_PER_CALL", 32)
        yield


@pytest.fixture(scope="module")
def corpus(vocabulary, small_chunks):
    return sample(tokenize(vocabulary), vocabulary)


def read(corpus):
    return [tuple(map(tuple, corpus.pair(i))) for i in range(len(corpus))]


def make_batching(corpus, kind, mixture=None):
    lengths = corpus.representative_lengths()
    if mixture is not None:
        inner = BucketBatching.from_lengths(
            mixture_lengths(lengths, mixture), max_shapes=3, tokens_per_batch=400
        )
        return SampledBatching(corpus, MixtureBatching(lengths, mixture, inner))
    if kind == "pack":
        strategy = PackedBatching.from_lengths(lengths, tokens_per_batch=700)
    else:
        strategy = BucketBatching.from_lengths(
            lengths, max_shapes=3, tokens_per_batch=400
        )
    return SampledBatching(corpus, strategy)


def take(batches, count):
    return [batch for batch, _ in itertools.islice(batches, count)]


def test_a_pair_is_drawn_by_seed_epoch_and_number(corpus, vocabulary):
    sampler = SubwordSampler(vocabulary, RATE)
    for epoch in (0, 2):
        expected = []
        for number, pair in enumerate(PAIRS):
            random = random_stream(SEED, epoch, 0, number)
            expected.append(tuple(tuple(sampler.encode(t, random)) for t in pair))
        drawn = read(corpus.draw(epoch))
        # A handful are longer than all pairs of epoch 0, and keep their ids.
        same = [a == b for a, b in zip(drawn, expected, strict=True)]
        assert sum(same) >= len(PAIRS) - 3
        assert epoch or all(same)
        for number in np.flatnonzero(~np.array(same)):
            assert drawn[number] == tuple(
                tuple(vocabulary.encode(text)) for text in PAIRS[number]
            )


def test_streams_of_pairs_and_orders_are_all_different():
    keys = itertools.product((1, 2), (0, 1), (0, 1), (None, 0, 1))
    words = [tuple(random_stream(*key).random_raw(4)) for key in keys]
    assert len(set(words)) == len(words)


def test_epochs_differ_and_decode_to_the_same_text(corpus, vocabulary):
    epochs = [read(corpus.draw(epoch)) for epoch in range(3)]
    for one, other in itertools.combinations(epochs, 2):
        assert sum(a != b for a, b in zip(one, other, strict=True)) > 120
    for (source, target), *drawn in zip(PAIRS, *epochs, strict=True):
        for ids in drawn:
            assert vocabulary.decode(ids[0]) == source
            assert vocabulary.decode(ids[1]) == target
    other_seed = sample(tokenize(vocabulary), vocabulary, seed=SEED + 1)
    assert read(other_seed.draw(0)) != epochs[0]


def test_processes_and_order_of_epochs_do_not_matter(corpus, vocabulary):
    again = sample(tokenize(vocabulary), vocabulary, workers=2)
    for epoch in (3, 1):
        assert read(again.draw(epoch)) == read(corpus.draw(epoch))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bucket", "pack"])
def test_batches_have_the_pairs_of_their_epoch(corpus, vocabulary, kind):
    batching = make_batching(corpus, kind)
    assert batching.packed == (kind == "pack")
    counts = [len(list(batching.plan(7, epoch))) for epoch in range(3)]
    straight = take(TrainingBatches(corpus, batching, seed=7), sum(counts))
    starts = np.cumsum([0, *counts])
    for epoch, (begin, end) in enumerate(itertools.pairwise(starts)):
        expected = count_corpus_pairs(corpus.draw(epoch))
        assert count_pairs(straight[begin:end]) == expected
    # Resumed in another process, and the rows of both workers of a run.
    fresh = sample(tokenize(vocabulary), vocabulary)
    resumed = TrainingBatches(
        fresh, make_batching(fresh, kind), seed=7, start=DataPosition(1, 1)
    )
    padding = resumed.padding_batch(batching.shapes[-1])
    assert not padding["encoder_input_tokens"].any()
    batches = take(resumed, counts[1] + 1)
    for name, array in resumed.whole_batch(0).items():
        np.testing.assert_array_equal(array, batches[0][name])
    for one, other in zip(batches, straight[counts[0] + 1 :], strict=False):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    shards = [
        take(
            TrainingBatches(corpus, batching, seed=7, shard=WorkerShard(w, 2, 2)),
            counts[0],
        )
        for w in range(2)
    ]
    pairs = sum(map(count_pairs, shards), collections.Counter())
    assert pairs == count_corpus_pairs(corpus.draw(0))
    summary = batching_summary(corpus, batching)
    assert summary.pairs == len(PAIRS)
    assert summary.source_tokens == corpus.draw(0).lengths[:, 0].sum()


def test_parts_of_a_mixture_are_drawn_as_if_alone(vocabulary):
    main = tokenize(vocabulary, PAIRS[:40])
    alone = sample(main, vocabulary)
    tag_ids = [5, 9]
    longest = int(tokenize(vocabulary, PAIRS[40:90]).lengths[:, 0].max())
    epochs = []
    for size in (40, 25):  # the second part's keys do not depend on the first's size
        parts = [
            tokenize(vocabulary, PAIRS[:size]),
            tag_sources(tokenize(vocabulary, PAIRS[40:90]), tag_ids, longest),
        ]
        joined = sample(join_corpora(parts), vocabulary)
        epochs.append(read(joined.draw(1)))
        kept = len(parts[1])
        assert 40 < kept < 50
    tagged = [epoch[-kept:] for epoch in epochs]
    for one, other, usual in zip(*tagged, read(parts[1]), strict=True):
        # Limits differ, so one may keep its usual ids where the other does not.
        assert one == other or usual in (one, other)
        assert list(one[0][:2]) == tag_ids
        assert vocabulary.decode(one[0][2:]) == vocabulary.decode(usual[0][2:])
    pairs = zip(epochs[0][:40], read(alone.draw(1)), read(main), strict=True)
    assert all(one == other or usual in (one, other) for one, other, usual in pairs)
    mixture = Mixture((25, kept), (1,))
    batching = make_batching(joined, "bucket", mixture)
    count = len(list(batching.plan(3, 1)))
    batches = TrainingBatches(joined, batching, seed=3, start=DataPosition(1))
    assert count_pairs(take(batches, count)) == count_corpus_pairs(joined.draw(1))


def test_a_pair_that_would_be_too_long_keeps_its_usual_ids(vocabulary):
    usual = tokenize(vocabulary, max_length=24)
    corpus = sample(usual, vocabulary, rate=0.9, max_length=24)
    assert len(corpus) == len(usual) < len(PAIRS)
    for epoch in range(3):
        drawn = read(corpus.draw(epoch))
        assert corpus.draw(epoch).lengths.max() <= 24
        changed = [a != b for a, b in zip(drawn, read(usual), strict=True)]
        assert 10 < sum(changed) < len(usual)
    # A later epoch is no longer than the shapes, which come from the first.
    limits = corpus.representative_lengths().max(axis=0)
    assert (limits == corpus.representative_lengths()[-1]).all()
    assert (corpus.draw(2).lengths <= limits).all()


def test_lengths_and_ids_across_epochs(corpus):
    size = len(corpus)
    numbers = np.array([2 * size + 3, 5, size + 3, 3, 2 * size + 5])
    lengths = corpus.pair_lengths(numbers)
    for side, sentences in enumerate((corpus.source, corpus.target)):
        tokens, side_lengths = sentences.gather(numbers)
        np.testing.assert_array_equal(side_lengths, lengths[:, side])
        rows = np.split(tokens, np.cumsum(side_lengths)[:-1])
        for row, number in zip(rows, numbers.tolist(), strict=True):
            expected = corpus.draw(number // size).pair(number % size)[side]
            np.testing.assert_array_equal(row, expected)
    assert corpus.source.lengths.shape == (size,)


def test_text_that_is_missing_or_has_changed(vocabulary):
    without = tokenize(vocabulary, keep_text=False)
    with pytest.raises(ValueError, match=r"made with its text\. Received: none"):
        sample(without, vocabulary)
    with_text = tokenize(vocabulary)
    source, target = zip(*PAIRS[:-1], strict=True)
    lines = [line.encode() for line in source], [line.encode() for line in target]
    object.__setattr__(with_text, "texts", (KeptText(lambda: iter([lines])),))
    with pytest.raises(UserError, match=r"had 130 pairs at the start, and its text h"):
        sample(with_text, vocabulary)


def test_a_full_disk_is_reported(vocabulary, monkeypatch):
    def fail():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(UserError, match=r"No space left .* set TMPDIR to another"):
        sample(tokenize(vocabulary), vocabulary)
