"""Shard of records: write and read round trip, damage, interrupted writes."""

import dataclasses
import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    ShardContent,
    check_shard,
    open_shard,
    read_content,
    read_lines,
    read_metadata,
    without_lines,
    write_shard,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport

# Six lines: two kept, one too long, two empty ones, one rejected.
CONTENT = ShardContent(
    (np.array([5, 60_000, 1, 8, 1], np.uint16), np.array([7, 1, 9, 1], np.uint16)),
    np.array([[3, 2], [2, 2]], np.int32),
    np.array([0, 1, 3, 2, 0, 4], np.uint8),
)
MAKING = "d" * 64


@pytest.fixture
def metadata(tmp_path):
    return write_shard(tmp_path, 7, CONTENT, MAKING)


@pytest.fixture
def path(tmp_path, metadata):
    return tmp_path / "train-00007"


def test_what_is_written_comes_back(path, metadata):
    shard = open_shard(path, metadata)
    for side in (0, 1):
        np.testing.assert_array_equal(shard.tokens[side], CONTENT.tokens[side])
        assert shard.tokens[side].dtype == np.uint16
    np.testing.assert_array_equal(shard.lengths, CONTENT.lengths)
    check_shard(path, metadata)


def test_lengths_take_two_bytes_if_they_can(tmp_path):
    for longest, dtype in ((65_535, np.uint16), (65_536, np.int32)):
        ids = np.ones(longest, np.int32)
        content = ShardContent(
            (ids, ids[:2]), np.array([[longest, 2]]), np.zeros(1, np.uint8)
        )
        metadata = write_shard(tmp_path, longest, content, MAKING)
        shard = open_shard(tmp_path / metadata.name, metadata)
        assert shard.lengths.dtype == dtype
        assert shard.lengths.tolist() == [[longest, 2]]


def test_dropping_lines_leaves_the_others(tmp_path):
    text = (b"a b\n\xff\r x\n", b"c\nd\n")
    content = dataclasses.replace(CONTENT, text=text)
    metadata = write_shard(tmp_path, 0, content, MAKING)
    stored = read_content(tmp_path / metadata.name, metadata)
    # The first pair, a line that was empty, and one that another filter rejected.
    is_dropped = np.array([1, 0, 0, 1, 0, 1], bool)
    left = without_lines(stored, is_dropped, 9)
    assert left.decisions.tolist() == [9, 1, 3, 9, 0, 9]
    assert [side.tolist() for side in left.tokens] == [[8, 1], [9, 1]]
    assert left.lengths.tolist() == [[2, 2]]
    assert left.text == (b"\xff\r x\n", b"d\n")
    metadata = write_shard(tmp_path, 0, left, MAKING, replaces=True)
    assert metadata.report == TokenizationReport(1, 1, 1, 2, 2, 3)
    check_shard(tmp_path / metadata.name, metadata)
    assert os.listdir(tmp_path) == [metadata.name]


def test_text_is_read_back_and_checked(tmp_path):
    lines = [[b"a b", b"\xff"], [b"c", b"d"]]
    sides = [b"".join(line + b"\n" for line in side) for side in lines]
    content = dataclasses.replace(CONTENT, text=(sides[0], sides[1]))
    metadata = write_shard(tmp_path, 7, content, MAKING)
    path = tmp_path / metadata.name
    assert metadata.has_text
    assert read_metadata(path) == metadata
    assert list(read_lines(path, metadata)) == [(lines[0], lines[1])]
    check_shard(path, metadata)
    # One line too few or too many, on either side.
    for name, text in (
        ("source.txt", b"a b\n"),
        ("source.txt", sides[0] * 2),
        ("target.txt", b"c\n"),
        ("target.txt", sides[1] + b"e\n"),
    ):
        intact = (path / name).read_bytes()
        (path / name).write_bytes(text)
        with pytest.raises(
            DamagedShardError, match=r"source.txt: it and target.txt mu"
        ):
            list(read_lines(path, metadata))
        with pytest.raises(DamagedShardError, match=rf"{name}: its SHA-256"):
            check_shard(path, metadata)
        (path / name).write_bytes(intact)
    (path / "target.txt").unlink()
    with pytest.raises(DamagedShardError, match="No such file"):
        list(read_lines(path, metadata))


