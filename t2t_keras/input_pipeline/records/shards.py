"""Shard of records: a folder of arrays that are memory-mapped, not read.

SHARD/
  source.npy      [tokens] uint16 or int32: source sentences end to end
  target.npy      the same of the target
  lengths.npy     [pairs, 2] uint16 or int32: source and target length of each pair
  starts.npy      [pairs / 16, 2] uint64: first token of each 16th pair
  decisions.npy   [lines] uint8: what became of each line (line_encoder.py)
  source.txt      the text of the source sentences, a line each; with --keep_text
  target.txt      the same of the target
  shard.json      numbers of lines kept and dropped, SHA-256 of the others

A shard is of consecutive lines of text. It is complete or missing, and the first
process that finishes it wins, since all write the same. ADR 0015 has the reasons
against TFRecord, ADR 0033 those for lines. Format 1, of releases up to 0.9, had neither
starts nor decisions.
"""

import contextlib
import dataclasses
import errno
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_folder, delete, file_sha256
from t2t_keras.files.shared_folders import folder_made_once
from t2t_keras.input_pipeline.records.line_encoder import (
    KEPT,
    EncodedLines,
    report_of,
)
from t2t_keras.input_pipeline.records.tokenized import (
    LinePairs,
    TokenizationReport,
    join_chunks,
)

METADATA_FILE = "shard.json"
_ARRAYS = ("source", "target", "lengths")
_STARTS = "starts.npy"
_DECISIONS = "decisions.npy"
PAIRS_PER_START = 16
"""Pairs from one whose first token is stored to the next."""
_TEXTS = ("source.txt", "target.txt")
_LINES_PER_CHUNK = 1024
# Errors of the system that say nothing about a file: it must not be deleted for them.
_ERRORS_OF_ACCESS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


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
        text_pairs: Number of lines of text in the shard, dropped ones included.
        report: Numbers of pairs kept and dropped.
        sha256: Hash of each file, by the file's name.
        making: Digest of the records' specification; empty in format 1.
    """

    name: str
    text_pairs: int
    report: TokenizationReport
    sha256: Mapping[str, str]
    making: str = ""

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
    """Arrays of an open shard, mapped from disk.

    Attributes:
        tokens: Source and target ids of the pairs, end to end.
        lengths: [pairs, 2] uint16 or int32.
        starts: [pairs / 16, 2] uint64, first token of each 16th pair.
    """

    tokens: tuple[np.ndarray, np.ndarray]
    lengths: np.ndarray
    starts: np.ndarray


def shard_name(number: int) -> str:
    """Returns the name of a shard's folder."""
    return f"train-{number:05d}"


@dataclasses.dataclass(frozen=True, eq=False)
class ShardContent:
    """Content of a shard.

    Attributes:
        tokens: Source and target ids of the pairs, end to end.
        lengths: [pairs, 2] integers.
        decisions: [lines] uint8.
        text: Source and target text of the pairs, a line each; empty if not kept.
    """

    tokens: tuple[np.ndarray, np.ndarray]
    lengths: np.ndarray
    decisions: np.ndarray
    text: tuple[bytes, ...] = ()


def join_lines(parts: Iterable[EncodedLines]) -> ShardContent:
    """Returns the content of a shard of consecutive lines."""
    parts = list(parts)
    text = zip(*(part.text for part in parts), strict=True)
    chunk = join_chunks(part.chunk for part in parts)
    decisions = np.concatenate([part.decisions for part in parts])
    sides = tuple(b"".join(side) for side in text)
    return ShardContent(chunk.tokens, chunk.lengths, decisions, sides)


def without_lines(
    content: ShardContent, is_dropped: np.ndarray, decision: int
) -> ShardContent:
    """Returns the content without some of the lines.

    Args:
        content: Of the shard.
        is_dropped: [lines] bool.
        decision: Why they are dropped.
    """
    is_kept = ~is_dropped[content.decisions == KEPT]
    tokens = tuple(
        ids[np.repeat(is_kept, content.lengths[:, side])]
        for side, ids in enumerate(content.tokens)
    )
    lines = (side.removesuffix(b"\n").split(b"\n") for side in content.text)
    kept = (itertools.compress(side, is_kept.tolist()) for side in lines)
    text = tuple(b"".join(line + b"\n" for line in side) for side in kept)
    decisions = np.where(is_dropped, np.uint8(decision), content.decisions)
    return ShardContent(
        (tokens[0], tokens[1]), content.lengths[is_kept], decisions, text
    )


