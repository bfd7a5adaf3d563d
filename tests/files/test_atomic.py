"""Folders that are whole or not there, after a kill and after a power cut."""

import errno
import os
from pathlib import Path

import pytest

from t2t_keras.files.atomic import (
    delete,
    put_back,
    remove,
    synchronize,
    write_folder,
)


def with_file(text: str):
    return lambda folder: (folder / "file").write_text(text)


def test_a_folder_comes_with_what_is_in_it_and_replaces_another(tmp_path) -> None:
    target = tmp_path / "above" / "name"
    for text in ("one", "other"):
        write_folder(target, with_file(text))
        assert (target / "file").read_text() == text
        assert list(target.parent.iterdir()) == [target]


class Journal:
    """What is asked of the disk, in order, by the path that it is asked for."""

    def __init__(self, monkeypatch):
        self.calls: list[tuple[str, str]] = []
        fsync, rename = os.fsync, Path.rename

        def noted_fsync(handle: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            self.calls.append(("fsync", path.name))
            fsync(handle)

        def noted_rename(path: Path, target: Path) -> Path:
            self.calls.append(("rename", path.name))
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Path, "rename", noted_rename)


def test_contents_are_on_the_disk_before_the_name_and_then_the_name(
    tmp_path, monkeypatch
) -> None:
    def write(folder: Path) -> None:
        for name in ("one", "other"):
            (folder / name).write_text(name)

    journal = Journal(monkeypatch)
    write_folder(tmp_path / "name", write)
    before, after = journal.calls[:3], journal.calls[3:]
    assert sorted(before[:2]) == [("fsync", "one"), ("fsync", "other")]
    assert before[2] == ("fsync", ".name.tmp")
    assert after == [("rename", ".name.tmp"), ("fsync", tmp_path.name)]


def test_a_disk_that_fails_at_the_last_moment_leaves_the_older_one(
    tmp_path, monkeypatch
) -> None:
    target = tmp_path / "name"
    write_folder(target, with_file("old"))

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output"):
            write_folder(target, with_file("new"))
    assert (target / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_system_may_know_no_waiting_for_a_folder(tmp_path, monkeypatch) -> None:
    def invalid(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", invalid)
    synchronize(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Invalid argument"):
        synchronize(tmp_path / "file")


def test_what_was_moved_aside_gets_its_name_back_if_that_is_free(tmp_path) -> None:
    for name in (".step-1.old", ".step-2.old", "step-2", ".other.old"):
        with_file(name)(Path.mkdir(tmp_path / name) or tmp_path / name)
    put_back(tmp_path, "step-*")
    assert {path.name: (path / "file").read_text() for path in tmp_path.iterdir()} == {
        "step-1": ".step-1.old",
        "step-2": "step-2",
        ".other.old": ".other.old",
    }


def test_a_name_with_a_pattern_in_it_is_a_name(tmp_path) -> None:
    # Of a [1] that is being replaced, nothing is to happen to the older of 1.
    (tmp_path / ".1.old").mkdir()
    write_folder(tmp_path / "[1]", with_file("x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".1.old", "[1]"]


def test_what_is_deleted_is_gone_and_what_is_not_there_is_no_fault(tmp_path) -> None:
    target = tmp_path / "name"
    write_folder(target, with_file("x"))
    delete(target)
    assert list(tmp_path.iterdir()) == []
    remove(target)
