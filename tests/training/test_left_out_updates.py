"""Skipped updates: non-finite gradients and compilation change no variable."""

import numpy as np
import pytest

from t2t_keras.typing import Batch
from tests.training.steppers import (
    batches,
    build_stepper,
    plain_run,
    run_updates,
    toy,
    values,
)


def with_a_bad_weight(batch: Batch, bad: float) -> Batch:
    weights = batch["decoder_loss_weights"].copy()
    weights[0, 0] = bad
    return {**batch, "decoder_loss_weights": weights}


@pytest.fixture(scope="module")
def two_devices():
    """Model, optimizer and stepper, for several tests: to trace takes long."""
    return build_stepper(toy, 2)


def test_a_batch_of_padding_changes_nothing(two_devices) -> None:
    model, _, stepper = two_devices
    before = values(model.weights)
    batch = {name: 0 * feature for name, feature in batches(11)[0].items()}
    sums = stepper.train(batch)
    assert [float(part) for part in (*sums.losses, sums.gradient_norm)] == [0.0] * 4
    for weight, old in zip(values(model.weights), before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_a_request_to_stop_reaches_all_replicas(two_devices) -> None:
    _, _, stepper = two_devices
    batch = batches(11)[0]
    assert float(stepper.train(batch).stops) == 0
    assert float(stepper.train(batch, stop=True).stops) == 2


def test_a_non_finite_update_is_skipped_and_counted(two_devices) -> None:
    """No variable changes, except the iteration count that the schedule uses."""
    first, _, last = batches(11)
    model, optimizer, stepper = two_devices
    applied = optimizer.applied.numpy()
    assert float(stepper.train(first).skipped) == 0.0
    variables = [*model.weights, *optimizer.variables]
    before = {v.path: v.numpy().copy() for v in variables}
    for count, bad in enumerate((np.nan, np.inf), start=1):
        sums = stepper.train(with_a_bad_weight(last, bad))
        assert float(sums.skipped) == 1.0, bad
        for variable in variables:
            after, path = variable.numpy(), variable.path
            if path.endswith("iteration"):
                assert after == before[path] + count, bad
            else:
                np.testing.assert_array_equal(after, before[path], f"{path}, {bad}")
    assert float(stepper.train(last).skipped) == 0.0
    assert np.isfinite(np.concatenate([v.numpy().ravel() for v in variables])).all()
    assert optimizer.applied.numpy() == applied + 2


@pytest.mark.slow
def test_compiling_a_step_leaves_everything_alone() -> None:
    model, optimizer, stepper = build_stepper(toy, 2, dynamic_loss_scale=True)
    for batch in batches(11)[:2]:
        stepper.train(batch)
    before = values([*model.weights, *optimizer.variables])
    stepper.compile_step(batches(11)[0])
    stepper.evaluate(batches(11)[0])
    after = values([*model.weights, *optimizer.variables])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_only_allowed_shapes_are_trained_and_evaluated_on() -> None:
    _, _, stepper = build_stepper(toy, 1)
    first, second, third = batches(11)
    stepper.train(second)
    assert not stepper.must_compile([first])
    stepper.allow_only([(5, 6, 6)], [(7, 3, 3)])
    assert stepper.must_compile([third]) and stepper.must_compile([first])
    stepper.train(third)
    assert not stepper.must_compile([third]) and not stepper.must_compile([first])
    stepper.train(first)
    with pytest.raises(ValueError, match=r"\[\(5, 6, 6\)\].*Received: \(7, 3, 3\)"):
        stepper.train(second)
    stepper.evaluate(second)
    with pytest.raises(
        ValueError, match=r"to evaluate .*\[\(7, 3, 3\)\].*: \(5, 6, 6\)"
    ):
        stepper.evaluate(first)


def test_the_loss_scale_halves_until_gradients_fit() -> None:
    """Gradients that overflowed are never applied."""
    model, optimizer, stepper = build_stepper(toy, 1, dynamic_loss_scale=True)
    optimizer.loss_scale.assign(2.0**72)  # the squared gradient norm overflows
    batch = batches(11)[0]
    before = values(model.weights)
    skipped = []
    while not optimizer.applied.numpy():
        skipped.append(float(stepper.train(batch).skipped))
        if not optimizer.applied.numpy():
            for old, new in zip(before, values(model.weights), strict=True):
                np.testing.assert_array_equal(old, new)
    assert 1 < len(skipped) < 20
    assert set(skipped) == {0.0}  # an overflow that a lower scale repairs is no skip
    assert optimizer.loss_scale.numpy() == 2.0 ** (72 - len(skipped) + 1)
    assert optimizer.good_steps.numpy() == 1
    optimizer.good_steps.assign(1999)
    optimizer.loss_scale.assign(64.0)
    stepper.train(batch)
    assert optimizer.loss_scale.numpy() == 128.0
    assert optimizer.good_steps.numpy() == 0
    # At the smallest loss scale, the scale cannot be the cause.
    optimizer.loss_scale.assign(2.0**-14)
    assert float(stepper.train(with_a_bad_weight(batch, np.inf)).skipped) == 1.0
    assert optimizer.loss_scale.numpy() == 2.0**-14


def test_the_loss_scale_does_not_matter_otherwise() -> None:
    run = run_updates(toy, batches(11), 1, False, dynamic_loss_scale=True)
    np.testing.assert_allclose(run["sums"], plain_run()["sums"], rtol=3e-6)
