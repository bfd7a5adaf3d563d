"""Checkpoint recovery from damaged files, killed processes and full disks."""

import os
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files import atomic
from t2t_keras.training import checkpoints
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import CheckpointState, steps_in
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


def flip_a_bit(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 0b100
    path.write_bytes(content)


def delete_index(path: Path) -> None:
    (path / "weights.index").unlink()


def delete_state(path: Path) -> None:
    (path / "state.json").unlink()


def empty_state(path: Path) -> None:
    (path / "state.json").write_text("")


def change_position(path: Path) -> None:
    """Changes one digit of the position in the data; the JSON stays valid."""
    state = path / "state.json"
    text = state.read_text()
    assert '"position": 9' in text
    state.write_text(text.replace('"position": 9', '"position": 8'))


def write_other_json(path: Path) -> None:
    (path / "state.json").write_text("[5]")


DAMAGES = {
    truncate: "weights.data-00000-of-00001 has changed",
    delete_index: "weights.index is missing",
    delete_state: "has no state.json",
    empty_state: "damaged",
    change_position: "state.json has changed",
    write_other_json: "damaged",
}.items()


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_damaged_checkpoint_is_skipped_with_a_warning(
    tmp_path, damage, message
) -> None:
    store = save_checkpoints(tmp_path, 4, 9)
    damage(tmp_path / "step-9")
    with pytest.raises(UserError, match=f"step-9.*{message}"):
        store.restore(tmp_path / "step-9")
    state, warnings = store.restore_newest()
    assert state is not None
    assert state.step == 4
    assert len(warnings) == 1
    assert "step-9" in warnings[0]


def test_no_flipped_bit_goes_unnoticed(tmp_path) -> None:
    store = save_checkpoints(tmp_path, 4)
    unnoticed = []
    for name in ("weights.data-00000-of-00001", "weights.index", "state.json"):
        file = tmp_path / "step-4" / name
        whole = file.read_bytes()
        for place in (0.0, 0.31, 0.62, 1.0):
            flip_a_bit(file, place)
            try:
                store.restore(tmp_path / "step-4")
            except UserError as error:
                assert "step-4" in str(error), (name, place)
            else:
                unnoticed.append((name, place))
            file.write_bytes(whole)
    assert unnoticed == []
    assert store.restore(tmp_path / "step-4").step == 4


def test_the_newest_is_taken_where_all_are_whole(tmp_path) -> None:
    state, warnings = save_checkpoints(tmp_path, 4, 9, 10).restore_newest()
    assert state is not None
    assert (state.step, warnings) == (10, [])


def test_what_was_passed_over_is_neither_kept_nor_averaged(tmp_path) -> None:
    store = save_checkpoints(tmp_path, 4, 9)
    truncate(tmp_path / "step-9")
    store.restore_newest()
    assert steps_in(store.directory) == [4]
    assert (tmp_path / "damaged-step-9").is_dir()
    # Without the renaming, step 9 would be the newest, and step 5 would be deleted.
    store.save(CheckpointState(step=5))
    assert store.prune(keep=1) == [4]
    assert steps_in(store.directory) == [5]


def test_nothing_to_restore_is_no_error(tmp_path) -> None:
    store = CheckpointStore(tmp_path / "missing", *train_small_model(0))
    assert store.restore_newest() == (None, [])


def test_restarting_over_a_run_that_is_all_damaged_is_refused(tmp_path) -> None:
    store = save_checkpoints(tmp_path, 4, 9)
    for step in (4, 9):
        truncate(tmp_path / f"step-{step}")
    with pytest.raises(
        UserError, match=r"None of the 2 checkpoints(.|\n)*step-9(.|\n)*step-4"
    ):
        store.restore_newest()
    assert steps_in(store.directory) == [4, 9]


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
    CheckpointStore(tmp_path, *train_small_model(1, **there)).save(STATE)
    model, optimizer = train_small_model(0, **here)
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
    """Simulates the end of the process in the middle of a write."""


POINTS = ("write", "_write_state", "rename")


def fail_while_saving(monkeypatch, point: str, error: BaseException) -> None:
    """Makes a save fail before the weights, after them, or at the final rename."""
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
    store = save_checkpoints(tmp_path, 4)
    with monkeypatch.context() as patch:
        fail_while_saving(patch, point, Killed())
        with pytest.raises(Killed):
            store.save(CheckpointState(step=9))
    assert [path.name for path in tmp_path.iterdir()] == ["step-4"]
    state, warnings = store.restore_newest()
    assert state is not None
    assert (state.step, warnings) == (4, [])


@pytest.mark.parametrize("error", FULL_DISKS, ids=["python", "tensorflow"])
@pytest.mark.parametrize("point", POINTS)
def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch, point, error) -> None:
    store = save_checkpoints(tmp_path, 4)
    fail_while_saving(monkeypatch, point, error)
    with pytest.raises(OSError, match="No space left on device"):
        store.save(CheckpointState(step=9))
    assert [path.name for path in tmp_path.iterdir()] == ["step-4"]


