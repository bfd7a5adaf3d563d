"""Files on object stores: reading of ranges, repetition of requests, errors."""

import errno
import gzip
import importlib.util
import io
import itertools
import lzma
import pickle
import random
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.files import remote
from t2t_keras.files.lines import TextBytes, open_input, open_output
from t2t_keras.files.logs import log_to
from t2t_keras.files.paths import absolute, expand
from t2t_keras.files.remote import RemotePath, as_path, is_url, open_remote
from tests import object_store
from tests.object_store import ClientError, HttpError

URL = "memory://bucket/folder/text"


class NoCredentialsError(Exception):
    """Named as that of botocore."""


@pytest.fixture
def store(monkeypatch):
    return object_store.use(monkeypatch)


# --- What is a URL


@pytest.mark.parametrize("path", ["s3://b/k.tsv", "gs://b/a/k*.gz", "memory://b/x"])
def test_urls_stay_as_they_are(path):
    assert is_url(path) and is_url(as_path(path))
    assert str(as_path(path)) == str(expand(path)) == absolute(path) == path
    assert str(pickle.loads(pickle.dumps(as_path(path)))) == path
    assert as_path(path).absolute() == as_path(path).resolve() == as_path(path)
    joined = as_path("s3://b") / "c" / "d.tsv"
    assert isinstance(joined, RemotePath) and str(joined) == "s3://b/c/d.tsv"
    assert str(joined.parent) == "s3://b/c" and joined.suffix == ".tsv"


@pytest.mark.parametrize("path", ["a", "/a/b", "~/s3", "s3:/b/k", "s3/b", "a:b//c"])
def test_other_paths_are_of_file_systems(path):
    assert not is_url(path) and type(as_path(path)) is type(Path("a"))


def test_urls_that_name_nothing_are_refused():
    for path in ("s3://", "s3:///", "s3://b//k", "gs://b/k//"):
        with pytest.raises(UserError, match=r"must name a bucket and, without empty"):
            as_path(path)
    for path in ("http://host/text", "file:///tmp/x", "S3://b/k"):
        with pytest.raises(UserError, match=r"is on no object store that is supported"):
            as_path(path).exists()


def test_a_missing_package_is_named(monkeypatch):
    real = importlib.util.find_spec
    for missing, url in (
        ("fsspec", "s3://b/k"),
        ("s3fs", "s3://b/k"),
        ("gcsfs", "gs://b/k"),
    ):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, own=missing: None if name == own else object(),
        )
        message = (
            rf'{url} needs packages .*\({missing}\): pip install "t2t_keras\[remote\]"'
        )
        with pytest.raises(MissingPackage, match=message):
            open_remote(url)
    monkeypatch.setattr(importlib.util, "find_spec", real)


# --- Reading


def test_any_part_of_an_object_can_be_read(store, monkeypatch):
    monkeypatch.setattr(remote, "_BLOCK", 37)
    draw = random.Random(3)
    content = draw.randbytes(1000)
    store.pipe_file(URL, content)
    expected = io.BytesIO(content)
    with open_remote(URL) as file:
        for _ in range(300):
            match draw.randrange(4):
                case 0:
                    place = draw.randrange(1100)
                    assert file.seek(place) == expected.seek(place)
                case 1:
                    step = draw.randint(-50, 50)
                    if expected.tell() + step >= 0:
                        assert file.seek(step, 1) == expected.seek(step, 1)
                case 2:
                    assert file.seek(-20, 2) == expected.seek(-20, 2)
            size = draw.randrange(120)
            assert file.read(size) == expected.read(size)
            assert file.tell() == expected.tell()


def test_a_read_asks_for_what_it_needs_and_no_more(store, monkeypatch):
    monkeypatch.setattr(remote, "_BLOCK", 100)
    store.pipe_file(URL, bytes(1000))
    file = TextBytes(URL)
    assert file.size == 1000
    store.ranges.clear()
    file.seek(600)
    file.read(1)
    file.read(90)
    assert store.ranges == [(600, 700)]
    file.close()
    monkeypatch.setattr(remote, "_FIRST_BLOCK", 10)
    store.ranges.clear()
    with open_remote(URL) as file:
        assert len(file.read()) == 1000
        file.seek(300)
        file.read(1)
    assert store.ranges.pop() == (300, 310)  # where the reader may not go on
    begins = [0, 10, 50, *range(150, 1000, 100), 1000]
    assert store.ranges == [*itertools.pairwise(begins)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("cut", [0, 1, 6])
def test_text_is_read_whole_when_answers_are_cut_short(
    store, monkeypatch, compress, cut
):
    monkeypatch.setattr(remote, "_BLOCK", 50)
    draw = random.Random(5)
    lines = [draw.randbytes(20).hex().encode() for _ in range(200)]
    store.pipe_file(URL, compress(b"".join(line + b"\r\n" for line in lines)))
    store.fail("cat_file", cut=cut, times=5)
    log = []
    with log_to(log.append), pytest.raises(UserError, match=r"only .* bytes arrived"):
        with open_input(URL) as text:
            list(text)
    assert len(log) == 4  # and with one more try it had been read
    store.faults.clear()
    store.fail("cat_file", cut=cut, times=4)
    with open_input(URL) as text:
        assert list(text) == lines


OF_THE_MOMENT = [
    HttpError(429),
    HttpError(500),
    HttpError(503),
    ClientError(429),
    ClientError(500),
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    TimeoutError(),
    OSError(errno.EBUSY, "Please reduce your request rate"),
    OSError("only a message"),
    Exception("of a package"),
]


@pytest.mark.parametrize("error", OF_THE_MOMENT, ids=repr)
@pytest.mark.parametrize("method", ["info", "cat_file"])
def test_errors_of_the_moment_are_repeated(store, error, method):
    store.pipe_file(URL, b"one\ntwo\n")
    store.fail(method, error, times=4)
    log = []
    with log_to(log.append), open_input(URL) as text:
        assert list(text) == [b"one", b"two"]
    assert len(log) == 4
    assert all(f"{URL} could not be " in line for line in log)
    store.fail(method, error, times=5)
    message = f"^{URL} cannot be (found|read): .*. Check the name and the connection"
    with pytest.raises(UserError, match=message) as caught, open_input(URL) as text:
        list(text)
    assert (str(error) or type(error).__name__) in str(caught.value)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (PermissionError("Access Denied"), "credentials"),
        (HttpError(401), "credentials"),
        (ClientError(403), "credentials"),
        (NoCredentialsError("Unable to locate credentials"), "credentials"),
        (HttpError(400), "name and the connection"),
        (OSError(errno.EINVAL, "The specified bucket is not valid"), "name and the"),
        (ValueError("Bucket name"), "name and the connection"),
    ],
    ids=repr,
)
def test_errors_that_stay_are_told_at_once(store, error, advice):
    store.pipe_file(URL, b"one\n")
    for method in ("info", "cat_file"):
        store.fail(method, error, times=9)
        with pytest.raises(UserError, match=rf"{URL} cannot be .*{advice}"):
            with open_input(URL) as text:
                list(text)
        assert store.faults.pop().times == 8


