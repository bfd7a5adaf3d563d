"""Transformer as a Keras model: dropout by `training`, saving, exporting."""

import dataclasses
import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.model.options import TransformerOptions
from t2t_keras.model.transformer import Transformer
from tests.model.architectures import architectures
from tests.model.small_model import (
    CONFIG,
    compute_logits,
    shared_model,
    small_batch,
    small_model,
    small_weights,
)

# --- Dropout


def test_training_drops_and_inference_does_not() -> None:
    model, batch = shared_model(dropout_rate=0.3), small_batch()
    plain = compute_logits(model, batch)
    np.testing.assert_array_equal(compute_logits(model, batch, training=False), plain)
    first, second = (compute_logits(model, batch, training=True) for _ in range(2))
    # Every output changes with dropout, and no two calls agree.
    assert (first != plain).mean() > 0.99
    assert (first != second).mean() > 0.99
    # Rows drop apart from each other.
    same = {name: np.repeat(part[:1], 4, axis=0) for name, part in batch.items()}
    logits = compute_logits(model, same, training=True)
    for row in range(1, 4):
        assert (logits[0] != logits[row]).mean() > 0.99, f"rows 0 and {row}"


def test_the_seed_of_keras_seeds_dropout() -> None:
    def trained_answer() -> np.ndarray:
        keras.utils.set_random_seed(8)
        model = small_model(small_weights(), dropout_rate=0.3)
        return compute_logits(model, small_batch(), training=True)

    np.testing.assert_array_equal(trained_answer(), trained_answer())


def test_keys_take_precedence_over_training() -> None:
    model, batch = shared_model(dropout_rate=0.3), small_batch()
    keys = np.arange(5, dtype="uint32")
    keyed = compute_logits(model, batch, dropout_keys=keys)
    np.testing.assert_array_equal(
        compute_logits(model, batch, training=True, dropout_keys=keys), keyed
    )


# --- Building


def test_a_new_model_can_do_what_keras_asks_of_a_built_one(tmp_path) -> None:
    keras.utils.set_random_seed(4)
    new, other, batch = Transformer(**CONFIG), Transformer(**CONFIG), small_batch()
    assert new.count_params() == sum(np.prod(weight.shape) for weight in new.weights)
    before = [weight.numpy() for weight in new.weights]
    new.build()
    new.build(None)
    for weight, value in zip(new.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    summary: list[str] = []
    new.summary(print_fn=summary.append)
    assert "decoder (Decoder)" in "".join(summary)
    new.save_weights(tmp_path / "new.weights.h5")
    assert np.abs(compute_logits(other, batch) - compute_logits(new, batch)).max() > 0.1
    other.load_weights(tmp_path / "new.weights.h5")
    np.testing.assert_array_equal(
        compute_logits(other, batch), compute_logits(new, batch)
    )


# --- Saving and exporting


def test_random_state_is_in_no_variable_and_no_file(tmp_path) -> None:
    model = shared_model(dropout_rate=0.3)
    compute_logits(model, small_batch(), training=True)
    assert len(model.variables) == len(model.weights)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.variables) == len(model.weights)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{}, {"learned_positions": 11}])
def test_kerass_export_takes_token_ids(tmp_path, changed) -> None:
    model = Transformer(**{**CONFIG, "num_layers": 1}, dropout_rate=0.3, **changed)
    batch = small_batch()
    model.export(tmp_path / "export", verbose=False)  # never called before
    exported = tf.saved_model.load(str(tmp_path / "export"))
    assert len(exported.variables) == len(model.weights)  # no random state
    tensors = {name: tf.constant(part) for name, part in batch.items()}
    np.testing.assert_allclose(
        exported.serve(tensors), compute_logits(model, batch), rtol=0, atol=2e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("architecture", architectures(), ids=lambda one: one.name)
def test_other_architectures_are_saved_and_loaded(tmp_path, architecture) -> None:
    model, batch = architecture.model(), small_batch()
    expected = compute_logits(model, batch)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_allclose(compute_logits(loaded, batch), expected, atol=1e-6)
    assert json.loads(json.dumps(model.get_config())) == model.get_config()
    # In a program compiled by XLA.
    compiled = tf.function(model, jit_compile=True, autograph=False)
    tensors = {name: tf.constant(part) for name, part in batch.items()}
    np.testing.assert_allclose(compiled(tensors), expected, atol=1e-4)


def test_a_configuration_makes_the_same_model() -> None:
    model = small_model(
        small_weights(), dropout_rate=0.3, attention_dropout_rate=0.2, name="mine"
    )
    again = Transformer.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert again.name == "mine"


def test_keras_functional_api_takes_it_as_a_layer() -> None:
    model, batch = shared_model(), small_batch()
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in batch}
    functional = keras.Model(inputs, keras.layers.Softmax()(model(inputs)))
    probabilities = np.asarray(functional(batch))
    logits = compute_logits(model, batch).astype("float64")
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)


def test_the_signature_has_every_option_and_keras_arguments() -> None:
    parameters = inspect.signature(Transformer).parameters
    assert next(iter(parameters)) == "vocabulary_size"
    options = {field.name for field in dataclasses.fields(TransformerOptions)}
    kerass = {"name", "dtype", "trainable", "autocast", "activity_regularizer"}
    assert set(parameters) == options | kerass
    assert set(Transformer(**CONFIG).sizes) == options
    assert parameters["d_model"].default == 512
    message = r"no argument 'd_modl'.*Did you mean d_model\?"
    with pytest.raises(UserError, match=message):
        Transformer(17, d_modl=10)


def test_inputs_that_are_no_dict_of_ids_are_refused() -> None:
    model, batch = shared_model(), small_batch()
    source, target = batch.values()
    for inputs, received in (
        ((source, target), "tuple"),
        ([source, target], "list"),
        (source, "EagerTensor"),
        ({"encoder_input_tokens": source}, r"a dict with \['encoder_input_tokens'\]"),
        (
            {**batch, "decoder_input_tokens": target[0]},
            r"decoder_input_tokens of shape \(6,\)",
        ),
    ):
        message = rf"takes a dict .*\[B, S\] int and .*\[B, T\].* Received: {received}"
        with pytest.raises(UserError, match=message):
            model(inputs)
