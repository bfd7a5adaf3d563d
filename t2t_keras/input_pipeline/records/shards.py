"""A shard of records: a folder of arrays that are mapped into memory, never read in.

SHARD/
  source.npy    [tokens] uint16 or int32: source sentences end to end
  target.npy    the same of the target
  lengths.npy   [pairs, 2] int32: source and target length of each pair
  shard.json    how many pairs, what was dropped, SHA-256 of the three

A shard is complete or not there. ADR 0015 says why it is no TFRecord.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_folder, remove, sweep
from t2t_keras.files.digests import file_sha256
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    TokenizedChunk,
)

FACTS_FILE = "shard.json"
_ARRAYS = ("source", "target", "lengths")


class DamagedShardError(UserError):
    """A shard is not what was written.

    Attributes:
        fault: Which file it is, and how it is damaged.
    """

    def __init__(self, fault: str):
        super().__init__(
            f"The records are damaged: {fault}. Run t2t_keras.prepare again with the "
            "same flags: it makes damaged shards anew and keeps the others."
        )
        self.fault = fault


@dataclasses.dataclass(frozen=True)
class ShardFacts:
    """What is known of a shard without opening it.

    Attributes:
        name: Of its folder.
        text_pairs: Pairs of text it was made of.
        report: What became of them.
        sha256: Hash of each file, by the file's name.
    """

    name: str
    text_pairs: int
    report: TokenizationReport
    sha256: Mapping[str, str]

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> "ShardFacts":
        """Returns the facts that `dataclasses.asdict` made plain."""
        return cls(**{**facts, "report": TokenizationReport(**facts["report"])})


@dataclasses.dataclass(frozen=True, eq=False)
class ShardArrays:
    """A shard that has been opened: arrays that are mapped from disk."""

    tokens: tuple[np.ndarray, np.ndarray]
    lengths: np.ndarray


def shard_name(number: int) -> str:
    """Returns what the folder of a shard is called."""
    return f"train-{number:05d}"


def write_shard(
    folder: Path, number: int, chunk: TokenizedChunk, text_pairs: int
) -> ShardFacts:
    """Writes a shard below a folder atomically.

    Args:
        folder: Of the records.
        number: Of the shard, from 0.
        chunk: Its pairs.
        text_pairs: Pairs of text it was made of.
    """
    path = folder / shard_name(number)
    with atomic_folder(path) as temporary:
        sha256 = {}
        arrays = (*chunk.tokens, chunk.lengths)
        for name, array in zip(_ARRAYS, arrays, strict=True):
            sha256[f"{name}.npy"] = _save(temporary / f"{name}.npy", array)
        facts = ShardFacts(path.name, text_pairs, chunk.report, sha256)
        text = json.dumps(dataclasses.asdict(facts), indent=2) + "\n"
        (temporary / FACTS_FILE).write_text(text)
    return facts


def remove_unfinished(folder: Path) -> None:
    """Removes what a process that was killed has left of a shard."""
    sweep(folder, "train-*")
    for path in folder.glob(".making-*"):  # left by release 0.2.0
        remove(path)


def read_facts(path: Path) -> ShardFacts:
    """Returns what a shard says of itself.

    Raises:
        DamagedShardError: If it is missing or damaged.
    """
    try:
        return ShardFacts.of_json(json.loads((path / FACTS_FILE).read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(path / FACTS_FILE, error) from error


def open_shard(path: Path, facts: ShardFacts) -> ShardArrays:
    """Returns the arrays of a shard, checked by their sizes.

    Args:
        path: Its folder.
        facts: What it should hold.

    Raises:
        DamagedShardError: If a file is missing or has another size.
    """
    report = facts.report
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


def check_shard(path: Path, facts: ShardFacts) -> None:
    """Reads a shard whole and compares its hashes.

    Raises:
        DamagedShardError: If it is not what it was.
    """
    open_shard(path, facts)
    for name, expected in facts.sha256.items():
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
