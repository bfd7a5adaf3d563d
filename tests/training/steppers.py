"""Small models with optimizer and stepper, always built from the same seed."""

import functools

import keras
import numpy as np

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.devices import choices_for
from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import ReplicaUpdate
from t2t_keras.typing import Batch
from tests.devices import cpu_strategy
from tests.training.toy_models import ToyTranslator, random_batch

V, D_MODEL, WARMUP = 7, 64, 4
# Odd numbers of rows, so that two replicas get shards of different size.
SHAPES = ((5, 6), (7, 3), (5, 6))


def batches(vocabulary_size: int = V) -> list[Batch]:
    """Random batches of the shapes in `SHAPES`."""
    return [
        random_batch(rows, length, vocabulary_size, seed)
        for seed, (rows, length) in enumerate(SHAPES)
    ]


def build_stepper(make_model, devices: int, jit_compile: bool = False, **settings):
    """Returns a model, its optimizer and its stepper; weights always from one seed."""
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
        logits_at_once=choices_for("cpu").logits_at_once,
        packed=settings.pop("packed", False),
        clip_norm=settings.pop("clip_norm", None),
        guided_alignment=settings.pop("guided_alignment", 0.0),
        r_drop=settings.pop("r_drop", 0.0),
    )
    stepper = Stepper(update, strategy, **settings)
    return model, optimizer, stepper


def values(variables) -> list[np.ndarray]:
    """Values of variables as NumPy arrays."""
    return [variable.value.numpy() for variable in variables]


def toy() -> ToyTranslator:
    return ToyTranslator(vocabulary_size=11, width=6, dropout_rate=0.3)


def transformer() -> Transformer:
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 12, "num_heads": 2}
    rest = {"d_k": 3, "d_v": 5, "dropout_rate": 0.3, "attention_bias": True}
    model = Transformer(13, **sizes, **rest)
    model.build()
    return model


def run_updates(
    make_model, updates, devices: int, jit_compile: bool, **settings
) -> dict:
    """Makes updates; returns their sums and all variables afterwards.

    Each update is a batch, or a tuple of several.
    """
    model, optimizer, stepper = build_stepper(
        make_model, devices, jit_compile, **settings
    )
    groups = [each if isinstance(each, tuple) else (each,) for each in updates]
    sums = [stepper.train(*batches) for batches in groups]
    return {
        "sums": np.array(
            [[*map(float, s.losses), float(s.gradient_norm)] for s in sums]
        ),
        "variables": values([*model.weights, *optimizer.variables]),
    }


@functools.cache
def plain_run() -> dict:
    """Updates of the toy model on one device, without XLA."""
    return run_updates(toy, batches(11), devices=1, jit_compile=False)


def assert_same_run(one: dict, other: dict) -> None:
    """Checks that sums agree to a relative and variables to an absolute 1e-6.

    The tolerance of variables is absolute because weights are of size 1, and a weight
    near 0 has the rounding error of the larger terms it was summed from. Adam's moments
    are far smaller, so their tolerance is 4e-6 of the largest moment.
    """
    np.testing.assert_allclose(other["sums"], one["sums"], rtol=1e-6)
    for a, b in zip(one["variables"], other["variables"], strict=True):
        atol = min(1e-6, 4e-6 * np.abs(a).max())
        np.testing.assert_allclose(b, a, rtol=0, atol=atol)
