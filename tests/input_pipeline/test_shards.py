"""Shard of records: write and read round trip, damage, interrupted writes."""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    check_shard,
    open_shard,
    read_lines,
    read_metadata,
    remove_unfinished,
    write_shard,
)
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    TokenizedChunk,
)

CHUNK = TokenizedChunk(
    (np.array([5, 60_000, 1, 8, 1], np.uint16), np.array([7, 1, 9, 1], np.uint16)),
    np.array([[3, 2], [2, 2]], np.int32),
    TokenizationReport(2, 1, 3, 5, 4),
)


@pytest.fixture
def metadata(tmp_path):
    return write_shard(tmp_path, 7, CHUNK, text_pairs=6)


@pytest.fixture
def path(tmp_path, metadata):
    return tmp_path / "train-00007"


def test_what_is_written_comes_back(path, metadata):
    shard = open_shard(path, metadata)
    for side in (0, 1):
        np.testing.assert_array_equal(shard.tokens[side], CHUNK.tokens[side])
        assert shard.tokens[side].dtype == np.uint16
    np.testing.assert_array_equal(shard.lengths, CHUNK.lengths)
    check_shard(path, metadata)


def test_text_is_read_back_and_checked(tmp_path):
    lines = [[b"a b", b"\xff"], [b"c", b"d"]]
    sides = [b"".join(line + b"\n" for line in side) for side in lines]
    metadata = write_shard(tmp_path, 7, CHUNK, 6, (sides[0], sides[1]))
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
    assert metadata.report == CHUNK.report
    assert set(os.listdir(path)) == {"shard.json", *metadata.sha256}
    for name, expected in metadata.sha256.items():
        assert hashlib.sha256((path / name).read_bytes()).hexdigest() == expected
    assert oct(path.stat().st_mode)[-3:] == "755"


def test_a_shard_of_which_nothing_was_kept(tmp_path):
    none = np.zeros(0, np.uint16)
    report = TokenizationReport(0, 4, 0, 0, 0)
    chunk = TokenizedChunk((none, none), np.zeros([0, 2], np.int32), report)
    metadata = write_shard(tmp_path, 0, chunk, text_pairs=4)
    check_shard(tmp_path / metadata.name, metadata)
    assert open_shard(tmp_path / metadata.name, metadata).lengths.shape == (0, 2)


@pytest.mark.parametrize("name", ["source.npy", "target.npy", "lengths.npy"])
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


@pytest.mark.parametrize("name", ["source.npy", "target.npy", "lengths.npy"])
def test_one_flipped_bit_is_found_by_reading_all(path, metadata, name):
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 4
    (path / name).write_bytes(content)
    open_shard(path, metadata)
    with pytest.raises(
        UserError, match=rf"{name}: its SHA-256 is \w{{12}}…, not \w{{12}}…"
    ):
        check_shard(path, metadata)


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
        write_shard(tmp_path, 0, CHUNK, text_pairs=6)
    assert os.listdir(tmp_path) == []


def test_a_damaged_shard_is_replaced(tmp_path, path):
    (path / "source.npy").write_bytes(b"")
    (path / "stray").write_bytes(b"")
    more = dataclasses.replace(CHUNK, report=TokenizationReport(2, 0, 0, 5, 4))
    metadata = write_shard(tmp_path, 7, more, text_pairs=2)
    check_shard(path, metadata)
    assert read_metadata(path) == metadata
    assert os.listdir(tmp_path) == ["train-00007"]


def test_what_a_kill_left_is_removed(tmp_path, path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        write_shard(tmp_path, 8, CHUNK, text_pairs=6)
    monkeypatch.undo()
    assert len(os.listdir(tmp_path)) == 2
    remove_unfinished(tmp_path)
    assert os.listdir(tmp_path) == ["train-00007"]
    check_shard(path, read_metadata(path))