def test_tokens_stay_on_disk(path, metadata):
    for tokens in open_shard(path, metadata).tokens:
        assert isinstance(tokens.base, np.memmap)
        assert not tokens.flags.writeable


def test_the_metadata_are_in_the_folder_of_the_shard(path, metadata):
    assert read_metadata(path) == metadata
    assert (metadata.name, metadata.text_pairs) == ("train-00007", 6)
    assert metadata.making == MAKING
    assert metadata.report == TokenizationReport(2, 1, 2, 5, 4, 1)
    assert set(os.listdir(path)) == {"shard.json", *metadata.sha256}
    for name, expected in metadata.sha256.items():
        assert hashlib.sha256((path / name).read_bytes()).hexdigest() == expected
    assert oct(path.stat().st_mode)[-3:] == "755"


def test_a_shard_of_which_nothing_was_kept(tmp_path):
    none = np.zeros(0, np.uint16)
    decisions = np.full(4, 3, np.uint8)
    content = ShardContent((none, none), np.zeros([0, 2], np.int32), decisions)
    metadata = write_shard(tmp_path, 0, content, MAKING)
    assert metadata.report == TokenizationReport(0, 4, 0, 0, 0)
    check_shard(tmp_path / metadata.name, metadata)
    assert open_shard(tmp_path / metadata.name, metadata).lengths.shape == (0, 2)


ARRAYS = ("source.npy", "target.npy", "lengths.npy", "starts.npy")


@pytest.mark.parametrize("name", ARRAYS)
def test_a_file_cut_short_or_missing_is_named(path, metadata, name):
    content = (path / name).read_bytes()
    for size in (len(content) - 1, 20, 0):
        (path / name).write_bytes(content[:size])
        with pytest.raises(UserError, match=f"are damaged: {path / name}: "):
            open_shard(path, metadata)
    (path / name).unlink()
    again = r"Run t2t_keras\.prepare again with the same flags"
    with pytest.raises(UserError, match=rf"{name}: No such file .*{again}"):
        open_shard(path, metadata)


def test_a_file_of_another_size_is_named(path, metadata):
    np.save(path / "target.npy", np.arange(5, dtype=np.uint16))
    with pytest.raises(UserError, match=r"target\.npy: it holds 5 numbers, not 4"):
        open_shard(path, metadata)


@pytest.mark.parametrize("name", [*ARRAYS, "decisions.npy"])
def test_one_flipped_bit_is_found_by_reading_all(path, metadata, name):
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 4
    (path / name).write_bytes(content)
    open_shard(path, metadata)
    with pytest.raises(
        UserError, match=rf"{name}: its SHA-256 is \w{{12}}…, not \w{{12}}…"
    ):
        check_shard(path, metadata)
    (path / name).unlink()
    with pytest.raises(DamagedShardError, match=f"{name}: No such file"):
        check_shard(path, metadata)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
def test_a_file_that_cannot_be_read_now_is_not_called_damaged(
    path, metadata, number, monkeypatch
):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    reads = (
        (np, "load", lambda: open_shard(path, metadata)),
        (Path, "read_text", lambda: read_metadata(path)),
    )
    for owner, name, read in reads:
        with monkeypatch.context() as patch, pytest.raises(UserError) as caught:
            patch.setattr(owner, name, fail)
            read()
        assert f"{os.strerror(number)}. That is no fault of the" in str(caught.value)
        # For which a shard would be deleted.
        assert not isinstance(caught.value, DamagedShardError)


def test_damaged_metadata_are_named(path):
    text = (path / "shard.json").read_text()
    without = {**json.loads(text)}
    del without["report"]
    for damaged in (text[:-9], "[]", json.dumps(without), '{"name": 1}'):
        (path / "shard.json").write_text(damaged)
        with pytest.raises(UserError, match=r"damaged: .*/train-00007/shard\.json: "):
            read_metadata(path)
    (path / "shard.json").unlink()
    with pytest.raises(UserError, match=r"shard\.json: No such file"):
        read_metadata(path)


def test_a_shard_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="No space"):
        write_shard(tmp_path, 0, CONTENT, MAKING)
    assert os.listdir(tmp_path) == []
