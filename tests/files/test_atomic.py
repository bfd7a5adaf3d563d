"""Atomic writes: complete or missing files and folders after a kill or power loss."""

import errno
import os
import re
import socket
from pathlib import Path

import pytest

from t2t_keras.files.atomic import (
    atomic_file,
    atomic_folder,
    delete,
    explain,
    file_sha256,
    move_folder,
    publish_folder,
    remove,
    remove_leftovers,
    restore_folders,
    synchronize,
    write_error,
    write_file,
    write_text,
)


def write_folder(target: Path, text: str) -> None:
    with atomic_folder(target) as folder:
        (folder / "file").write_text(text)


def test_a_folder_comes_with_what_is_in_it_and_replaces_another(tmp_path) -> None:
    target = tmp_path / "above" / "name"
    for text in ("one", "other"):
        write_folder(target, text)
        assert (target / "file").read_text() == text
        assert list(target.parent.iterdir()) == [target]


class Journal:
    """Record of the calls of fsync and rename, in order, with the name of the path."""

    def __init__(self, monkeypatch):
        self.calls: list[tuple[str, str]] = []
        fsync, rename = os.fsync, Path.rename

        def record_fsync(handle: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            self.calls.append(("fsync", path.name))
            fsync(handle)

        def record_rename(path: Path, target: Path) -> Path:
            self.calls.append(("rename", path.name))
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", record_fsync)
        monkeypatch.setattr(Path, "rename", record_rename)


def test_contents_are_on_the_disk_before_the_name_and_then_the_name(
    tmp_path, monkeypatch
) -> None:
    journal = Journal(monkeypatch)
    with atomic_folder(tmp_path / "name") as folder:
        (folder / "below").mkdir()
        for name in ("one", "below/other"):
            (folder / name).write_text(name)
    before, after = journal.calls[:4], journal.calls[4:]
    assert sorted(before[:3]) == [("fsync", name) for name in ("below", "one", "other")]
    assert before[3] == ("fsync", ".name.tmp")
    assert after == [("rename", ".name.tmp"), ("fsync", tmp_path.name)]


def test_contents_of_files_and_published_folders_are_on_the_disk_first(
    tmp_path, monkeypatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "one").write_text("1")
    journal = Journal(monkeypatch)
    publish_folder(folder, tmp_path / "name")
    contents = [("fsync", "one"), ("fsync", "mine")]
    assert journal.calls == [*contents, ("rename", "mine"), ("fsync", tmp_path.name)]
    journal.calls.clear()
    write_file(tmp_path / "file", b"1")
    temporary = f".file.{socket.gethostname()}.{os.getpid()}.tmp"
    moved = [("rename", temporary), ("fsync", tmp_path.name)]
    assert journal.calls == [("fsync", temporary), *moved]


def test_a_disk_that_fails_at_the_last_moment_leaves_the_older_one(
    tmp_path, monkeypatch
) -> None:
    target = tmp_path / "name"
    write_folder(target, "old")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            write_folder(target, "new")
    assert (target / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota .* in your quota"),
        (OSError("5442 requested and 3952 written"), "No space left .* Make room"),
        (write_error("b", "{{node}} x; No space left on device [Op]"), "No space left"),
        (write_error("b", "of native code"), "of native code"),
    ],
)
def test_an_error_names_what_was_written_the_cause_and_the_remedy(
    tmp_path, error, cause
) -> None:
    for write in (atomic_file, atomic_folder):
        with pytest.raises(OSError) as caught, write(tmp_path / "a"):
            raise error
        name = error.filename or tmp_path / "a"
        message = rf"^{name} cannot be written: .*{cause}.*, and repeat .* unchanged"
        assert re.search(message, explain(caught.value))
    with (
        pytest.raises(FileNotFoundError) as missing,
        atomic_file(tmp_path / "no" / "a"),
    ):
        pass
    assert explain(missing.value).startswith(f"{tmp_path}/no/a cannot be used: No such")
    with pytest.raises(BrokenPipeError) as broken, atomic_file(tmp_path / "a"):
        raise BrokenPipeError(errno.EPIPE, "of another file")
    assert broken.value.filename is None


