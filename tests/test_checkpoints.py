"""What is written comes back, whatever happens to process and disk meanwhile."""

import errno
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import checkpoints
from t2t_keras.checkpoints import (
    CheckpointState,
    CheckpointStore,
    average,
    named_weights,
    read_state,
    read_weights,
    steps_in,
)
from t2t_keras.errors import UserError

STATE = CheckpointState(
    step=6,
    position={"epoch": 1, "position": 4},
    scores={"dev_loss": 2.1000000000000001, "best_dev_loss": float("inf")},
    fingerprints={"vocabulary": "ab12"},
)


class TwoLayers(keras.Model):
    """Two weights of different shapes, and an optimizer's state to go with them."""

    def __init__(self, width: int = 3, extra: bool = False):
        super().__init__(name="toy")
        names = ["first", "second", *(["third"] if extra else [])]
        for index, name in enumerate(names):
            weight = self.add_weight(
                name=name,
                shape=(width, index + 2),
                initializer=keras.initializers.RandomNormal(),
            )
            setattr(self, name, weight)
        self.built = True


def trained(steps: int, seed: int = 1, **sizes) -> tuple[TwoLayers, keras.Optimizer]:
    """A model after some updates with random gradients."""
    keras.utils.set_random_seed(seed)
    model = TwoLayers(**sizes)
    optimizer = keras.optimizers.Adam(0.1, name="adam")
    optimizer.build(model.trainable_variables)
    for _ in range(steps):
        gradients = [keras.random.normal(v.shape) for v in model.trainable_variables]
        optimizer.apply(gradients, model.trainable_variables)
    return model, optimizer


def arrays(*owners) -> list[np.ndarray]:
    variables = []
    for owner in owners:
        is_model = isinstance(owner, keras.Model)
        variables += owner.weights if is_model else owner.variables
    return [variable.value.numpy() for variable in variables]


def saved(directory: Path, *steps: int) -> CheckpointStore:
    """A store with a checkpoint at each of some steps, weights all different."""
    for step in steps:
        store = CheckpointStore(directory, *trained(step))
        store.save(CheckpointState(step=step, position={"epoch": 0, "position": step}))
    return CheckpointStore(directory, *trained(0, seed=2))