def write_shard(
    folder: Path,
    number: int,
    content: ShardContent,
    making: str,
    *,
    replaces: bool = False,
) -> ShardMetadata:
    """Writes a shard below a folder, unless another process has written it meanwhile.

    Args:
        folder: Folder of the records.
        number: Number of the shard, from 0.
        content: What it holds.
        making: Digest of the records' specification.
        replaces: Whether it takes the place of the shard that is there. No other
            process may write it then.
    """
    path = folder / shard_name(number)
    with (atomic_folder if replaces else folder_made_once)(path) as temporary:
        sha256 = {}
        small = content.lengths.max(initial=0) < 1 << 16
        lengths = content.lengths.astype(np.uint16 if small else np.int32)
        arrays = {
            **dict(zip(_ARRAYS, (*content.tokens, lengths), strict=True)),
            _STARTS.removesuffix(".npy"): _starts_of(content.lengths),
            _DECISIONS.removesuffix(".npy"): content.decisions,
        }
        for name, array in arrays.items():
            sha256[f"{name}.npy"] = _save(temporary / f"{name}.npy", array)
        for name, lines in zip(_TEXTS, content.text, strict=False):
            (temporary / name).write_bytes(lines)
            sha256[name] = file_sha256(temporary / name)
        source_tokens, target_tokens = map(len, content.tokens)
        metadata = ShardMetadata(
            path.name,
            len(content.decisions),
            report_of(content.decisions, source_tokens, target_tokens),
            sha256,
            making,
        )
        fields = json.dumps(dataclasses.asdict(metadata), indent=2) + "\n"
        (temporary / METADATA_FILE).write_text(fields)
    return metadata


def read_content(path: Path, metadata: ShardMetadata) -> ShardContent:
    """Returns the content of a shard, in memory or mapped from disk.

    Raises:
        DamagedShardError: If a file is missing or has another size.
    """
    arrays = open_shard(path, metadata)
    decisions = read_decisions(path, metadata)
    names = _TEXTS if metadata.has_text else ()
    try:
        text = tuple((path / name).read_bytes() for name in names)
    except OSError as error:
        raise _damaged(path, error) from error
    return ShardContent(arrays.tokens, arrays.lengths, decisions, text)


def read_decisions(path: Path, metadata: ShardMetadata) -> np.ndarray:
    """Returns what became of each line of a shard, [lines] uint8.

    Raises:
        DamagedShardError: If the file is missing or has another size.
    """
    return _load(path / _DECISIONS, metadata.text_pairs)


def delete_shard(path: Path) -> None:
    """Deletes a shard, unless another process does."""
    with contextlib.suppress(FileNotFoundError):
        delete(path)


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
        arrays.append(_load(path / f"{name}.npy", size))
    source, target, lengths = arrays
    if metadata.making:
        starts = _load(path / _STARTS, 2 * -(-len(lengths) // PAIRS_PER_START))
    else:  # format 1
        starts = _starts_of(lengths)
    return ShardArrays((source, target), lengths, starts)


def _starts_of(lengths: np.ndarray) -> np.ndarray:
    """Returns the first token of each 16th pair, [pairs / 16, 2] uint64."""
    before = np.cumsum(lengths, axis=0, dtype=np.uint64) - lengths
    return before.astype(np.uint64)[::PAIRS_PER_START]


def _load(file: Path, size: int) -> np.ndarray:
    """Returns an array mapped from a file, which must have so many numbers."""
    try:
        # An empty file cannot be mapped. NumPy resolves a Path, which takes longer than
        # all else.
        mode = "r" if size else None
        array = np.load(str(file), mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(file, error) from error
    if array.size != size:
        raise _damaged(file, f"it holds {array.size} numbers, not {size}")
    return np.asarray(array)


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
        try:
            sha256 = file_sha256(path / name)
        except OSError as error:
            raise _damaged(path / name, error) from error
        if sha256 != expected:
            fault = f"its SHA-256 is {sha256[:12]}…, not {expected[:12]}…"
            raise _damaged(path / name, fault)


def _damaged(file: Path, fault: str | Exception) -> UserError:
    """Returns the error of a damaged file, or of one that cannot be read just now."""
    if isinstance(fault, OSError):
        number, fault = fault.errno, fault.strerror or str(fault)
        if number in _ERRORS_OF_ACCESS:
            return UserError(
                f"{file} cannot be read: {fault}. That is no fault of the records. "
                "Check permissions, the file system and the limit of open files "
                "(ulimit -n), and repeat the command."
            )
    return DamagedShardError(f"{file}: {fault}")


def _save(path: Path, array: np.ndarray) -> str:
    """Writes an array; returns the SHA-256 of the file."""
    with open(path, "wb") as file:
        # Little-endian on every machine, and rows one after another.
        ordered = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        np.save(file, ordered, allow_pickle=False)
    return file_sha256(path)
