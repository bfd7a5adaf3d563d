"""Computes on Keras' JAX backend what test_backends.py computes on TensorFlow's.

    KERAS_BACKEND=jax python -m tests.model.jax_worker cases.pickle results.pickle

Shapes: B batch, T target length.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from keras import ops

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.keras_fit import LabelSmoothedCrossEntropy, fit_arguments
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS


def compute(case: dict[str, Any]) -> dict[str, Any]:
    """Returns logits, and loss and gradients with dropout, by name."""
    model = Transformer(**case["arguments"])
    for weight, value in zip(model.weights, case["weights"], strict=True):
        weight.assign(value)
    inputs, targets, counts = fit_arguments(case["batch"])
    loss_sum = LabelSmoothedCrossEntropy(case["label_smoothing"], reduction="sum")
    weights = [weight.value for weight in model.trainable_variables]

    def loss(weights: list) -> Any:
        logits, _ = model.stateless_call(weights, [], inputs, dropout_keys=case["keys"])
        return loss_sum(targets, logits, counts), logits

    gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (value, dropped), gradients = gradient(weights)
    results = {"logits": model(inputs), "dropped": dropped, "loss": value}
    results = {name: np.asarray(result) for name, result in results.items()}
    results["gradients"] = [np.asarray(each) for each in gradients]
    if case["decodes"]:
        results["steps"] = decode(model, inputs)
        source = inputs[ENCODER_INPUT_TOKENS]
        results["generated"] = np.asarray(model.generate(source, extra_length=4))
    return results


def decode(model: Transformer, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the logits of one hypothesis, decoded token by token with a KV cache."""
    tokens_BT = inputs[DECODER_INPUT_TOKENS]
    rows, length = tokens_BT.shape
    state = model.prefill(inputs[ENCODER_INPUT_TOKENS], length)
    kernels, logits = model.decode_kernels(), []
    for t in range(length):
        visible = ops.broadcast_to(np.arange(length) <= t, (rows, 1, length))
        step, state = model.decode_step(
            tokens_BT[:, t : t + 1], t, t, visible, state, kernels
        )
        logits.append(np.asarray(step[:, 0]))
    return np.stack(logits, axis=1)


def main() -> None:
    """Reads cases from a file and writes their results to another."""
    cases = pickle.loads(Path(sys.argv[1]).read_bytes())
    results = {
        "cases": [compute(case) for case in cases],
        "libraries": [name for name in ("tensorflow", "torch") if name in sys.modules],
    }
    Path(sys.argv[2]).write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main()
