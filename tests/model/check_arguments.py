"""Checks of masks and dropout keys for every layer that takes them."""

from typing import Any

import numpy as np

from tests.model.layer_case import Case


def check_masks(case: Case, layer: Any, rng: np.random.Generator) -> None:
    expected = case.call(layer)
    for name, hidden in case.hides.items():
        mask_BL = case.inputs[name][:, 0]
        noise_BLD = rng.normal(size=case.inputs[hidden].shape)
        moved = case.inputs[hidden] + noise_BLD * ~mask_BL[..., None]
        others = ~((moved != case.inputs[hidden]).any(-1))
        # A position may pass through a layer (residual) even if the mask hides it.
        if expected.shape[:2] != mask_BL.shape:
            others = np.ones(expected.shape[:2], bool)
        actual = case.call(layer, **{hidden: moved.astype("f")})
        np.testing.assert_array_equal(actual[others], expected[others])
        seen = {name: np.ones_like(case.inputs[name]), hidden: moved.astype("f")}
        unseen = {**seen, hidden: case.inputs[hidden]}
        difference = case.call(layer, **seen) - case.call(layer, **unseen)
        rows = ~mask_BL.all(-1)
        assert (np.abs(difference).max(-1) > 1e-4)[rows][others[rows]].all()


def check_dropout_keys(case: Case, layer: Any) -> None:
    keys = case.inputs["dropout_keys"]
    expected = case.call(layer)
    np.testing.assert_array_equal(case.call(layer, dropout_keys=keys), expected)
    changed = np.abs(case.call(layer, dropout_keys=keys + 1) - expected)
    assert (changed.reshape(len(changed), -1).max(-1) > 1e-3).all()
    rates = {name: 0.0 for name in case.config if name.endswith("dropout_rate")}
    undropped = case.make(**rates)
    case.call(undropped)
    undropped.set_weights(layer.get_weights())
    np.testing.assert_array_equal(
        case.call(layer, dropout_keys=None), case.call(undropped)
    )
