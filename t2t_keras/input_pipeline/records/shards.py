"""Shard of records: a folder of arrays that are memory-mapped, not read.

SHARD/
  source.npy    [tokens] uint16 or int32: source sentences end to end
  target.npy    the same of the target
  lengths.npy   [pairs, 2] int32: source and target length of each pair
  source.txt    the text of the source sentences, a line each; with --keep_text
  target.txt    the same of the target
  shard.json    numbers of pairs kept and dropped, SHA-256 of the others

A shard is complete or missing. ADR 0015 has the reasons against TFRecord.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_folder, file_sha256, remove, remove_leftovers
from t2t_keras.input_pipeline.records.tokenized import (
    LinePairs,
    TokenizationReport,
    TokenizedChunk,
)

METADATA_FILE = "shard.json"
_ARRAYS = ("source", "target", "lengths")
_TEXTS = ("source.txt", "target.txt")
_LINES_PER_CHUNK = 1024


class DamagedShardError(UserError):
    """A file of a shard is missing or damaged.

    Attributes:
        fault: Name of the file, and the damage.
    """

    def __init__(self, fault: str):
        super().__init__(
            f"The records are damaged: {fault}. Run t2t_keras.prepare again with the "
            "same flags: it writes damaged shards again and keeps the others."
        )
        self.fault = fault


@dataclasses.dataclass(frozen=True)
class ShardMetadata:
    """Metadata of a shard, known without opening it.

    Attributes:
        name: Name of its folder.
        text_pairs: Number of pairs of text in the shard, dropped ones included.
        report: Numbers of pairs kept and dropped.
        sha256: Hash of each file, by the file's name.
    """

    name: str
    text_pairs: int
    report: TokenizationReport
    sha256: Mapping[str, str]

    @property
    def has_text(self) -> bool:
        """Whether the shard keeps the text of its pairs."""
        return all(name in self.sha256 for name in _TEXTS)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ShardMetadata":
        """Returns the metadata of which `fields` is the `dataclasses.asdict`."""
        return cls(**{**fields, "report": TokenizationReport(**fields["report"])})


@dataclasses.dataclass(frozen=True, eq=False)
class ShardArrays:
    """Arrays of an open shard, mapped from disk."""

    tokens: tuple[np.ndarray, np.ndarray]
    lengths: np.ndarray


def shard_name(number: int) -> str:
    """Returns the name of a shard's folder."""
    return f"train-{number:05d}"


def write_shard(
    folder: Path,
    number: int,
    chunk: TokenizedChunk,
    text_pairs: int,
    text: tuple[bytes, bytes] | None = None,
) -> ShardMetadata:
    """Writes a shard below a folder atomically.

    Args:
        folder: Folder of the records.
        number: Number of the shard, from 0.
        chunk: Token ids of its pairs.
        text_pairs: Number of pairs of text in the shard, dropped ones included.
        text: Source and target text of its pairs, a line each; None to keep none.
    """
    path = folder / shard_name(number)
    with atomic_folder(path) as temporary:
        sha256 = {}
        arrays = (*chunk.tokens, chunk.lengths)
        for name, array in zip(_ARRAYS, arrays, strict=True):
            sha256[f"{name}.npy"] = _save(temporary / f"{name}.npy", array)
        for name, lines in zip(_TEXTS, text or (), strict=False):
            (temporary / name).write_bytes(lines)
            sha256[name] = file_sha256(temporary / name)
        metadata = ShardMetadata(path.name, text_pairs, chunk.report, sha256)
        fields = json.dumps(dataclasses.asdict(metadata), indent=2) + "\n"
        (temporary / METADATA_FILE).write_text(fields)
    return metadata


def remove_unfinished(folder: Path) -> None:
    """Removes unfinished shards of a process that was killed."""
    remove_leftovers(folder, "train-*")
    for path in folder.glob(".making-*"):  # left by release 0.2.0
        remove(path)


def read_metadata(path: Path) -> ShardMetadata:
    """Returns the metadata in the folder of a shard.

    Raises:
        DamagedShardError: If its file is missing or damaged.
    """
    try:
        return ShardMetadata.from_json(json.loads((path / METADATA_FILE).read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(path / METADATA_FILE, error) from error


def open_shard(path: Path, metadata: ShardMetadata) -> ShardArrays:
    """Returns the arrays in a shard's folder, checked by the sizes in its metadata.

    Raises:
        DamagedShardError: If a file is missing or has another size.
    """
    report = metadata.report
    sizes = (report.source_tokens, report.target_tokens, 2 * report.pairs_kept)
    arrays = []
    for name, size in zip(_ARRAYS, sizes, strict=True):
        file = path / f"{name}.npy"
        try:
            # An empty file cannot be mapped.
            array = np.load(file, mmap_mode="r" if size else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(file, error) from error
        if array.size != size:
            raise _damaged(file, f"it holds {array.size} numbers, not {size}")
        arrays.append(np.asarray(array))
    source, target, lengths = arrays
    return ShardArrays((source, target), lengths)


def read_lines(path: Path, metadata: ShardMetadata) -> Iterator[LinePairs]:
    """Yields the text of a shard's pairs, about a thousand at a time.

    Raises:
        DamagedShardError: If a file is missing or has another number of lines.
    """
    files = [path / name for name in _TEXTS]
    expected = metadata.report.pairs_kept
    damage = _damaged(files[0], f"it and {_TEXTS[1]} must have {expected} lines")
    pairs = 0
    try:
        with open(files[0], "rb") as source, open(files[1], "rb") as target:
            while lines := [*itertools.islice(source, _LINES_PER_CHUNK)]:
                others = [*itertools.islice(target, len(lines))]
                pairs += len(lines)
                if len(others) != len(lines):
                    raise damage
                yield _without_ends(lines), _without_ends(others)
            if pairs != expected or target.read(1):
                raise damage
    except OSError as error:
        raise _damaged(files[0], error) from error


def _without_ends(lines: list[bytes]) -> list[bytes]:
    return [line.removesuffix(b"\n") for line in lines]


def check_shard(path: Path, metadata: ShardMetadata) -> None:
    """Reads all of a shard and compares its hashes.

    Raises:
        DamagedShardError: If a file is missing or has another hash.
    """
    open_shard(path, metadata)
    for name, expected in metadata.sha256.items():
        sha256 = file_sha256(path / name)
        if sha256 != expected:
            fault = f"its SHA-256 is {sha256[:12]}…, not {expected[:12]}…"
            raise _damaged(path / name, fault)


def _damaged(file: Path, fault: str | Exception) -> DamagedShardError:
    if isinstance(fault, OSError):
        fault = fault.strerror or str(fault)
    return DamagedShardError(f"{file}: {fault}")


def _save(path: Path, array: np.ndarray) -> str:
    """Writes an array; returns the SHA-256 of the file."""
    with open(path, "wb") as file:
        # Little-endian on every machine, and rows one after another.
        ordered = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        np.save(file, ordered, allow_pickle=False)
    return file_sha256(path)
