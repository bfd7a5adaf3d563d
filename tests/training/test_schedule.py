"""Learning-rate schedule against equation 3 in float64."""

import keras
import numpy as np
import pytest

from t2t_keras.training.schedule import WarmupInverseSquareRoot
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


def test_it_takes_the_optimizers_counter() -> None:
    schedule = WarmupInverseSquareRoot(64, 10)
    counter = keras.ops.cast(4, "int64")
    assert float(schedule(counter)) == pytest.approx(learning_rate(5, 64, 10), rel=1e-6)


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
