"""The model on Keras' JAX backend equals the model on TensorFlow.

Logits, loss, gradients of all weights, keyed dropout, and decoding step by step. The
loss on TensorFlow is that of `train`, which is computed in chunks.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.losses import label_smoothed_cross_entropy
from t2t_keras.typing import (
    DECODER_LOSS_WEIGHTS,
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
)
from tests.model.architectures import Architecture, architectures
from tests.model.small_model import TARGET_LENGTHS, random_tokens, small_batch
from tests.model.test_packed_rows import packed_batch
from tests.reference.weights_np import Options
from tests.with_jax import run_with_jax

pytestmark = pytest.mark.release

SMOOTHING = 0.1
# Of the largest value of a logit, or of a gradient.
TOLERANCE = 1e-5


def make_case(
    architecture: Architecture, batch: dict[str, np.ndarray], *, decodes: bool = False
) -> dict[str, Any]:
    """Returns a model and a batch with targets, some of whose rows are all padding."""
    rng = np.random.default_rng(41)
    rows, length = batch["decoder_input_tokens"].shape
    lengths = TARGET_LENGTHS if decodes else (length, *[0] * (rows - 1))
    targets = random_tokens(rng, lengths, length)
    arguments = architecture.arguments()
    arguments |= {"dropout_rate": 0.3, "attention_dropout_rate": 0.2}
    return {
        "arguments": arguments,
        "weights": [np.asarray(w) for w in architecture.model().weights],
        "batch": {
            **batch,
            DECODER_TARGET_TOKENS: targets,
            DECODER_LOSS_WEIGHTS: (targets != 0).astype("float32"),
        },
        "keys": rng.integers(2**32, size=rows, dtype="uint32"),
        "label_smoothing": SMOOTHING,
        "decodes": decodes,
    }


def compute(case: dict[str, Any]) -> dict[str, Any]:
    """Returns what `jax_worker.compute` does, on TensorFlow."""
    model = Transformer(**case["arguments"])
    for weight, value in zip(model.weights, case["weights"], strict=True):
        weight.assign(value)
    batch = dict(case["batch"])
    targets = batch.pop(DECODER_TARGET_TOKENS)
    counts = batch.pop(DECODER_LOSS_WEIGHTS)
    bias = model.output_bias
    with tf.GradientTape() as tape:
        sums = label_smoothed_cross_entropy(
            model.hidden_states(batch, case["keys"]),
            tf.convert_to_tensor(model.output_embeddings),
            targets,
            counts,
            label_smoothing=case["label_smoothing"],
            output_bias=None if bias is None else tf.convert_to_tensor(bias),
        )
    weights = [weight.value for weight in model.trainable_variables]
    gradients = tape.gradient(sums.loss_sum, weights)
    logits = np.asarray(model(batch))
    decoded = {}
    if case["decodes"]:
        source = batch[ENCODER_INPUT_TOKENS]
        decoded["steps"] = logits
        decoded["generated"] = np.asarray(model.generate(source, extra_length=4))
    return {
        "logits": logits,
        "dropped": np.asarray(model(batch, dropout_keys=case["keys"])),
        "loss": float(sums.loss_sum),
        "gradients": [tf.convert_to_tensor(each).numpy() for each in gradients],
        **decoded,
    }


def error(actual: Any, expected: Any, least: float = 0.0) -> float:
    """Returns the largest difference, relative to the largest value or to `least`."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), least))


def errors(actual: dict[str, Any], expected: dict[str, Any]) -> dict[str, float]:
    """Returns the error of each result; of gradients, that of the worst weight."""
    assert actual.keys() == expected.keys()
    names = actual.keys() - {"gradients"}
    found = {name: error(actual[name], expected[name]) for name in names}
    # The gradient of a bias of keys is 0.
    least = 0.01 * max(np.abs(each).max() for each in expected["gradients"])
    pairs = zip(actual["gradients"], expected["gradients"], strict=True)
    found["gradients"] = max(error(*pair, least) for pair in pairs)
    return found


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    """Post-norm and pre-norm, tied and untied, packed and with rows of padding."""
    by_name = {each.name: each for each in architectures()}
    paper = Architecture("paper", Options())
    plain = {"paper": paper, **by_name}
    result = {
        name: make_case(each, small_batch(), decodes=each.neighborhood is None)
        for name, each in plain.items()
    }
    result["packed"] = make_case(paper, packed_batch())
    return result


@pytest.fixture(scope="module")
def on_jax(cases, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Returns the results of all cases, computed by another process."""
    folder: Path = tmp_path_factory.mktemp("jax")
    files = folder / "cases.pickle", folder / "results.pickle"
    files[0].write_bytes(pickle.dumps(list(cases.values())))
    done = run_with_jax("-m", "tests.model.jax_worker", *map(str, files))
    assert done.returncode == 0, done.stderr
    results = pickle.loads(files[1].read_bytes())
    assert results["libraries"] == []  # the model, its loss, and Keras import neither
    return dict(zip(cases, results["cases"], strict=True))


def test_backends_agree(cases, on_jax) -> None:
    for name, case in cases.items():
        found = errors(on_jax[name], compute(case))
        assert max(found.values()) < TOLERANCE, (name, found)