def test_a_disk_that_is_full_for_good_is_an_os_error(tmp_path) -> None:
    # No monkeypatch: a folder cannot be made below a file.
    (tmp_path / "file").write_text("")
    store = CheckpointStore(tmp_path / "file" / "checkpoints", *train_small_model(0))
    with pytest.raises(OSError, match="file"):
        store.save(STATE)


class Stop(BaseException):
    """Ends a save at one of its renames, without any cleanup, like SIGKILL."""


def stop_at_rename(monkeypatch, which: int) -> None:
    rename, calls = Path.rename, []

    def stop_or_rename(self, target):
        calls.append(self)
        if len(calls) == which:
            raise Stop
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stop_or_rename)
    # A killed process does not run the cleanup that follows a Python exception.
    for name in ("restore_folders", "remove"):
        original = getattr(atomic, name)
        monkeypatch.setattr(
            atomic,
            name,
            lambda *given, do=original: do(*given) if len(calls) < which else None,
        )


@pytest.mark.parametrize("which", [1, 2])
def test_a_checkpoint_is_never_lost_to_the_one_that_replaces_it(
    tmp_path, monkeypatch, which
) -> None:
    store = save_checkpoints(tmp_path, 4)
    with monkeypatch.context() as patch:
        stop_at_rename(patch, which)
        with pytest.raises(Stop):
            store.save(CheckpointState(step=4, scores={"new": 1.0}))
    state, warnings = CheckpointStore(tmp_path, *train_small_model(0)).restore_newest()
    assert state is not None
    assert (state.step, state.scores, warnings) == (4, {}, [])
    # The next save succeeds.
    store.save(CheckpointState(step=4, scores={"new": 1.0}))
    assert [path.name for path in tmp_path.iterdir()] == ["step-4"]
    assert store.restore(tmp_path / "step-4").scores == {"new": 1.0}


def test_a_checkpoint_killed_while_it_is_deleted_is_none(tmp_path, monkeypatch) -> None:
    store = save_checkpoints(tmp_path, 4, 9)

    def stop(*_, **__):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stop)
        # The first call removes an earlier leftover; here there is none.
        patch.setattr(atomic, "remove", lambda p: p.exists() and stop())
        with pytest.raises(Stop):
            store.prune(keep=1)
    assert steps_in(store.directory) == [9]
    store.save(CheckpointState(step=10))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-10", "step-9"]


@pytest.mark.parametrize("do", ["save", "restore"])
def test_files_that_a_killed_process_left_are_removed(tmp_path, do) -> None:
    """They are removed with the next save, and at the start, as none may follow."""
    store = save_checkpoints(tmp_path, 4, 9)
    for name in (".step-9.tmp", ".step-7.tmp"):
        shutil.copytree(tmp_path / "step-4", tmp_path / name)
    if do == "save":
        store.save(CheckpointState(step=9))
    else:
        store.restore_newest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-4", "step-9"]


# --- Missing checkpoints and power failures


def test_a_missing_newest_checkpoint_is_a_warning(tmp_path) -> None:
    store = save_checkpoints(tmp_path, 4, 9, 12)
    assert store.restore_newest(last_saved=12)[1] == []
    shutil.rmtree(tmp_path / "step-12")
    state, (warning,) = store.restore_newest(last_saved=12)
    assert state is not None
    assert state.step == 9
    assert f"The latest checkpoint, {tmp_path / 'step-12'}, is missing" in warning
    assert "repeats the steps after step 9." in warning
    # After a kill between the save and its record, a newer checkpoint is no fault.
    assert store.restore_newest(last_saved=4)[1] == []
    for step in (4, 9):
        shutil.rmtree(tmp_path / f"step-{step}")
    state, (warning,) = store.restore_newest(last_saved=12)
    assert state is None
    assert "repeats the steps after step 0." in warning


def test_what_was_set_aside_as_damaged_is_not_missed_again(tmp_path) -> None:
    store = save_checkpoints(tmp_path, 4, 9)
    truncate(tmp_path / "step-9")
    assert len(store.restore_newest(last_saved=9)[1]) == 1
    assert store.restore_newest(last_saved=9)[1] == []


def test_all_of_a_checkpoint_is_on_the_disk_before_it_has_its_name(
    tmp_path, monkeypatch
) -> None:
    # Otherwise `step-9` could exist after a power failure with weights full of zeros.
    synchronized, fsync = [], os.fsync

    def record_fsync(handle: int) -> None:
        names = {path.name for path in tmp_path.iterdir()}
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synchronized.append((path.name, "step-9" in names))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record_fsync)
    save_checkpoints(tmp_path, 9)
    files = {"weights.index", "weights.data-00000-of-00001", "state.json"}
    assert set(synchronized[:-1]) == {(name, False) for name in (*files, ".step-9.tmp")}
    assert synchronized[-1] == (tmp_path.name, True)
