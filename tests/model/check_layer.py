"""Checks for every layer: config, build, tracing, XLA, gradients, dtypes."""

import json
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.model.check_arguments import check_dropout_keys, check_masks
from tests.model.copy_weights import randomize
from tests.model.layer_case import Case


def check_layer(case: Case, rng: np.random.Generator) -> None:
    layer = case.make()
    case.call(layer)
    randomize(layer, rng)
    config = layer.get_config()
    for name, value in case.config.items():
        assert set(find_values(config, name)) == {value}, name
    assert case.layer_class.from_config(config).get_config() == config
    json.dumps(config)
    check_build(case, layer)
    check_traced(case, layer)
    check_gradients(case, layer, rng)
    check_dtypes(case, layer)
    check_masks(case, layer, rng)
    if "dropout_keys" in case.inputs:
        check_dropout_keys(case, layer)


def find_values(config: Any, name: str) -> Iterator[Any]:
    """Yields the values of a name in a configuration and in those inside it."""
    if isinstance(config, list):
        for item in config:
            yield from find_values(item, name)
    if isinstance(config, dict):
        if name in config:
            yield config[name]
        for item in config.values():
            yield from find_values(item, name)


def check_build(case: Case, layer: Any) -> None:
    built = case.make()
    # An input may be a dict of tensors. Weights do not depend on masks and keys.
    names = [name for name in case.inputs if not name.endswith(("mask", "keys"))]
    inputs = [case.inputs[name] for name in names]
    built.build(*keras.tree.map_structure(np.shape, inputs))
    assert built.built
    assert shapes(built) == shapes(layer)


def shapes(layer: Any) -> list[tuple[str, tuple[int, ...]]]:
    paths = [weight.path.split("/", maxsplit=1)[1] for weight in layer.weights]
    return [(p, tuple(w.shape)) for p, w in zip(paths, layer.weights, strict=True)]


def check_traced(case: Case, layer: Any) -> None:
    eager = case.call(layer)

    def sized(value: np.ndarray) -> Any:
        return keras.Input(batch_shape=value.shape, dtype=str(value.dtype))

    def unsized(value: np.ndarray) -> Any:
        width = value.shape[-1:] if value.dtype.kind == "f" else (None,)
        shape = (None,) * (value.ndim - 1) + width
        return keras.Input(batch_shape=shape, dtype=str(value.dtype))

    shape = layer(**keras.tree.map_structure(sized, dict(case.inputs))).shape
    assert shape == eager.shape
    symbols = keras.tree.map_structure(unsized, dict(case.inputs))
    outputs = layer(**symbols)
    assert outputs.shape == (None,) * (eager.ndim - 1) + eager.shape[-1:]
    values = keras.tree.flatten(dict(case.inputs))
    symbolic = keras.Model(keras.tree.flatten(symbols), outputs)(values)
    np.testing.assert_allclose(symbolic, eager, atol=2e-6, rtol=2e-5)
    if not case.compiled:
        return
    compiled = tf.function(
        lambda inputs: layer(**inputs), jit_compile=True, autograph=False
    )
    np.testing.assert_allclose(compiled(dict(case.inputs)), eager, atol=1e-5, rtol=1e-4)


def check_gradients(case: Case, layer: Any, rng: np.random.Generator) -> None:
    with tf.GradientTape() as tape:
        outputs = layer(**case.inputs)
        # Random factors, because the plain sum of a layer norm has no gradient.
        loss = tf.reduce_sum(outputs * rng.normal(size=outputs.shape).astype("f"))
    weights = [weight.value for weight in layer.trainable_weights]
    assert len(weights) == len(layer.weights)
    for weight, gradient in zip(
        layer.weights, tape.gradient(loss, weights), strict=True
    ):
        assert gradient is not None, weight.path
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all(), weight.path
        # The bias of keys has a gradient of zeros.
        assert gradient.any() != weight.path.endswith("key_bias"), weight.path


def check_dtypes(case: Case, layer: Any) -> None:
    exact = layer(**case.inputs)
    assert exact.dtype == "float32"
    mixed = case.make(dtype="mixed_bfloat16")
    case.call(mixed)
    mixed.set_weights(layer.get_weights())
    assert {weight.dtype for weight in mixed.weights} <= {"float32"}
    parts = mixed._flatten_layers(recursive=True)
    assert {part.compute_dtype for part in parts} == {"bfloat16"}
    rounded = mixed(**case.inputs)
    assert rounded.dtype == "bfloat16"
    error = np.abs(tf.cast(rounded, "float32") - exact).mean()
    assert 0 < error < 0.02 * np.abs(exact).mean() + 1e-3