def assert_equal(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def flip_a_bit(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 0b100
    path.write_bytes(content)


# --- There and back


def test_weights_optimizer_and_state_come_back_bit_by_bit(tmp_path) -> None:
    model, optimizer = trained(5)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    assert path == tmp_path / "step-6"
    other_model, other_optimizer = trained(2, seed=9)
    state = CheckpointStore(tmp_path, other_model, other_optimizer).restore(path)
    assert state == STATE
    assert_equal(arrays(other_model, other_optimizer), arrays(model, optimizer))
    assert int(other_optimizer.iterations.value) == 5


def test_a_model_alone_can_be_restored(tmp_path) -> None:
    model, optimizer = trained(5)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    other, _ = trained(0, seed=9)
    CheckpointStore(tmp_path, other).restore(path)
    assert_equal(arrays(other), arrays(model))


def test_a_step_that_is_saved_again_is_replaced(tmp_path) -> None:
    model, optimizer = trained(5)
    store = CheckpointStore(tmp_path, model, optimizer)
    store.save(STATE)
    model.first.assign(2.0 * model.first)
    store.save(STATE)
    np.testing.assert_array_equal(
        read_weights(tmp_path / "step-6")["toy-first"], model.first.value.numpy()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["step-6"]


def test_weights_can_be_read_without_a_model(tmp_path) -> None:
    model, optimizer = trained(5)
    path = CheckpointStore(tmp_path, model, optimizer).save(STATE)
    weights = read_weights(path)
    assert sorted(weights) == ["toy-first", "toy-second"]
    assert_equal([weights["toy-first"], weights["toy-second"]], arrays(model))


def test_two_weights_of_one_path_are_refused() -> None:
    first = keras.Variable([1.0], name="same")
    with pytest.raises(ValueError, match=r"path of its own\. Received: \['same'"):
        named_weights([first, keras.Variable([2.0], name="same")])


def test_steps_are_numbers_and_nothing_else(tmp_path) -> None:
    for name in ("step-10", "step-9", ".step-11.tmp", "damaged-step-3", "step-x"):
        (tmp_path / name).mkdir()
    assert steps_in(tmp_path) == [9, 10]
    assert steps_in(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("keep", "always", "deleted"),
    [
        (0, [], []),
        (1, [], [2, 9, 10]),
        (2, [2], [9]),
        # More than there are: the fourth newest must not count from the other end.
        (5, [], []),
        (7, [], []),
    ],
)
def test_the_newest_and_some_others_outlive_pruning(
    tmp_path, keep, always, deleted
) -> None:
    steps = [2, 9, 10, 30]
    for step in steps:
        (tmp_path / f"step-{step}").mkdir()
    store = CheckpointStore(tmp_path, *trained(0))
    assert store.prune(keep, always) == deleted
    assert store.steps() == [step for step in steps if step not in deleted]


# --- Damage


def truncate(path: Path) -> None:
    data = path / "weights.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-7])


def lose(path: Path) -> None:
    (path / "weights.index").unlink()


def lose_state(path: Path) -> None:
    (path / "state.json").unlink()


def empty_state(path: Path) -> None:
    (path / "state.json").write_text("")


def move_on(path: Path) -> None:
    """One digit of the position in the data, and the JSON as good as before."""
    state = path / "state.json"
    text = state.read_text()
    assert '"position": 9' in text
    state.write_text(text.replace('"position": 9', '"position": 8'))


def other_json(path: Path) -> None:
    (path / "state.json").write_text("[5]")


DAMAGES = {
    truncate: "weights.data-00000-of-00001 has changed",
    lose: "weights.index is missing",
    lose_state: "has no state.json",
    empty_state: "damaged",
    move_on: "state.json has changed",
    other_json: "damaged",
}.items()


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_loudly(tmp_path, damage, message) -> None:
    store = saved(tmp_path, 4, 9)
    damage(tmp_path / "step-9")
    with pytest.raises(UserError, match=f"step-9.*{message}"):
        store.restore(tmp_path / "step-9")
    state, warnings = store.restore_newest()
    assert state is not None
    assert state.step == 4
    assert len(warnings) == 1
    assert "step-9" in warnings[0]


@pytest.mark.parametrize("share", [0.0, 0.31, 0.62, 1.0])
@pytest.mark.parametrize(
    "name", ["weights.data-00000-of-00001", "weights.index", "state.json"]
)
def test_no_flipped_bit_goes_unnoticed(tmp_path, name, share) -> None:
    store = saved(tmp_path, 4)
    flip_a_bit(tmp_path / "step-4" / name, share)
    with pytest.raises(UserError, match="step-4"):
        store.restore(tmp_path / "step-4")


def test_the_newest_is_taken_where_all_are_whole(tmp_path) -> None:
    state, warnings = saved(tmp_path, 4, 9, 10).restore_newest()
    assert state is not None
    assert (state.step, warnings) == (10, [])


def test_what_was_passed_over_is_neither_kept_nor_averaged(tmp_path) -> None:
    store = saved(tmp_path, 4, 9)
    truncate(tmp_path / "step-9")
    store.restore_newest()
    assert store.steps() == [4]
    assert (tmp_path / "damaged-step-9").is_dir()
    # Under its old name it would now be the newest, and step 5 deleted.
    store.save(CheckpointState(step=5))
    assert store.prune(keep=1) == [4]
    assert store.steps() == [5]


def test_nothing_to_restore_is_no_error(tmp_path) -> None:
    store = CheckpointStore(tmp_path / "missing", *trained(0))
    assert store.restore_newest() == (None, [])


def test_starting_anew_over_a_run_that_is_all_damaged_is_refused(tmp_path) -> None:
    store = saved(tmp_path, 4, 9)
    for step in (4, 9):
        truncate(tmp_path / f"step-{step}")
    with pytest.raises(
        UserError, match=r"None of the 2 checkpoints(.|\n)*step-9(.|\n)*step-4"
    ):
        store.restore_newest()
    assert store.steps() == [4, 9]


@pytest.mark.parametrize(
    ("there", "here", "difference"),
    [
        (
            {},
            {"width": 5},
            r"model/toy-first has the shape \(3, 2\) there and \(5, 2\)",
        ),
        ({}, {"extra": True}, r"model/toy-third has the shape None there"),
        ({"extra": True}, {}, r"model/toy-third has the shape \(3, 4\) there and None"),
    ],
    ids=["other shapes", "more weights", "fewer weights"],
)
def test_a_checkpoint_of_another_model_is_refused(
    tmp_path, there, here, difference
) -> None:
    CheckpointStore(tmp_path, *trained(1, **there)).save(STATE)
    model, optimizer = trained(0, **here)
    before = arrays(model, optimizer)
    for store in (
        CheckpointStore(tmp_path, model, optimizer),
        CheckpointStore(tmp_path, model),
    ):
        with pytest.raises(UserError, match=rf"step-6 does not fit.*{difference}"):
            store.restore(tmp_path / "step-6")
    assert_equal(arrays(model, optimizer), before)


# --- Interruption and full disks


class Killed(BaseException):
    """Stands for whatever ends a process in the middle of a write."""


def fail_at(monkeypatch, owner, name: str, error: BaseException) -> None:
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(owner, name, failing)


POINTS = ("write", "_write_state", "rename")


def fail_while_saving(monkeypatch, point: str, error: BaseException) -> None:
    """Makes a save fail before the weights, after them, or at the very end."""
    owner = {
        "write": tf.train.Checkpoint,
        "_write_state": checkpoints,
        "rename": Path,
    }[point]
    fail_at(monkeypatch, owner, point, error)


@pytest.mark.parametrize("point", POINTS)
def test_an_interrupted_save_leaves_what_was_there(
    tmp_path, monkeypatch, point
) -> None:
    store = saved(tmp_path, 4)
    with monkeypatch.context() as patch:
        fail_while_saving(patch, point, Killed())
        with pytest.raises(Killed):
            store.save(CheckpointState(step=9))
    assert [path.name for path in tmp_path.iterdir()] == ["step-4"]
    state, warnings = store.restore_newest()
    assert state is not None
    assert (state.step, warnings) == (4, [])


FULL_DISKS = (
    OSError(errno.ENOSPC, "No space left on device"),
    tf.errors.ResourceExhaustedError(None, None, "No space left on device"),
)


@pytest.mark.parametrize("error", FULL_DISKS, ids=["python", "tensorflow"])
@pytest.mark.parametrize("point", POINTS)
def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch, point, error) -> None:
    store = saved(tmp_path, 4)
    fail_while_saving(monkeypatch, point, error)
    with pytest.raises(OSError, match="No space left on device"):
        store.save(CheckpointState(step=9))
    assert [path.name for path in tmp_path.iterdir()] == ["step-4"]


def test_a_disk_that_is_full_for_good_is_an_os_error(tmp_path) -> None:
    # No monkeypatch: a folder cannot be made below a file.
    (tmp_path / "file").write_text("")
    store = CheckpointStore(tmp_path / "file" / "checkpoints", *trained(0))
    with pytest.raises(OSError, match="file"):
        store.save(STATE)


def test_what_a_killed_process_left_is_cleared_away(tmp_path) -> None:
    store = saved(tmp_path, 4)
    for name in (".step-9.tmp", ".step-7.tmp"):
        shutil.copytree(tmp_path / "step-4", tmp_path / name)
    store.save(CheckpointState(step=9))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-4", "step-9"]


# --- Averages


def test_the_average_is_the_float64_mean(tmp_path) -> None:
    stores = [(step, *trained(step)) for step in (2, 7, 11)]
    for step, model, optimizer in stores:
        CheckpointStore(tmp_path, model, optimizer).save(
            CheckpointState(step, {"epoch": 0}, fingerprints={"vocabulary": "ab"})
        )
    paths = [tmp_path / f"step-{step}" for step in (11, 2, 7)]
    state = average(paths, tmp_path / "averaged" / "step-11")
    assert (state.step, state.averaged) == (11, (2, 7, 11))
    assert state.fingerprints == {"vocabulary": "ab"}
    assert read_state(tmp_path / "averaged" / "step-11") == state
    weights = read_weights(tmp_path / "averaged" / "step-11")
    for name in ("first", "second"):
        parts = [getattr(model, name).value.numpy() for _, model, _ in stores]
        mean = np.mean(np.array(parts, "float64"), axis=0).astype("float32")
        np.testing.assert_allclose(weights[f"toy-{name}"], mean, rtol=1.2e-7)
        assert np.abs(parts[-1] - mean).max() > 0.01
    other, _ = trained(0)
    CheckpointStore(tmp_path / "averaged", other).restore(
        tmp_path / "averaged" / "step-11"
    )
    np.testing.assert_array_equal(other.first.value.numpy(), weights["toy-first"])


def test_many_weights_are_summed_in_float64(tmp_path) -> None:
    # In float32 the small ones would be rounded off beside the large one.
    model, _ = trained(0)
    for step, value in enumerate([2.0**24, 1.0, 1.0, 1.0], start=1):
        model.first.assign(np.full(model.first.shape, value))
        CheckpointStore(tmp_path, model).save(CheckpointState(step=step))
    average([tmp_path / f"step-{step}" for step in (1, 2, 3, 4)], tmp_path / "mean")
    mean = read_weights(tmp_path / "mean")["toy-first"]
    np.testing.assert_array_equal(mean, np.float32((2.0**24 + 3.0) / 4))


def test_training_never_goes_on_from_an_average(tmp_path) -> None:
    saved(tmp_path, 2, 7)
    average([tmp_path / "step-2", tmp_path / "step-7"], tmp_path / "mean" / "step-7")
    state = read_state(tmp_path / "mean" / "step-7")
    assert state.position is None
    with_optimizer = CheckpointStore(tmp_path / "mean", *trained(0))
    with pytest.raises(UserError, match="does not fit this model"):
        with_optimizer.restore_newest()


def test_other_models_are_not_averaged(tmp_path) -> None:
    saved(tmp_path, 2)
    wider = CheckpointStore(tmp_path, *trained(0, width=5))
    wider.save(CheckpointState(step=3))
    larger = CheckpointStore(tmp_path, *trained(0, extra=True))
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
    saved(tmp_path, 2, 7)
    truncate(tmp_path / "step-7")
    for name in ("step-7", "step-8"):
        with pytest.raises(UserError, match=name):
            average([tmp_path / "step-2", tmp_path / name], tmp_path / "mean")


def test_a_full_disk_leaves_the_older_average(tmp_path, monkeypatch) -> None:
    saved(tmp_path, 2, 7)
    average([tmp_path / "step-2"], tmp_path / "averaged" / "step-2")
    before = read_weights(tmp_path / "averaged" / "step-2")
    fail_at(monkeypatch, tf.train.Checkpoint, "write", FULL_DISKS[1])
    with pytest.raises(OSError, match="No space left"):
        average([tmp_path / "step-7"], tmp_path / "averaged" / "step-2")
    assert [path.name for path in (tmp_path / "averaged").iterdir()] == ["step-2"]
    assert_equal(
        list(before.values()),
        list(read_weights(tmp_path / "averaged" / "step-2").values()),
    )


def test_the_state_can_be_read_by_a_person(tmp_path) -> None:
    saved(tmp_path, 4)
    card = json.loads((tmp_path / "step-4" / "state.json").read_text())
    assert card["state"]["step"] == 4
    assert set(card["files"]) == {"weights.index", "weights.data-00000-of-00001"}
