"""Models with their optimizers and steppers, from the same seed."""

import keras
import numpy as np

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import ReplicaUpdate
from t2t_keras.typing import Batch
from tests.devices import cpu_strategy
from tests.training.toy_models import ToyTranslator, random_batch

V, D_MODEL, WARMUP = 7, 64, 4
# Rows that two replicas cannot share evenly, and more tokens for the first.
SHAPES = ((5, 6), (7, 3), (5, 6))


def batches(vocabulary_size: int = V) -> list[Batch]:
    return [
        random_batch(rows, length, vocabulary_size, seed)
        for seed, (rows, length) in enumerate(SHAPES)
    ]


def built(make_model, devices: int, jit_compile: bool = False, **settings):
    """A model, its optimizer and its stepper, with weights from the same seed."""
    loss_scale = settings.pop("dynamic_loss_scale", False)
    strategy = cpu_strategy(devices)
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = make_model()
        optimizer = paper_adam(
            WarmupInverseSquareRoot(D_MODEL, WARMUP), dynamic_loss_scale=loss_scale
        )
        optimizer.build(model.trainable_variables)
    update = ReplicaUpdate(
        model,
        optimizer,
        label_smoothing=0.1,
        seed=5,
        jit_compile=jit_compile,
        packed=settings.pop("packed", False),
    )
    stepper = Stepper(update, strategy, **settings)
    return model, optimizer, stepper


def values(variables) -> list[np.ndarray]:
    return [variable.value.numpy() for variable in variables]


def toy() -> ToyTranslator:
    return ToyTranslator(vocabulary_size=11, width=6, dropout_rate=0.3)


def transformer() -> Transformer:
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 12, "num_heads": 2}
    model = Transformer(13, **sizes, d_k=3, d_v=5, dropout_rate=0.3)
    model.build()
    return model


def run_of(make_model, batch_list, devices: int, jit_compile: bool, **settings) -> dict:
    model, optimizer, stepper = built(make_model, devices, jit_compile, **settings)
    sums = [stepper.train(batch) for batch in batch_list]
    return {
        "sums": np.array(
            [[*map(float, s.losses), float(s.gradient_norm)] for s in sums]
        ),
        "variables": values([*model.weights, *optimizer.variables]),
    }


def assert_same_run(one: dict, other: dict) -> None:
    """Sums agree to 1e-6 of them, and every variable within 1e-6.

    That is absolute, for weights are of the size of 1, and one that is next to 0 has
    the rounding of those that it was summed with. Adam's moments are far smaller: they
    agree within 4e-6 of their largest, or nothing would be held of them.
    """
    np.testing.assert_allclose(other["sums"], one["sums"], rtol=1e-6)
    for a, b in zip(one["variables"], other["variables"], strict=True):
        atol = min(1e-6, 4e-6 * np.abs(a).max())
        np.testing.assert_allclose(b, a, rtol=0, atol=atol)
