"""Checkpoints: save and restore round trip, pruning, averaging."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training import checkpoints
from t2t_keras.training.backend_checkpoints import load_variables
from t2t_keras.training.checkpoint_averaging import average
from t2t_keras.training.checkpoint_store import CheckpointStore, named_weights
from t2t_keras.training.checkpoints import (
    CheckpointState,
    StoredCheckpoint,
    read_state,
    steps_in,
)
from t2t_keras.training.weight_averages import WeightAverages
from tests.small_checkpoints import (
    FULL_DISKS,
    STATE,
    arrays,
    assert_equal,
    fail_at,
    save_checkpoints,
    train_small_model,
    truncate,
)

# --- Save and restore


def test_weights_optimizer_and_state_come_back_bit_by_bit(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    assert path == tmp_path / "step-6"
    other_model, other_optimizer = train_small_model(2, seed=9)
    state = CheckpointStore(tmp_path, other_model, other_optimizer).restore(path)
    assert state == STATE
    assert_equal(arrays(other_model, other_optimizer), arrays(model, optimizer))
    assert int(other_optimizer.iterations.value) == 5


def test_what_inference_leaves_out_of_a_checkpoint_gives_no_warning(
    tmp_path, caplog, monkeypatch
) -> None:
    model, optimizer = train_small_model(1)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    alone, _ = train_small_model(0, seed=9)
    CheckpointStore(tmp_path, alone).restore(path)
    assert_equal(arrays(alone), arrays(model))
    gc.collect()  # TensorFlow warns when the status of a restore is deleted
    assert not caplog.records


def test_each_file_is_hashed_once_when_a_checkpoint_is_read(
    tmp_path, monkeypatch
) -> None:
    """The big model has 2.5 GB with its optimizer, and `average` reads twenty."""
    model, optimizer = train_small_model(1)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    files = sorted(each.name for each in path.iterdir() if each.name != "state.json")
    hashed: list[str] = []
    digest = checkpoints.file_sha256

    def record(file):
        hashed.append(file.name)
        return digest(file)

    monkeypatch.setattr(checkpoints, "file_sha256", record)
    for read in (
        lambda: StoredCheckpoint(path).weights(),
        lambda: CheckpointStore(tmp_path, model).restore(path),
        lambda: load_variables(path, model, optimizer),
        lambda: average([path], tmp_path / "averaged"),
    ):
        hashed.clear()
        read()
        of_checkpoint = [name for name in hashed if name in files]
        written = files if (tmp_path / "averaged").exists() else []
        assert sorted(of_checkpoint) == sorted([*files, *written])


def average_weights(model, factor: float) -> WeightAverages:
    """Moving averages that are a multiple of the weights, to tell them apart."""
    averages = WeightAverages(model.weights, 0.9)
    for each in averages.averages:
        each.assign(factor * each)
    return averages


def test_moving_averages_come_back_and_are_what_a_model_alone_gets(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    store = CheckpointStore(tmp_path, model, optimizer, average_weights(model, 3.0))
    path = store.save(STATE)
    # To train on: weights and averages.
    again, other_optimizer = train_small_model(0, seed=9)
    averages = average_weights(again, 1.0)
    CheckpointStore(tmp_path, again, other_optimizer, averages).restore(path)
    assert_equal(arrays(again), arrays(model))
    tripled = [3.0 * value for value in arrays(model)]
    assert_equal([each.numpy() for each in averages.averages], tripled)
    # To translate: the averages.
    alone, _ = train_small_model(0, seed=9)
    CheckpointStore(tmp_path, alone).restore(path)
    assert_equal(arrays(alone), tripled)
    weights = StoredCheckpoint(path).weights()
    assert_equal([weights["toy-first"], weights["toy-second"]], tripled)
    # Their mean is that of the moving averages.
    average([path, path], tmp_path / "mean")
    assert_equal(
        [*StoredCheckpoint(tmp_path / "mean").weights().values()], [*weights.values()]
    )


def test_a_run_without_moving_averages_does_not_take_a_checkpoint_with_them(
    tmp_path,
) -> None:
    model, optimizer = train_small_model(1)
    store = CheckpointStore(tmp_path, model, optimizer, average_weights(model, 3.0))
    path = store.save(STATE)
    with pytest.raises(UserError, match="does not fit this model: ema/toy-first"):
        CheckpointStore(tmp_path, model, optimizer).restore(path)


def test_a_step_that_is_saved_again_is_replaced(tmp_path) -> None:
    model, optimizer = train_small_model(5)
    store = CheckpointStore(tmp_path, model, optimizer)
    store.save(STATE)
    model.first.assign(2.0 * model.first)
    store.save(STATE)
    np.testing.assert_array_equal(
        StoredCheckpoint(tmp_path / "step-6").weights()["toy-first"],
        model.first.value.numpy(),
    )
    assert [path.name for path in tmp_path.iterdir()] == ["step-6"]


def test_two_weights_of_one_path_are_refused() -> None:
    first = keras.Variable([1.0], name="same")
    with pytest.raises(ValueError, match=r"path of its own\. Received: \['same'"):
        named_weights([first, keras.Variable([2.0], name="same")])


def test_steps_are_numbers_and_nothing_else(tmp_path) -> None:
    for name in ("step-10", "step-9", ".step-11.tmp", "damaged-step-3", "step-x"):
        (tmp_path / name).mkdir()
    assert steps_in(tmp_path) == [9, 10]
    assert steps_in(tmp_path / "missing") == []


def test_the_newest_or_the_named_outlive_pruning(tmp_path) -> None:
    steps = [2, 9, 10, 30]
    store = CheckpointStore(tmp_path, *train_small_model(0))

    def create_folders() -> None:
        for step in steps:
            (tmp_path / f"step-{step}").mkdir(exist_ok=True)

    # 5: more than exist. A negative index must not count from the other end.
    for keep, deleted in ((0, []), (1, [2, 9, 10]), (2, [2, 9]), (5, []), (7, [])):
        create_folders()
        assert store.prune(keep) == deleted, keep
        assert steps_in(store.directory) == [
            step for step in steps if step not in deleted
        ]
    create_folders()
    assert store.keep_only([9, 30, 31]) == [2, 10]
    assert steps_in(store.directory) == [9, 30]


# --- Averages


def test_the_average_is_the_mean_of_each_weight(tmp_path) -> None:
    stores = [(step, *train_small_model(1, seed=step)) for step in (2, 7, 11)]
    for step, model, optimizer in stores:
        CheckpointStore(tmp_path, model, optimizer).save(
            CheckpointState(step, {"epoch": 0}, fingerprints={"vocabulary": "ab"})
        )
    paths = [tmp_path / f"step-{step}" for step in (11, 2, 7)]
    state = average(paths, tmp_path / "averaged" / "step-11")
    assert (state.step, state.averaged) == (11, (2, 7, 11))
    assert state.fingerprints == {"vocabulary": "ab"}
    assert read_state(tmp_path / "averaged" / "step-11") == state
    weights = StoredCheckpoint(tmp_path / "averaged" / "step-11").weights()
    for name in ("first", "second"):
        parts = [getattr(model, name).value.numpy() for _, model, _ in stores]
        mean = np.mean(np.array(parts, "float64"), axis=0).astype("float32")
        np.testing.assert_allclose(weights[f"toy-{name}"], mean, rtol=1.2e-7)
        assert np.abs(parts[-1] - mean).max() > 0.01
    other, _ = train_small_model(0)
    CheckpointStore(tmp_path / "averaged", other).restore(
        tmp_path / "averaged" / "step-11"
    )
    np.testing.assert_array_equal(other.first.value.numpy(), weights["toy-first"])


def test_many_weights_are_summed_in_float64(tmp_path) -> None:
    # In float32 the small values would be lost next to the large one.
    model, _ = train_small_model(0)
    for step, value in enumerate([2.0**24, 1.0, 1.0, 1.0], start=1):
        model.first.assign(np.full(model.first.shape, value))
        CheckpointStore(tmp_path, model).save(CheckpointState(step=step))
    average([tmp_path / f"step-{step}" for step in (1, 2, 3, 4)], tmp_path / "mean")
    mean = StoredCheckpoint(tmp_path / "mean").weights()["toy-first"]
    np.testing.assert_array_equal(mean, np.float32((2.0**24 + 3.0) / 4))


def test_training_never_resumes_from_an_average(tmp_path) -> None:
    save_checkpoints(tmp_path, 2, 7)
    average([tmp_path / "step-2", tmp_path / "step-7"], tmp_path / "mean" / "step-7")
    state = read_state(tmp_path / "mean" / "step-7")
    assert state.position is None
    with_optimizer = CheckpointStore(tmp_path / "mean", *train_small_model(0))
    with pytest.raises(UserError, match="does not fit this model"):
        with_optimizer.restore_newest()


def test_other_models_are_not_averaged(tmp_path) -> None:
    save_checkpoints(tmp_path, 2)
    wider = CheckpointStore(tmp_path, *train_small_model(0, width=5))
    wider.save(CheckpointState(step=3))
    larger = CheckpointStore(tmp_path, *train_small_model(0, extra=True))
    larger.save(CheckpointState(step=4))
    for step in (3, 4):
        paths = [tmp_path / "step-2", tmp_path / f"step-{step}"]
        with pytest.raises(UserError, match=f"step-{step} is of another model"):
            average(paths, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_nothing_is_not_averaged(tmp_path) -> None:
    with pytest.raises(UserError, match="no checkpoint to average"):
        average([], tmp_path / "mean")


def test_what_is_damaged_or_missing_is_not_averaged(tmp_path) -> None:
    save_checkpoints(tmp_path, 2, 7)
    truncate(tmp_path / "step-7")
    for name in ("step-7", "step-8"):
        with pytest.raises(UserError, match=name):
            average([tmp_path / "step-2", tmp_path / name], tmp_path / "mean")


def test_a_full_disk_leaves_the_older_average(tmp_path, monkeypatch) -> None:
    save_checkpoints(tmp_path, 2, 7)
    average([tmp_path / "step-2"], tmp_path / "averaged" / "step-2")
    before = StoredCheckpoint(tmp_path / "averaged" / "step-2").weights()
    fail_at(monkeypatch, tf.train.Checkpoint, "write", FULL_DISKS[1])
    with pytest.raises(OSError, match="No space left"):
        average([tmp_path / "step-7"], tmp_path / "averaged" / "step-2")
    assert [path.name for path in (tmp_path / "averaged").iterdir()] == ["step-2"]
    assert_equal(
        list(before.values()),
        list(StoredCheckpoint(tmp_path / "averaged" / "step-2").weights().values()),
    )
