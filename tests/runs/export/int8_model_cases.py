"""Models of int8 products; test_int8.py runs these tests with oneDNN."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.ops import convert_to_numpy as to_numpy

from examples.rms_norm_model import GatedTransformer
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.shortlist import Shortlist
from t2t_keras.decoding.transformer_search import search_translations, target_log_probs
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.export import int8_model
from t2t_keras.text.padding import shift_right

V, SOURCE_V = 67, 71
SIZES = {"d_model": 24, "num_heads": 3, "d_k": 7, "d_v": 5, "d_ff": 40}
SOURCES = np.array(
    [[5, 9, 66, 1, 0, 0], [7, 12, 33, 41, 8, 1], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
)
TARGETS = np.array([[4, 3, 9, 61, 1], [21, 1, 0, 0, 0], [0] * 5, [8, 55, 13, 1, 0]])
SETTINGS = BeamSearchSettings(beam_size=3, alpha=0.6)
PAPER = {}
OTHER = {
    "attention_bias": True,
    "output_bias": True,
    "share_embeddings": False,
    "tie_output": False,
    "source_vocabulary_size": SOURCE_V,
    "normalization": "pre",
    "activation": "swish",
    "learned_positions": 29,
    "decoder_start": 3,
}


def random_model(model_class=Transformer, **options):
    """Returns a model with weights far from those of a new one, biases included."""
    keras.utils.set_random_seed(1)
    model = model_class(V, encoder_layers=2, decoder_layers=1, **{**SIZES, **options})
    random = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign(weight + random.normal(scale=0.2, size=weight.shape))
    return model


def logits_of(model):
    inputs = {
        "encoder_input_tokens": tf.constant(SOURCES),
        "decoder_input_tokens": shift_right(tf.constant(TARGETS)),
    }
    return model(inputs).numpy()[TARGETS != 0]


def relative_error(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def test_products_are_those_of_integers():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(3, 5, 23)) * [[[9.0]], [[0.1]], [[1.0]]]
    inputs[1, 2] = 0.0
    # All of one sign, where sums of two products in 16 bits would overflow.
    weights = [random.uniform(0.0, 1.0, (23, columns)) for columns in (41, 6)]
    weights[0][:, 3] = 0.0
    kernel = int8_model.Int8Kernel(*weights)
    found = kernel.multiply(tf.constant(inputs, tf.float32)).numpy()
    step = np.maximum(np.abs(inputs).max(axis=2, keepdims=True), 1e-30) / 127
    columns = np.concatenate(weights, axis=1)
    scale = np.maximum(columns.max(axis=0), 1e-30) / 64
    expected = np.round(inputs / step) @ np.round(columns / scale) * step * scale
    # Rounding may take another side, in float32, of one input or weight among many.
    error = np.abs(found - expected) / (step * scale * 127)
    assert error.max() < 1.01
    assert np.median(error) < 1e-4


class FloatKernel:
    """In place of `Int8Kernel`: a kernel that is not rounded."""

    def __init__(self, *weights):
        self._kernel = np.concatenate([to_numpy(each) for each in weights], axis=1)

    def multiply(self, inputs):
        return inputs @ self._kernel


@pytest.mark.parametrize("model_class", [Transformer, GatedTransformer])
@pytest.mark.parametrize("options", [PAPER, OTHER, {"encoder_neighborhood": 3}])
def test_without_rounding_it_is_the_model(options, model_class, monkeypatch):
    model = random_model(model_class, **options)
    random = np.random.default_rng(4)
    for weight in model.vocabulary_weights + model.source_vocabulary_weights:
        if len(weight.shape) == 2:  # no bias
            # Exact in int8: the largest of each row is a power of 2.
            integers = random.integers(-64, 65, weight.shape)
            integers[:, 5] = 64
            weight.assign(integers / 2.0 ** random.integers(6, 9, (len(integers), 1)))
    with monkeypatch.context() as patched:
        patched.setattr(int8_model, "Int8Kernel", FloatKernel)
        exact = int8_model.quantize(model)
    expected = logits_of(model)
    assert relative_error(logits_of(exact), expected) < 1e-5
    steps = search_translations(exact, tf.constant(SOURCES), SETTINGS, 4)
    scores = target_log_probs(model, tf.constant(SOURCES), steps.tokens[:, 0])
    np.testing.assert_allclose(steps.log_probs[:, 0], tf.reduce_sum(scores, 1), 1e-5)
    rounded = int8_model.quantize(model)
    assert 0.0005 < relative_error(logits_of(rounded), expected) < 0.12
    assert rounded.count_params() == model.count_params()
    assert int8_model.precision_of(rounded) == "int8"
    assert int8_model.precision_of(model) == "float32"
    inputs = tf.constant(SOURCES), shift_right(tf.constant(TARGETS))
    for found, whole in zip(
        attention_maps(exact, *inputs), attention_maps(model, *inputs), strict=True
    ):
        np.testing.assert_allclose(found, whole, atol=1e-5)


@pytest.mark.parametrize("options", [PAPER, OTHER])
def test_searches_find_the_scores_of_whole_targets(options):
    model = random_model(**options)
    quantized = int8_model.quantize(model)
    search = tf.function(lambda ids: search_translations(quantized, ids, SETTINGS, 4))
    found = search(tf.constant(SOURCES))
    tokens = found.tokens[:, 0]
    scores = target_log_probs(quantized, tf.constant(SOURCES), tokens)
    np.testing.assert_allclose(found.log_probs[:, 0], tf.reduce_sum(scores, 1), 1e-5)
    exact = target_log_probs(model, tf.constant(SOURCES), tokens)
    np.testing.assert_allclose(scores, exact, atol=1.0)
    greedy = search_translations(
        quantized, tf.constant(SOURCES), BeamSearchSettings(beam_size=1), 4
    )
    np.testing.assert_array_equal(
        greedy.tokens[:2, 0, :9],
        quantized.generate(SOURCES, extra_length=4)[:2, :9],
    )
    # A sentence alone has the result that it has in its batch, bit for bit.
    alone = search(tf.constant(SOURCES[1:2]))
    np.testing.assert_array_equal(alone.log_probs[0], found.log_probs[1])


@pytest.mark.parametrize("options", [{"output_bias": True}, {"tie_output": False}])
def test_a_shortlist_has_the_rows_of_the_vocabulary(options):
    quantized = int8_model.quantize(random_model(**options))
    random = np.random.default_rng(3)
    candidates = random.integers(3, V, (V, 4))
    shortlist = Shortlist(candidates, random.uniform(size=(V, 4)), 30)
    ids = tf.constant(SOURCES)
    found = search_translations(quantized, ids, SETTINGS, 4, shortlist=shortlist)
    exact = target_log_probs(quantized, ids, found.tokens[:, 0])
    # The others of the vocabulary take part in neither sum of a shortlist.
    assert (found.log_probs[:2, 0] > tf.reduce_sum(exact, 1)[:2]).numpy().all()
    embedding, hidden = quantized.embedding, random.normal(size=(2, 3, 24))
    hidden = tf.constant(hidden, tf.float32)
    tokens = tf.constant([[4, 66, 9], [0, 33, 2]])
    few = embedding.logits(hidden, embedding.output_rows(tokens))
    every = tf.gather(embedding.logits(hidden), tokens, axis=2, batch_dims=1)
    assert relative_error(few.numpy(), every.numpy()) < 0.02


def test_layers_of_other_classes_stay_as_they_are():
    model = random_model(GatedTransformer)
    quantized = int8_model.quantize(model)
    assert isinstance(quantized, GatedTransformer)
    feed_forward = quantized.encoder.layers[0].feed_forward
    assert type(feed_forward) is type(model.encoder.layers[0].feed_forward)
    kernel = feed_forward.inner.kernel
    assert any(weight is kernel for weight in quantized.weights)


def test_the_weights_are_those_that_are_read():
    quantized = int8_model.quantize(random_model(**OTHER))
    names = {weight.path.rpartition("/")[2] for weight in quantized.weights}
    assert names == {
        *("int8_embeddings", "int8_embeddings_scale"),
        *("int8_output_matrix", "int8_output_matrix_scale", "output_bias"),
        *("positions", "gamma", "beta", "bias"),
        *(f"{each}_bias" for each in ("query", "key", "value", "output")),
    }
