"""Joining of shards: what depends on all of them, duplicates and fingerprint.

Shapes: L lines of a shard, n pairs of a shard with text on both sides.
"""

import dataclasses
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.fingerprints import (
    derived_fingerprint,
    fingerprint_of,
)
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.input_pipeline.records.line_encoder import (
    BLANK,
    DUPLICATES,
    FILTERED,
    candidates_of,
)
from t2t_keras.input_pipeline.records.manifest import RecordSpec
from t2t_keras.input_pipeline.records.shards import (
    ShardMetadata,
    open_shard,
    read_content,
    read_decisions,
    read_metadata,
    shard_name,
    without_lines,
    write_shard,
)
from t2t_keras.input_pipeline.records.unfinished import PREPARING, hash_file

# Hashes, with their lines, that are sorted at a time.
_SORTED_BYTES = 1 << 28
_HASH_OF_LINE = np.dtype([("hash", "<u8"), ("line", "<u8")])
_MOST_NAMED = 5


@dataclasses.dataclass(frozen=True)
class JoinedShards:
    """What the shards of records have together.

    Attributes:
        fingerprint: Fingerprint of the training text, after filters.
        text_pairs: Number of pairs that it has then.
        filters: Number of pairs that each filter rejected.
        shards: Metadata of the shards, in order.
        lengths: Number of pairs of each length.
    """

    fingerprint: str
    text_pairs: int
    filters: Mapping[str, int]
    shards: tuple[ShardMetadata, ...]
    lengths: LengthCounts = dataclasses.field(compare=False)


def join_shards(
    folder: Path, spec: RecordSpec, filters: Sequence[str], fingerprint: str | None
) -> JoinedShards:
    """Drops duplicates from the shards, and returns what they have together.

    It can be repeated, also after a kill.

    Args:
        folder: Folder of the records.
        spec: Their specification.
        filters: Items of --filter.
        fingerprint: Fingerprint of a text that has one without its pairs' hashes.

    Raises:
        UserError: If a shard is missing, damaged, or of other records.
    """
    shards = _read_all_metadata(folder, spec)
    if DUPLICATES in filters:
        shards = _drop_duplicates(folder, spec, filters, shards)
    hashes = (_read_hashes(folder, each)["pairs"] for each in range(len(shards)))
    if fingerprint is None:
        fingerprint = fingerprint_of(hashes)
    counts = np.zeros(FILTERED + len(filters), np.int64)
    for metadata in shards:
        decisions = read_decisions(folder / metadata.name, metadata)
        counts += np.bincount(decisions, minlength=len(counts))
    if filters:
        kept = (
            each[each != BLANK] < FILTERED for each in _all_decisions(folder, shards)
        )
        fingerprint = derived_fingerprint(fingerprint, kept)
    return JoinedShards(
        fingerprint,
        int(counts[:FILTERED].sum() - counts[BLANK]),
        dict(zip(filters, counts[FILTERED:].tolist(), strict=True)),
        tuple(shards),
        LengthCounts.join(_count_lengths(folder, shards)),
    )


def _count_lengths(
    folder: Path, shards: Sequence[ShardMetadata]
) -> Iterator[LengthCounts]:
    for metadata in shards:
        lengths = open_shard(folder / metadata.name, metadata).lengths
        yield LengthCounts.from_lengths(lengths)


def _read_all_metadata(folder: Path, spec: RecordSpec) -> list[ShardMetadata]:
    names = [shard_name(number) for number in range(spec.num_shards)]
    missing = [
        name
        for number, name in enumerate(names)
        if not ((folder / name).exists() and hash_file(folder, number).exists())
    ]
    if missing:
        more = f" and {len(missing) - _MOST_NAMED} more" * (len(missing) > _MOST_NAMED)
        raise UserError(
            f"{len(missing)} of {len(names)} shards in {folder} are missing: "
            f"{', '.join(missing[:_MOST_NAMED])}{more}. Run the parts again that write "
            "them (t2t_keras.prepare --part=i/n): each writes only what is missing."
        )
    shards = []
    for number, name in enumerate(names):
        metadata = read_metadata(folder / name)
        open_shard(folder / name, metadata)
        own_lines = len(spec.lines_of(number))
        if (metadata.making, metadata.text_pairs) != (spec.digest, own_lines):
            raise UserError(
                f"{folder / name} is a shard of other records: it was made with other "
                f"settings than {folder / 'making.json'}, another vocabulary or "
                "another text. Remove it, and run the part again that writes it."
            )
        shards.append(metadata)
    return shards


