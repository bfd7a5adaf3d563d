"""Version directories: atomic creation, locks, and removal of partial versions."""

import errno
import fcntl
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from t2t_keras.files.versions import new_version, next_version

# Writes half of a version, prints its name, and waits to be killed.
HALF = """
import sys, time
from pathlib import Path
from t2t_keras.files.versions import new_version

with new_version(Path(sys.argv[1])) as temporary:
    (temporary / "variables").mkdir()
    (temporary / "variables" / "half").write_text("x")
    print(temporary.name, flush=True)
    time.sleep(600)
"""


def test_versions_count_up_from_the_largest(tmp_path):
    assert next_version(tmp_path / "new") == tmp_path / "new" / "1"
    for name in ("2", "10", "notes", ".11", "12.old"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == tmp_path / "11"


def test_a_version_is_invisible_until_it_is_complete(tmp_path):
    final = tmp_path / "deep" / "base" / "7"
    with new_version(final) as temporary:
        (temporary / "file").write_text("x")
        assert not final.exists()
        assert not temporary.name.isdigit()  # no server takes it for a version
    assert [path.name for path in final.parent.iterdir()] == ["7"]
    assert (final / "file").read_text() == "x"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("others", [False, True])
def test_an_error_or_interrupt_leaves_nothing(tmp_path, error, others):
    base = tmp_path / "base"
    if others:
        (base / "1").mkdir(parents=True)
    with pytest.raises(error), new_version(base / "2") as temporary:
        (temporary / "half").write_text("x")
        raise error
    assert base.exists() == others
    assert not others or [path.name for path in base.iterdir()] == ["1"]


@pytest.mark.parametrize("folder", ["base", ".2."])
def test_a_signal_when_a_folder_is_created_leaves_nothing(
    tmp_path, monkeypatch, folder
):
    make = Path.mkdir

    def make_and_interrupt(path, *arguments, **options):
        make(path, *arguments, **options)
        if path.name.startswith(folder):
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", make_and_interrupt)
    with pytest.raises(KeyboardInterrupt), new_version(tmp_path / "base" / "2"):
        pass
    assert list_names(tmp_path) == []


def test_two_threads_do_not_write_the_same_version(tmp_path):
    with new_version(tmp_path / "1") as first:
        with (
            pytest.raises(FileExistsError, match="another export is writing it"),
            new_version(tmp_path / "1"),
        ):
            pass
        assert first.is_dir()
    assert list_names(tmp_path) == ["1"]


@contextmanager
def start_writer(final):
    """Yields a process that is writing a version, and its temporary directory."""
    command = [sys.executable, "-c", HALF, final]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, final.parent / process.stdout.readline().strip()
        finally:
            process.kill()


def list_names(base):
    return sorted(path.name for path in base.iterdir())


@pytest.mark.slow
def test_the_next_version_deletes_only_what_a_killed_process_left(tmp_path):
    for name in (".notes.1.tmp", ".8.tmp", "7.1.tmp"):
        (tmp_path / name).mkdir()  # not from an export
    others = list_names(tmp_path)
    with start_writer(tmp_path / "1") as (live, being_written):
        with start_writer(tmp_path / "1") as (killed, left):
            pass
        killed.wait()
        assert left.is_dir()
        with new_version(tmp_path / "2"):
            assert not left.exists()
        assert (being_written / "variables" / "half").read_text() == "x"
        assert live.poll() is None
        assert list_names(tmp_path) == sorted([*others, being_written.name, "2"])
    with new_version(tmp_path / "3"):
        assert not being_written.exists()
    assert list_names(tmp_path) == sorted([*others, "2", "3"])


def test_partial_versions_of_older_releases_are_deleted(tmp_path):
    """They have no lock, and their process id may belong to another process by now."""
    old = tmp_path / ".1.1.tmp"
    (old / "variables").mkdir(parents=True)
    with new_version(tmp_path / "1"):
        assert not old.exists()


def test_without_file_locks_nothing_is_deleted(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    (tmp_path / ".1.1.tmp").mkdir()
    with new_version(tmp_path / "1"):
        pass
    assert list_names(tmp_path) == [".1.1.tmp", "1"]
