"""Learning-rate schedule against equation 3 in float64."""

import keras
import numpy as np
import pytest

from t2t_keras.training.schedule import WarmupInverseSquareRoot, WarmupSchedule
from tests.reference.transformer_np import learning_rate


def test_the_base_models_rates_by_hand() -> None:
    # 512^-0.5 = 0.04419; times 4000^-1.5 = 3.953e-6, 4000^-0.5 = 0.015811 and
    # 100000^-0.5 = 0.0031623.
    schedule = WarmupInverseSquareRoot(d_model=512, warmup_steps=4_000)
    for step, rate in ((1, 1.747e-7), (4_000, 6.988e-4), (100_000, 1.3975e-4)):
        assert float(schedule(step - 1)) == pytest.approx(rate, rel=3e-4), step


@pytest.mark.parametrize(("d_model", "warmup_steps"), [(512, 4_000), (48, 7)])
def test_it_is_equation_3_at_every_kind_of_step(d_model, warmup_steps) -> None:
    schedule = WarmupInverseSquareRoot(d_model, warmup_steps)
    steps = [1, 2, 3, warmup_steps - 1, warmup_steps, warmup_steps + 1, 300_000]
    actual = [float(schedule(step - 1)) for step in steps]
    expected = [learning_rate(step, d_model, warmup_steps) for step in steps]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    # A schedule shifted by one step, or with another peak, would fail.
    late = [learning_rate(step + 1, d_model, warmup_steps) for step in steps]
    assert np.abs(np.array(late) / expected - 1).max() > 1e-3


def test_the_scale_is_a_factor_on_all_of_it() -> None:
    plain, half = (WarmupInverseSquareRoot(64, 10, scale) for scale in (1.0, 0.5))
    for step in (0, 9, 1_000):
        assert float(half(step)) == pytest.approx(0.5 * float(plain(step)), rel=1e-6)


def test_the_config_makes_it_again() -> None:
    schedule = WarmupInverseSquareRoot(24, 30, 0.7)
    saved = keras.saving.serialize_keras_object(schedule)
    again = keras.saving.deserialize_keras_object(saved)
    assert isinstance(again, WarmupInverseSquareRoot)
    assert again.get_config() == {"d_model": 24, "warmup_steps": 30, "scale": 0.7}
    assert float(again(17)) == float(schedule(17))


def test_what_is_not_positive_is_refused() -> None:
    for name in ("d_model", "warmup_steps", "scale"):
        arguments = {"d_model": 8, "warmup_steps": 4, "scale": 1.0, name: 0}
        with pytest.raises(ValueError, match=f"{name} must be positive. Received: 0"):
            WarmupInverseSquareRoot(**arguments)
            pytest.fail(f"{name}=0 was taken")


def expected_rate(decay: str, step_num: int) -> float:
    """Rate with a peak of 0.3 at update 7 of 20, written case by case."""
    if step_num <= 7:
        return 0.3 * step_num / 7
    if decay == "constant":
        return 0.3
    if decay == "linear":  # 0.3 at update 7, 0 at update 21, which is not made
        return 0.3 * (21 - step_num) / 14
    return 0.3 * (7 / step_num) ** 0.5


@pytest.mark.parametrize("decay", ["constant", "linear", "inverse_square_root"])
def test_other_schedules_rise_to_the_peak_and_decay(decay) -> None:
    schedule = WarmupSchedule(decay, 0.3, 7, 20)
    actual = [float(schedule(step)) for step in range(20)]
    expected = [expected_rate(decay, step + 1) for step in range(20)]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert max(actual) == pytest.approx(0.3)
    # A rate that counts updates from 0 would fail.
    assert np.abs(np.array(actual[1:]) / expected[:-1] - 1).max() > 1e-2
    saved = keras.saving.serialize_keras_object(schedule)
    again = keras.saving.deserialize_keras_object(saved)
    assert [float(again(step)) for step in range(20)] == actual
    assert float(schedule(keras.ops.cast(9, "int64"))) == actual[9]
    after_the_end = max(expected_rate(decay, 31), 0.0)
    assert float(schedule(30)) == pytest.approx(after_the_end, rel=1e-6)


def test_schedules_that_make_no_sense_are_refused() -> None:
    for arguments, message in (
        (("steep", 0.1, 4), "decay must be constant, .*Received: steep"),
        (("constant", 0.0, 4), "peak must be positive. Received: 0.0"),
        (("constant", 0.1, 0), "warmup_steps must be positive. Received: 0"),
        (("linear", 0.1, 4), "above warmup_steps .*Received: None and 4"),
        (("linear", 0.1, 4, 4), "above warmup_steps .*Received: 4 and 4"),
    ):
        with pytest.raises(ValueError, match=message):
            WarmupSchedule(*arguments)
            pytest.fail(f"{arguments} were taken")
