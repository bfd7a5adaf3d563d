"""Integration of settings, data, model, loss and search, as built by `runs`."""

import collections
import dataclasses
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.dropout import Dropout
from t2t_keras.model.layers import FeedForward
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models, translators
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.training import optimization
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.flags import config_from_flagfile
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.training import step
from tests.forked import REPOSITORY
from tests.reference import transformer_np
from tests.runs.random_model import (
    CONFIG,
    make_scorer,
    random_lines,
    random_model,
)
from tests.runs.reverse_task import write_split


@pytest.fixture(scope="module")
def model(vocabulary):
    return random_model(vocabulary, num_layers=1)


def test_only_the_run_seeds_a_new_model():
    random.seed(5)
    expected = random.random()
    random.seed(5)
    first = models.build_model(CONFIG, 30)
    assert random.random() == expected
    second = models.build_model(CONFIG, 30)
    for a, b in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_source_is_cut_where_learned_positions_end():
    def build_model(learned_positions, first_position=0):
        sizes = dataclasses.replace(
            CONFIG.model,
            learned_positions=learned_positions,
            first_position=first_position,
        )
        return models.build_model(dataclasses.replace(CONFIG, model=sizes), 300)

    assert translators.longest_source(build_model(31)) == 31
    assert translators.longest_source(build_model(31, 2)) == 29
    assert translators.longest_source(build_model(2000)) == 512
    assert translators.longest_source(build_model(None)) == 512


def test_the_decoder_starts_from_a_piece_of_the_vocabulary(vocabulary):
    def find(piece):
        config = dataclasses.replace(CONFIG.model, decoder_start=piece)
        return models.find_decoder_start(config, vocabulary)

    assert find("zero") == "zero"
    assert find("</s>") == 1
    piece = vocabulary.pieces([37])[0]
    assert find(piece) == 37
    message = "--decoder_start must be zero or a piece of the vocabulary.*such as </s>"
    for other in ("<s>", "<pad>", "", f"{piece}x"):
        with pytest.raises(UserError, match=f"{message}.*Received: {other}$"):
            find(other)
    model = dataclasses.replace(CONFIG.model, decoder_start="</s>")
    config = dataclasses.replace(CONFIG, model=model)
    assert models.build_model(config, 300, 1).sizes["decoder_start"] == 1
    for wrong, start in ((config, "zero"), (CONFIG, 1)):
        with pytest.raises(ValueError, match="decoder_start must be the id"):
            models.build_model(wrong, 300, start)


def test_new_weights_are_those_of_keras_and_leave_the_callers_random_state():
    keras.utils.set_random_seed(CONFIG.training.seed)
    expected = Transformer(300, **CONFIG.model.architecture())
    expected.build()
    keras.utils.set_random_seed(8)
    drawn = random.random(), np.random.rand(), float(tf.random.uniform([]))
    keras.utils.set_random_seed(8)
    model = models.build_model(CONFIG, 300)
    assert (random.random(), np.random.rand(), float(tf.random.uniform([]))) == drawn
    for weight, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(weight, other)


def test_sizes_and_precision_are_those_of_the_settings():
    training = dataclasses.replace(CONFIG.training, precision="bfloat16")
    sizes = dataclasses.replace(CONFIG.model, attention_dropout_rate=0.3)
    config = dataclasses.replace(CONFIG, model=sizes, training=training)
    model = models.build_model(config, 300)
    assert model.sizes == {
        **sizes.architecture(),
        "vocabulary_size": 300,
        "source_vocabulary_size": None,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "decoder_start": "zero",
    }
    assert model.compute_dtype == "bfloat16"
    assert {weight.dtype for weight in model.weights} == {"float32"}


def trace_model(config, patch):
    """Returns the model of a config, and how often each layer had each output shape."""
    calls, call = collections.Counter(), keras.layers.Layer.__call__

    def record(layer, *arguments, **keywords):
        result = call(layer, *arguments, **keywords)
        calls[type(layer).__name__, tuple(result.shape)] += 1
        return result

    # Variables of a graph take no memory.
    with tf.Graph().as_default():
        model = models.build_model(config, config.data.vocabulary_size)
        source, target = tf.zeros([3, 7], tf.int32), tf.zeros([3, 5], tf.int32)
        patch.setattr(keras.layers.Layer, "__call__", record)
        model({"encoder_input_tokens": source, "decoder_input_tokens": target})
    return model, calls