def test_a_file_system_may_lack_fsync_for_folders(tmp_path, monkeypatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    synchronize(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Invalid argument"):
        synchronize(tmp_path / "file")


def test_what_was_moved_aside_gets_its_name_back_if_that_is_free(tmp_path) -> None:
    for name in (".step-1.old", ".step-2.old", "step-2", ".other.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    restore_folders(tmp_path, "step-*")
    assert {path.name: (path / "file").read_text() for path in tmp_path.iterdir()} == {
        "step-1": ".step-1.old",
        "step-2": "step-2",
        ".other.old": ".other.old",
    }


def test_a_name_with_a_pattern_in_it_is_a_name(tmp_path) -> None:
    # Replacing "a[1]" must not touch the older version of "a1".
    (tmp_path / ".1.old").mkdir()
    write_folder(tmp_path / "[1]", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".1.old", "[1]"]


def test_what_is_deleted_is_gone_and_what_is_not_there_is_no_fault(tmp_path) -> None:
    target = tmp_path / "name"
    write_folder(target, "x")
    delete(target)
    assert list(tmp_path.iterdir()) == []
    remove(target)


def test_what_is_set_aside_replaces_what_was_set_aside_before(tmp_path) -> None:
    for text in ("one", "other"):
        write_folder(tmp_path / "name", text)
        move_folder(tmp_path / "name", tmp_path / "damaged-name")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged-name"]
    assert (tmp_path / "damaged-name" / "file").read_text() == "other"


def test_what_killed_processes_left_is_swept_and_no_more(tmp_path) -> None:
    for name in (".step-1.tmp", ".step-2.old", ".step-3.old", "step-3", ".a.tmp"):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path, "step-*")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step-2", "step-3", ".a.tmp"}


def test_a_file_is_replaced_when_it_is_complete(tmp_path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_text(path, "Größe\n")
    with atomic_file(path, "w", encoding="utf-16-le", newline="\r\n") as file:
        file.write("ß\n")
        assert path.read_bytes() == "Größe\n".encode()
    assert path.read_bytes() == "ß\r\n".encode("utf-16-le")
    assert os.stat(path).st_mode & 0o777 == 0o666 & ~umask()
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("name", ["a" * 255, "ü" * 127])
def test_the_longest_names_can_be_written_and_replaced(tmp_path, name) -> None:
    file, folder = tmp_path / name, tmp_path / "folder" / name
    for text in ("old", "new"):
        write_text(file, text)
        write_folder(folder, text)
    with pytest.raises(KeyError), atomic_folder(folder):
        raise KeyError
    assert (file.read_text(), (folder / "file").read_text()) == ("new", "new")
    assert sorted(tmp_path.rglob("*")) == sorted(
        [file, folder.parent, folder, folder / "file"]
    )


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path) -> None:
    path = tmp_path / "file"
    write_file(path, b"old")
    path.chmod(0o604)
    write_file(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o604


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("name", ["fsync", "rename"])
def test_an_interrupted_write_leaves_the_older_file(
    tmp_path, monkeypatch, name
) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_file_may_go_where_names_may_be_written_and_not_read(
    tmp_path, monkeypatch
) -> None:
    opened = os.open

    def refuse_folders(path, *arguments, **settings):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *arguments, **settings)

    monkeypatch.setattr(os, "open", refuse_folders)
    write_file(tmp_path / "file", b"1")
    assert (tmp_path / "file").read_bytes() == b"1"


# FIPS 180-2, appendix B. The second text is longer than one block of a read.
EXAMPLES = (
    (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        b"a" * 1_000_000,
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
    ),
)


def test_the_digests_are_the_published_ones(tmp_path) -> None:
    for content, digest in EXAMPLES:
        (tmp_path / "file").write_bytes(content)
        assert file_sha256(tmp_path / "file") == digest, len(content)
