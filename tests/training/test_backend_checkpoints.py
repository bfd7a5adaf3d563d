"""Checkpoints by values: the same files as those of `CheckpointStore`."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.backend_checkpoints import load_variables, save_variables
from t2t_keras.training.checkpoints import CheckpointStore, average
from tests.small_checkpoints import STATE, arrays, assert_equal, train_small_model


def test_a_store_restores_what_was_saved_by_values(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    save_variables(tmp_path / "step-6", model, optimizer, STATE)
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
