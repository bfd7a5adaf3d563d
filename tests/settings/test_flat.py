"""The settings by name: all of them, and back; which of them decide an update."""

import dataclasses

import pytest
from hypothesis import given

from t2t_keras.settings.config import RESUMABLE, ExperimentConfig, ModelConfig
from t2t_keras.settings.flat import differences, flat, unflat, value_type
from tests.random_configs import configs


def test_a_type_without_a_flag_is_refused() -> None:
    class Odd:
        shape: bytes

    with pytest.raises(TypeError, match=r"Odd\.shape has no type a flag can have"):
        value_type(Odd, "shape")


@given(configs())
def test_flat_and_back(config) -> None:
    assert unflat(flat(config)) == config


@given(configs(), configs())
def test_differences_are_what_changes_an_update(old, new) -> None:
    found = differences(old, new)
    before, after = flat(old), flat(new)
    for name, value in before.items():
        changed = value != after[name] and name not in RESUMABLE
        assert (name in found) == changed
        if changed:
            assert found[name] == (value, after[name])
    assert differences(old, old) == {}


def test_what_may_change_is_a_setting_and_changes_no_update() -> None:
    names = set(flat(ExperimentConfig()))
    assert names >= RESUMABLE
    # The whole model, and what the loss, the rate, the seed and the data decide.
    fixed = {field.name for field in dataclasses.fields(ModelConfig)} | {
        "label_smoothing",
        "warmup_steps",
        "learning_rate_scale",
        "seed",
        "precision",
        "tf32",
        "dataset",
        "train_source",
        "train_target",
        "vocabulary_file",
        "vocabulary_size",
        "max_length",
        "batching",
        "max_shapes",
        "tokens_per_batch",
    }
    assert not fixed & RESUMABLE
    assert fixed <= names
