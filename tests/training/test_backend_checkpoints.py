"""Checkpoints by values: the same files as those of `CheckpointStore`."""

import dataclasses

import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.backend_checkpoints import load_variables, save_variables
from t2t_keras.training.checkpoint_averaging import average
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.weight_averages import WeightAverages
from tests.small_checkpoints import STATE, arrays, assert_equal, train_small_model


def test_a_store_restores_what_was_saved_by_values(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    save_variables(tmp_path, model, optimizer, STATE)
    other_model, other_optimizer = train_small_model(2, seed=9)
    store = CheckpointStore(tmp_path, other_model, other_optimizer)
    assert store.restore(tmp_path / "step-6") == STATE
    assert_equal(arrays(other_model, other_optimizer), arrays(model, optimizer))


def test_the_values_of_a_store_are_loaded(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    other_model, other_optimizer = train_small_model(2, seed=9)
    assert load_variables(path, other_model, other_optimizer) == STATE
    assert_equal(arrays(other_model, other_optimizer), arrays(model, optimizer))


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    average([path], tmp_path / "averaged/step-6")
    other_model, other_optimizer = train_small_model(2, seed=9)
    before = arrays(other_model, other_optimizer)
    with pytest.raises(UserError, match=r"adam.* has the shape None there"):
        load_variables(tmp_path / "averaged/step-6", other_model, other_optimizer)
    assert_equal(arrays(other_model, other_optimizer), before)


def test_only_the_newest_checkpoints_are_kept(tmp_path) -> None:
    model, optimizer = train_small_model(1)
    for step, keep, kept in (
        (9, 0, [9]),
        (10, 0, [9, 10]),
        (100, 2, [10, 100]),
        (101, 1, [101]),
    ):
        state = dataclasses.replace(STATE, step=step)
        save_variables(tmp_path, model, optimizer, state, keep)
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {f"step-{number}" for number in kept}, (step, keep)


def test_a_checkpoint_with_moving_averages_is_refused(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    averages = WeightAverages(model.trainable_variables, decay=0.9)
    path = CheckpointStore(tmp_path, model, optimizer, averages).save(STATE)
    other_model, other_optimizer = train_small_model(2, seed=9)
    before = arrays(other_model, other_optimizer)
    with pytest.raises(UserError, match=r"step-6 has moving averages.*--ema_decay"):
        load_variables(path, other_model, other_optimizer)
    assert_equal(arrays(other_model, other_optimizer), before)
