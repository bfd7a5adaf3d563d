"""Packed batches: the same loss and gradients as unpacked ones, pipeline included."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.records.token_links import (
    PieceSpaces,
    TokenLinks,
    read_word_links,
    select_rows,
)
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.runs import models
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.training import optimization
from t2t_keras.text.word_alignments import format_links, split_words
from t2t_keras.training import step
from tests.devices import cpu_strategy
from tests.runs.random_model import CONFIG, random_lines

PAIRS = 37


@pytest.fixture(scope="module")
def corpus(vocabulary):
    pairs = {
        "source": random_lines(PAIRS, seed=8),
        "target": random_lines(PAIRS, seed=9),
    }
    dataset = tf.data.Dataset.from_tensor_slices(pairs)
    tokenized = tokenize_corpus(dataset, vocabulary, CONFIG.data.max_length)
    texts = [[line.encode() for line in side] for side in pairs.values()]
    generator = np.random.default_rng(4)
    lines = []
    for pair in zip(*texts, strict=True):
        links = np.argwhere(
            generator.random([len(split_words(text)) for text in pair]) < 0.3
        )
        lines.append(format_links(links.tolist()).encode())
    words = read_word_links([(texts[0], texts[1])], lines, "links")
    words = select_rows(words, tokenized.is_kept)
    spaces = PieceSpaces.from_vocabulary(vocabulary)
    sides = tokenized.source, tokenized.target
    links = TokenLinks(words, *sides, (spaces, spaces), len(tokenized))
    return dataclasses.replace(tokenized, links=links)


def one_update(corpus, vocabulary, strategy, r_drop=0.0, **data):
    """Returns sums and momenta of an update on one batch of the whole corpus."""
    settings = dataclasses.replace(CONFIG.data, tokens_per_batch=1500, **data)
    batching = from_settings.build_batching_strategy(settings, corpus)
    assert len(list(batching.plan(0, 0))) == 1
    training = dataclasses.replace(CONFIG.training, guided_alignment=0.7, r_drop=r_drop)
    config = dataclasses.replace(
        CONFIG, model=dataclasses.replace(CONFIG.model, num_layers=1, dropout_rate=0.0)
    )
    with strategy.scope():
        model = models.build_model(config, vocabulary.size)
        optimizer = optimization.build_optimizer(config, model)
    stepper = optimization.build_stepper(
        training, model, optimizer, strategy, packed=batching.packed
    )
    batches = TrainingBatches(corpus, batching, seed=3).dataset()
    (batch,) = batches.take(1).as_numpy_iterator()
    sums = stepper.train(batch)
    # Evaluation batches are never packed, and have no links.
    dev = dataclasses.replace(corpus, links=None)
    dev_batches = from_settings.build_evaluation(settings, dev)
    dev = step.loss_sums(stepper, dev_batches)
    assert dev.token_count == corpus.lengths[:, 1].sum()
    momenta = [v.value.numpy() for v in optimizer.variables if "momentum" in v.path]
    return [float(x) for x in (*sums.losses, sums.gradient_norm)], momenta


@pytest.mark.slow
def test_packed_or_not_the_update_is_the_same(corpus, vocabulary) -> None:
    one = tf.distribute.get_strategy()
    sums, gradients = one_update(corpus, vocabulary, one, max_shapes=1)
    # Packed rows on two replicas; a row of padding makes their shards equal.
    two = cpu_strategy(2)
    # R-Drop makes no difference without dropout.
    packed_sums, packed_gradients = one_update(
        corpus, vocabulary, two, r_drop=3.0, batching="pack"
    )
    np.testing.assert_allclose(packed_sums, sums, rtol=1e-6)
    assert len(gradients) == len(packed_gradients) > 20
    for packed, expected in zip(packed_gradients, gradients, strict=True):
        # After one update, momentum is proportional to the gradient.
        size = np.linalg.norm(expected)
        assert size > 0
        assert np.linalg.norm(packed - expected) < 2e-6 * size