def _read_hashes(folder: Path, shard: int) -> Mapping[str, np.ndarray]:
    file = hash_file(folder, shard)
    try:
        with open(file, "rb") as content, np.load(content) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        raise UserError(
            f"{file} is missing or damaged. Remove it, and run t2t_keras.prepare, or "
            "the part that writes it, again."
        ) from error


def _all_decisions(
    folder: Path, shards: Sequence[ShardMetadata]
) -> Iterator[np.ndarray]:
    for metadata in shards:
        yield read_decisions(folder / metadata.name, metadata)


def _drop_duplicates(
    folder: Path,
    spec: RecordSpec,
    filters: Sequence[str],
    shards: Sequence[ShardMetadata],
) -> list[ShardMetadata]:
    """Returns the metadata of the shards after dropping duplicates from them."""
    decision = FILTERED + filters.index(DUPLICATES)
    joined = []
    with tempfile.TemporaryDirectory(dir=folder / PREPARING) as temporary:
        is_duplicate = _find_duplicates(folder, spec, filters, shards, Path(temporary))
        for number, metadata in enumerate(shards):
            own = spec.lines_of(number)
            is_dropped = np.asarray(is_duplicate[own.start : own.stop])
            decisions = read_decisions(folder / metadata.name, metadata)
            if (is_dropped & (decisions != decision)).any():
                content = read_content(folder / metadata.name, metadata)
                content = without_lines(content, is_dropped, decision)
                metadata = write_shard(
                    folder, number, content, spec.digest, replaces=True
                )
            joined.append(metadata)
        del is_duplicate
    return joined


def _find_duplicates(
    folder: Path,
    spec: RecordSpec,
    filters: Sequence[str],
    shards: Sequence[ShardMetadata],
    temporary: Path,
) -> np.ndarray:
    """Returns which lines of the text are duplicates, [lines] bool on disk.

    The first of equal pairs is none. Hashes are divided by their first bits, so that
    equal ones come together, into files that are sorted one by one: memory does not
    grow with the text.
    """
    is_duplicate = np.memmap(
        temporary / "lines", np.bool_, "w+", shape=(max(spec.text_lines, 1),)
    )
    size = spec.text_lines * _HASH_OF_LINE.itemsize
    bits = max(0, (size // _SORTED_BYTES).bit_length())
    files = [open(temporary / str(number), "w+b") for number in range(1 << bits)]
    try:
        for number, decisions in enumerate(_all_decisions(folder, shards)):
            own = np.flatnonzero(candidates_of(decisions, filters))
            rows = np.empty(len(own), _HASH_OF_LINE)
            rows["hash"] = _read_hashes(folder, number)["candidates"]
            rows["line"] = own + spec.lines_of(number).start
            groups = (
                (rows["hash"] >> np.uint64(64 - bits)) if bits else rows["hash"] * 0
            )
            by_group = np.argsort(groups, kind="stable")
            ends = np.cumsum(np.bincount(groups.astype(np.int64), minlength=1 << bits))
            for file, part in zip(
                files, np.split(rows[by_group], ends[:-1]), strict=True
            ):
                file.write(part.tobytes())
        for file in files:
            file.seek(0)
            rows = np.frombuffer(file.read(), _HASH_OF_LINE)
            # Stable: the lines of equal hashes stay in their order.
            order = np.argsort(rows["hash"], kind="stable")
            ordered = rows["hash"][order]
            is_same = ordered[1:] == ordered[:-1]
            is_duplicate[rows["line"][order[1:][is_same]].astype(np.int64)] = True
    finally:
        for file in files:
            file.close()
    return is_duplicate