@pytest.mark.parametrize(
    ("name", "layers", "width", "dropped", "weights_dropped"),
    # The paper's parser has both kinds of dropout; it does not give the rates.
    [
        ("base", 6, 512, 0.1, 0.0),
        pytest.param("parsing_wsj", 4, 1024, 0.2, 0.2, marks=pytest.mark.slow),
    ],
)
def test_the_papers_models_have_its_depth_and_width(
    name, layers, width, dropped, weights_dropped, monkeypatch
):
    """Section 3 (base) and 6.3 (parser): N layers in both stacks, all d_model wide."""
    config = config_from_flagfile(REPOSITORY / f"configs/{name}.flags")
    model, calls = trace_model(config, monkeypatch)
    encoder, decoder = (3, 7, width), (3, 5, width)
    expected = {("SharedEmbedding", shape): 1 for shape in (encoder, decoder)}
    expected |= {("SinusoidalPositionEncoding", s): 1 for s in (encoder, decoder)}
    for each, shape, attentions in (("En", encoder, 1), ("De", decoder, 2)):
        expected[f"{each}coderLayer", shape] = layers
        expected["MultiHeadAttention", shape] = attentions * layers
        expected["FeedForward", shape] = layers
        expected["ResidualNorm", shape] = (attentions + 1) * layers
    kinds = {kind for kind, _ in expected}
    assert {key: calls[key] for key in calls if key[0] in kinds} == expected
    sizes = collections.defaultdict(set)
    for part in model._flatten_layers():
        if isinstance(part, MultiHeadAttention):
            sizes["heads"].add((part.num_heads, part.d_k, part.d_v))
        elif isinstance(part, FeedForward):
            sizes["inner"].add(tuple(part.inner.kernel.shape))
        elif isinstance(part, Dropout):
            sizes[type(part).__name__].add(part.dropout_rate)
    assert sizes == {
        "heads": {(8, width // 8, width // 8)},
        "inner": {(width, 2048)},
        "Dropout": {dropped},
        "AttentionDropout": {weights_dropped},
    }


def test_the_optimizer_follows_the_settings():
    training = dataclasses.replace(
        CONFIG.training, warmup_steps=10, learning_rate_scale=3.0
    )
    config = dataclasses.replace(CONFIG, training=training)
    model = models.build_model(config, 300)
    optimizer = optimization.build_optimizer(config, model)
    # Equation 3 at the first update and at its peak.
    rate = optimizer._learning_rate
    assert float(rate(0)) == pytest.approx(3 * 26**-0.5 * 10**-1.5, rel=1e-6)
    assert float(rate(9)) == pytest.approx(3 * 26**-0.5 * 10**-0.5, rel=1e-6)
    slots = len(optimizer.variables)
    assert slots >= 2 * len(model.trainable_variables)  # the optimizer is built


def dev_corpus(vocabulary, num_pairs=37):
    pairs = {
        "source": random_lines(num_pairs, seed=8),
        "target": random_lines(num_pairs, seed=9),
    }
    dataset = tf.data.Dataset.from_tensor_slices(pairs)
    return tokenize_corpus(dataset, vocabulary, CONFIG.data.max_length)


@pytest.fixture(scope="module")
def stepper(model):
    strategy = tf.distribute.get_strategy()
    return optimization.build_stepper(CONFIG.training, model, None, strategy)


@pytest.mark.slow
def test_dev_loss_does_not_depend_on_the_batches(model, vocabulary, stepper):
    read = make_scorer(model)
    corpus = dev_corpus(vocabulary)
    pairs = [corpus.pair(i) for i in range(len(corpus))]
    expected = -sum(read(s.tolist(), t.tolist()) for s, t in pairs)
    for tokens_per_batch in (24, 4096):
        data = dataclasses.replace(CONFIG.data, tokens_per_batch=tokens_per_batch)
        batches = from_settings.build_evaluation(data, corpus)
        sums = step.loss_sums(stepper, batches)
        assert sums.token_count == sum(len(target) for _, target in pairs)
        assert sums.log_loss_sum == pytest.approx(expected, rel=2e-6)
        # Without label smoothing and dropout, which training uses.
        assert sums.loss_sum == pytest.approx(expected, rel=2e-6)


@pytest.mark.slow
def test_training_smooths_labels_as_configured(vocabulary):
    """Section 5.4, computed token by token from the logits, without dropout."""
    smoothing = 0.3
    sizes = dataclasses.replace(CONFIG.model, dropout_rate=0.0)
    training = dataclasses.replace(
        CONFIG.training, label_smoothing=smoothing, jit_compile=False
    )
    config = dataclasses.replace(CONFIG, model=sizes, training=training)
    model = models.build_model(config, vocabulary.size)
    stepper = optimization.build_stepper(
        training,
        model,
        optimization.build_optimizer(config, model),
        tf.distribute.get_strategy(),
    )
    batch = next(
        iter(from_settings.build_evaluation(CONFIG.data, dev_corpus(vocabulary)))
    )
    logits_BTV = ops.convert_to_numpy(model(batch)).astype("float64")
    targets = batch["decoder_target_tokens"]
    costs_BT = np.array([
        transformer_np.label_smoothed_cross_entropy(logits, row, smoothing)
        for logits, row in zip(logits_BTV, targets, strict=True)
    ])  # fmt: skip
    expected = (costs_BT * (targets != 0)).sum()
    assert (targets == 0).any() and expected > 100
    sums = stepper.compile_step(batch).losses
    assert float(sums.loss_sum) == pytest.approx(expected, rel=1e-5)


def test_a_target_without_its_source_is_refused():
    with pytest.raises(UserError, match="--dev_target also needs --dev_source"):
        from_settings.build_corpus(DataConfig(dataset="copy_task", dev_target=("x",)))


def test_text_files_replace_the_dataset_of_a_flagfile(tmp_path):
    write_split(tmp_path, "train", [("a b", "b a")])
    data = DataConfig(
        dataset="wmt14_translate/de-en",
        train_source=(str(tmp_path / "train.source"),),
        train_target=(str(tmp_path / "train.target"),),
    )
    assert list(from_settings.build_corpus(data).splits) == ["train"]
    # Only the requested splits are opened; here, none.
    assert list(from_settings.build_corpus(data, ("test",)).splits) == []


def test_a_vocabulary_is_learned_from_both_sides_or_read(tmp_path, vocabulary):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("\n".join(["aab aab"] * 9))
    target.write_text("\n".join(["xxy xxy"] * 9))
    corpus = open_corpus(files={"train": ([source], [target])})
    data = DataConfig(vocabulary_size=268)
    learned = from_settings.build_vocabulary(data, corpus)
    assert learned.size == 268
    assert len(learned.encode("aab")) == len(learned.encode("xxy")) < 4
    path = tmp_path / "given.model"
    vocabulary.save(path)
    read = from_settings.build_vocabulary(
        dataclasses.replace(data, vocabulary_file=str(path)), corpus
    )
    assert read.sha256 == vocabulary.sha256


def test_another_vocabulary_s_checkpoint_is_refused(tmp_path, vocabulary):
    models.check_fingerprint(tmp_path, {"vocabulary": vocabulary.sha256}, vocabulary)
    with pytest.raises(UserError, match="was trained with another vocabulary: SHA-256"):
        models.check_fingerprint(tmp_path, {"vocabulary": "0" * 64}, vocabulary)


def test_the_batching_strategy_follows_the_settings(vocabulary):
    corpus = dev_corpus(vocabulary)
    data = dataclasses.replace(CONFIG.data, tokens_per_batch=48, max_shapes=3)
    buckets = from_settings.build_batching_strategy(data, corpus)
    assert not buckets.packed
    assert 1 < len(buckets.shapes) <= 3
    packed = from_settings.build_batching_strategy(
        dataclasses.replace(data, batching="pack"), corpus
    )
    assert packed.packed
    for strategy in (buckets, packed):
        for shape in strategy.shapes:
            assert shape.rows == 48 // max(shape.source_bound, shape.target_bound)


@pytest.mark.parametrize(
    ("precision", "asked_for", "expected"),
    [
        ("float32", True, True),
        ("float32", False, False),
        ("float16", True, True),
        ("bfloat16", True, False),
    ],
)
def test_xla_is_used_where_it_is_faster(precision, asked_for, expected) -> None:
    training = TrainingConfig(precision=precision, jit_compile=asked_for)
    assert optimization.uses_xla(training) == expected
    assert optimization.uses_xla(training, "gpu") == asked_for