def test_an_error_in_the_cause_counts(store):
    """s3fs raises an OSError from that of botocore, which has the status."""
    store.pipe_file(URL, b"one\n")
    error = OSError(errno.EIO, "Bad Request")
    error.__cause__ = ClientError(400)
    store.fail("cat_file", error)
    with pytest.raises(UserError, match="Bad Request"):
        open_remote(URL).read()


def test_waits_grow_and_are_told(monkeypatch):
    store = object_store.FaultyStore()
    monkeypatch.setattr(remote, "_file_system", lambda _: store)
    waits, log = [], []
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=waits.append))
    store.pipe_file(URL, b"one\n")
    store.fail("info", HttpError(429), times=9)
    with log_to(log.append), pytest.raises(UserError):
        as_path(URL).exists()
    assert waits == [1, 2, 4, 8]
    assert f"{URL} could not be found (status 429); again in 2 seconds" in log[1]


def test_faults_of_programs_are_no_errors_of_users(store):
    store.pipe_file(URL, b"one\n")
    store.fail("cat_file", TypeError("an argument is missing"))
    with pytest.raises(TypeError):
        open_remote(URL).read()


def test_what_is_missing_is_told(store):
    store.pipe_file(URL, b"one\n")
    for path, message in (
        ("memory://bucket/folder/tex", "There is no file memory://bucket/folder/tex."),
        ("memory://bucket/folder", "memory://bucket/folder is a folder, not a file"),
    ):
        with pytest.raises(UserError, match=message), open_input(path):
            pass
    with pytest.raises(FileNotFoundError, match="memory://other/x"):
        as_path("memory://other/x").stat()
    assert list(as_path("memory://bucket").iterdir()) == [
        as_path("memory://bucket/folder")
    ]


# --- Writing


def test_an_upload_is_whole_or_an_error(store, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(range(200)))
    url = as_path(URL)
    for fault in (
        {"error": HttpError(500), "cut": 50},
        {"error": ConnectionResetError()},
        {"cut": 199},  # nothing tells that it was cut but the size
        {"cut": 0},
    ):
        store.store.clear()
        store.fail("put_file", **fault, times=4)
        remote.upload(file, url)
        assert store.cat_file(URL) == file.read_bytes()
        store.fail("put_file", **fault, times=5)
        with pytest.raises(UserError, match=f"{URL} cannot be written: "):
            remote.upload(file, url)
    store.fail("put_file", FileNotFoundError("The specified bucket does not exist"))
    with pytest.raises(UserError, match=r"there is no such bucket\. Make it, or"):
        remote.upload(file, url)
    store.fail("put_file", PermissionError("Access Denied"))
    with pytest.raises(UserError, match=r"Access Denied. Check .* the credentials"):
        remote.upload(file, url)


def test_removing_repeats_and_what_is_gone_is_removed(store):
    store.pipe_file(URL, b"one\n")
    store.fail("rm_file", HttpError(503), times=2)
    remote.delete(as_path(URL))
    remote.delete(as_path(URL))
    assert store.names() == []


def test_nothing_else_is_written_there(store):
    with pytest.raises(UserError, match="where nothing but records is written"):
        with open_output("memory://bucket/output"):
            pass
    with pytest.raises(UserError, match="where nothing but records is written"):
        as_path("memory://bucket/output").mkdir(parents=True, exist_ok=True)
    assert store.names() == []


def test_the_store_of_fsspec_is_reached():
    url = "memory://t2t-keras-test/a/text"
    system = fsspec.filesystem("memory")
    try:
        remote.write_object(b"one\n", as_path(url))
        assert as_path(url).read_text() == "one\n"
        system.pipe_file("memory://t2t-keras-test/a/text-2", b"")
        names = remote.find_pattern("memory://t2t-keras-test/*/text*")
        assert names == [url, f"{url}-2"]
        assert remote.list_objects(as_path("memory://t2t-keras-test")) == [
            "a/text",
            "a/text-2",
        ]
    finally:
        system.rm("memory://t2t-keras-test", recursive=True)
    assert remote.list_objects(as_path("memory://t2t-keras-test")) == []
