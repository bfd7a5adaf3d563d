"""Transformers whose subclasses make other layers: examples/rms_norm_model.py."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.rms_norm_model import GatedTransformer
from t2t_keras.errors import UserError
from t2t_keras.model.encoder import EncoderLayer
from t2t_keras.model.options import TransformerOptions
from t2t_keras.model.transformer import Transformer
from t2t_keras.settings.model_config import LayerOptions
from tests.model.copy_weights import randomize
from tests.model.small_model import CONFIG, H, compute_logits, small_batch
from tests.model.test_decode_step import parallel_logits, step_logits
from tests.reference import gated_np
from tests.reference.weights_np import Array, AttentionWeights, Weights

EPSILON = 1e-2


def gated_model(**changed: Any) -> GatedTransformer:
    arguments = {**CONFIG, "layer_norm_epsilon": EPSILON, **changed}
    model = GatedTransformer(**arguments)
    randomize(model, np.random.default_rng(51))
    return model


def read(weight: Any) -> Array:
    return np.asarray(weight, "float64")


def read_attention(layer: Any) -> AttentionWeights:
    def split(kernel: Any) -> Array:
        return read(kernel).reshape(kernel.shape[0], H, -1)

    return AttentionWeights(
        query=split(layer.query_kernel),
        key=split(layer.key_kernel),
        value=split(layer.value_kernel),
        output=read(layer.output_kernel).reshape(H, -1, layer.output_kernel.shape[1]),
    )


def read_layer(layer: Any) -> gated_np.GatedLayerWeights:
    cross = getattr(layer, "cross_attention", None)
    residuals = [layer.attention_residual, layer.feed_forward_residual]
    if cross is not None:
        residuals.insert(1, layer.cross_residual)
    return gated_np.GatedLayerWeights(
        self_attention=read_attention(layer.attention),
        cross_attention=None if cross is None else read_attention(cross),
        gate=read(layer.feed_forward.gate.kernel),
        inner=read(layer.feed_forward.inner.kernel),
        outer=read(layer.feed_forward.outer.kernel),
        norms=[read(residual.norm.scale) for residual in residuals],
    )


def read_model(model: GatedTransformer) -> gated_np.GatedWeights:
    last = [stack.norm for stack in (model.encoder, model.decoder)]
    return gated_np.GatedWeights(
        shared=Weights(read(model.embedding.embeddings), (), ()),
        encoder_layers=[read_layer(layer) for layer in model.encoder.layers],
        decoder_layers=[read_layer(layer) for layer in model.decoder.layers],
        last_norms=None if None in last else (read(last[0].scale), read(last[1].scale)),
        epsilon=EPSILON,
    )


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_the_example_computes_its_formulas(normalization: str) -> None:
    model, batch = gated_model(normalization=normalization), small_batch()
    weights = read_model(model)
    assert (weights.last_norms is None) == (normalization == "post")
    rows = zip(*batch.values(), strict=True)
    expected = np.array([gated_np.transformer(*row, weights) for row in rows])
    np.testing.assert_allclose(compute_logits(model, batch), expected, atol=5e-5)


def test_gradients_reach_every_weight_of_the_example() -> None:
    model = gated_model(normalization="pre", dropout_rate=0.1)
    with tf.GradientTape() as tape:
        logits = model(small_batch(), dropout_keys=np.arange(5, dtype="uint32"))
        loss = tf.reduce_sum(logits * np.random.default_rng(52).normal(size=17))
    gradients = tape.gradient(loss, [weight.value for weight in model.weights])
    for weight, gradient in zip(model.weights, gradients, strict=True):
        values = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(values).all() and values.any(), weight.path


def test_decoding_steps_of_the_example_are_the_whole() -> None:
    model = gated_model(normalization="pre")
    np.testing.assert_allclose(step_logits(model), parallel_logits(model), atol=5e-5)


def test_the_example_is_saved_and_loaded(tmp_path) -> None:
    model, batch = gated_model(), small_batch()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is GatedTransformer
    assert loaded.get_config() == model.get_config()
    expected = compute_logits(model, batch)
    np.testing.assert_array_equal(compute_logits(loaded, batch), expected)
    half = GatedTransformer(**model.sizes, dtype="bfloat16")
    assert {weight.dtype for weight in half.weights} == {"bfloat16"}
    assert [w.shape for w in half.weights] == [w.shape for w in model.weights]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledOptions(TransformerOptions):
    """An option more: the factor of a layer's number."""

    factor: float = 0.5


class ScaledLayer(EncoderLayer):
    """Encoder layer that multiplies its output, and has a norm of its own."""

    factor = 1.0

    def make_norm(self, **kwargs: Any) -> keras.layers.Layer:
        return keras.layers.RMSNormalization(**kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return super().call(*args, **kwargs) * self.factor


class ScaledTransformer(Transformer):
    """Transformer with an option and an encoder layer of its own."""

    options_class = ScaledOptions

    def make_encoder_layer(self, index: int, **kwargs: Any) -> ScaledLayer:
        layer = ScaledLayer(self.options, **kwargs)
        layer.factor = 1 + index * self.options.factor
        return layer


def test_a_subclass_has_layers_and_options_of_its_own() -> None:
    model = ScaledTransformer(**CONFIG, factor=3.0)
    assert [layer.factor for layer in model.encoder.layers] == [1.0, 4.0]
    assert len(model.encoder.layers[1].attention_residual.norm.weights) == 1
    assert len(model.decoder.layers[1].attention_residual.norm.weights) == 2
    assert model.sizes["factor"] == 3.0
    again = ScaledTransformer.from_config(model.get_config())
    assert again.encoder.layers[1].factor == 4.0
    assert again.options == dataclasses.replace(model.options, **model.sizes)
    with pytest.raises(UserError, match=r"no argument 'factr'.*Did you mean factor\?"):
        ScaledTransformer(**CONFIG, factr=3.0)


def test_a_layer_has_a_configuration_if_it_makes_its_own_parts() -> None:
    options = LayerOptions(d_model=6, num_heads=2, d_ff=5)
    own = ScaledLayer(options, name="own")
    again = ScaledLayer.from_config(own.get_config())
    assert again.options == options
    assert type(again.attention_residual.norm) is keras.layers.RMSNormalization
    Transformer(**CONFIG).encoder.layers[0].get_config()
    message = "GatedTransformer.make_feed_forward makes has no configuration"
    with pytest.raises(UserError, match=message):
        gated_model().encoder.layers[0].get_config()
