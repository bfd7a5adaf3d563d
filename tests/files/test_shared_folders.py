"""Folders that several processes make at once: the first wins, and nothing is left."""

import contextlib
import os
import threading

import pytest

from t2t_keras.files import shared_folders
from t2t_keras.files.shared_folders import folder_made_once, sweep


def make(target, text, inside=lambda: None):
    with folder_made_once(target) as folder:
        (folder / "file").write_text(text)
        inside()


def test_the_first_one_that_is_complete_stays(tmp_path, monkeypatch):
    target = tmp_path / "shard"
    monkeypatch.setattr("socket.gethostname", lambda: f"host-{threading.get_ident()}")
    # In a container every process may have the same number.
    monkeypatch.setattr(os, "getpid", lambda: 1)

    def second():
        thread = threading.Thread(target=make, args=(target, "second"))
        thread.start()
        thread.join()

    make(target, "first", second)
    assert (target / "file").read_text() == "second"
    make(target, "third")
    assert (target / "file").read_text() == "second"
    assert os.listdir(tmp_path) == ["shard"]


def test_an_error_leaves_nothing(tmp_path):
    def fail():
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/shard'"):
        make(tmp_path / "shard", "x", fail)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_swept_away_before_it_is_locked_is_made_again(
    tmp_path, monkeypatch
):
    lock_folder = shared_folders.lock_folder
    made = []

    def lock_late(path, **settings):
        made.append(path)
        if len(made) < 3:  # another process was faster: before it is opened, or after
            os.rmdir(path)
        if len(made) == 2:
            os.mkdir(path)
            context = lock_folder(path, **settings)
            is_locked = context.__enter__()
            os.rmdir(path)
            return contextlib.nullcontext(is_locked)
        return lock_folder(path, **settings)

    monkeypatch.setattr(shared_folders, "lock_folder", lock_late)
    make(tmp_path / "shard", "x")
    assert len(made) == 3
    assert (tmp_path / "shard" / "file").read_text() == "x"
    assert os.listdir(tmp_path) == ["shard"]


def test_folders_of_running_processes_stay(tmp_path):
    (tmp_path / ".train-00001.other.7.tmp").mkdir()
    (tmp_path / ".train-00001.other.7.tmp" / "source.npy").write_bytes(b"1")
    (tmp_path / ".vocabulary.tmp").mkdir()

    def inside():
        sweep(tmp_path, "train-*")
        names = sorted(os.listdir(tmp_path))
        assert len(names) == 2 and names[0].startswith(".train-00002.")

    make(tmp_path / "train-00002", "x", inside)
    assert sorted(os.listdir(tmp_path)) == [".vocabulary.tmp", "train-00002"]
