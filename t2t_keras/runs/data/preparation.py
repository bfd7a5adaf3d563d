"""Preparation of records, in one process or in parts (ADR 0033).

There are three steps. The first counts the lines of the training text, which cuts it
into shards, and learns the vocabulary. Then any processes write the shards. The last
joins them. `prepare` does all three.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import restore_folders
from t2t_keras.files.locks import reserve_folder
from t2t_keras.files.signals import DeferredSignals, defer_signals
from t2t_keras.input_pipeline.corpora.line_reader import RawLines
from t2t_keras.input_pipeline.records import unfinished
from t2t_keras.input_pipeline.records.line_encoder import DUPLICATES
from t2t_keras.input_pipeline.records.manifest import (
    MANIFEST_FILE,
    OLD_FORMAT,
    Manifest,
    RecordSpec,
    open_vocabulary,
    read_manifest,
    read_spec,
    verify_records,
)
from t2t_keras.input_pipeline.records.process_pool import Pace
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    ShardMetadata,
    read_metadata,
)
from t2t_keras.runs.data.begun_records import (
    Records,
    begin_records,
    check_same,
    open_begun_text,
)
from t2t_keras.runs.data.finished_records import (
    clean_records,
    finish_records,
    join_records,
)
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.training.progress import as_duration

logger = logging.getLogger(__name__)

ShardDone: TypeAlias = Callable[[ShardMetadata], None]
"""Called after a shard has been written."""

_LOCK_FILE = "prepare.lock"
_REFUSAL = (
    "Another process is preparing {folder}: {owner}. Wait for it, or give another "
    "--output."
)


def prepare(
    config: DataConfig,
    folder: Path,
    *,
    pairs_per_shard: int | None = None,
    workers: int | None = None,
    keep_text: bool = False,
    on_shard: ShardDone = lambda _: None,
) -> Manifest:
    """Writes records of the training text, or the shards that are missing.

    Args:
        config: Corpus and tokenization settings.
        folder: Directory of the records; created if missing.
        pairs_per_shard: Lines of text in a shard. Default: that of existing records,
            or 500,000.
        workers: Processes that tokenize. Default: one for each core.
        keep_text: Whether records keep the text of their pairs, for subword sampling.
        on_shard: Called after each shard that is written.

    Raises:
        UserError: If a setting or a file cannot be used, or existing records in the
            folder have other settings.
        Interrupted: After a signal; finished shards are kept.
    """
    workers = workers or _cores()
    with (
        reserve_folder(folder, _LOCK_FILE, refusal=_REFUSAL),
        begin_records(config, folder, pairs_per_shard, keep_text, workers) as records,
        # Not before: a signal ends counting and learning at once.
        defer_signals() as signals,
    ):
        if records.spec.format == OLD_FORMAT:
            return _check_old_records(folder)
        shards = range(records.spec.num_shards)
        if not (folder / MANIFEST_FILE).exists():
            complete = _find_complete(records, shards)
            _write(records, shards, complete, workers, signals.check, on_shard)
            return join_records(config, folder, records.spec, records.lines.reader)
        return _repair(records, workers, signals, on_shard)


def begin(
    config: DataConfig,
    folder: Path,
    *,
    pairs_per_shard: int | None = None,
    workers: int | None = None,
    keep_text: bool = False,
) -> RecordSpec:
    """Counts the training text and learns the vocabulary, the first step of `prepare`.

    Arguments and errors are those of `prepare`.
    """
    with (
        reserve_folder(folder, _LOCK_FILE, refusal=_REFUSAL),
        begin_records(
            config, folder, pairs_per_shard, keep_text, workers or _cores()
        ) as records,
    ):
        return records.spec


def write_part(
    config: DataConfig,
    folder: Path,
    part: tuple[int, int],
    *,
    pairs_per_shard: int | None = None,
    workers: int | None = None,
    keep_text: bool = False,
    on_shard: ShardDone = lambda _: None,
) -> range:
    """Writes the missing shards of a part, after `begin`, and returns all of the part.

    Any number of parts may be written at the same time, on any hosts that share the
    folder, the same part also twice.

    Args:
        config: The settings that `begin` had.
        folder: Directory of the records.
        part: Number of the part, from 1, and of all parts.
        pairs_per_shard: That of `begin`, or None.
        workers: Processes that tokenize. Default: one for each core.
        keep_text: As `begin` had it.
        on_shard: Called after each shard that is written.

    Raises:
        UserError: If the records have not been begun or have other settings, or a file
            is not the one whose lines were counted.
        Interrupted: After a signal; finished shards are kept.
    """
    spec = _read_begun(folder)
    shards = part_of(spec.num_shards, part)
    check_same(config, folder, spec, pairs_per_shard, keep_text)
    with defer_signals() as signals:
        write_some(config, folder, shards, workers or _cores(), signals.check, on_shard)
    return shards


def write_some(
    config: DataConfig,
    folder: Path,
    shards: Sequence[int],
    workers: int,
    check: Callable[[], None] = lambda: None,
    on_shard: ShardDone = lambda _: None,
) -> None:
    """Writes those of some shards that are missing, after `begin`.

    Args:
        config: The settings that `begin` had.
        folder: Directory of the records.
        shards: Numbers of the shards, ascending.
        workers: Processes that tokenize; 0 for this one.
        check: Called now and then; what it raises ends the writing.
        on_shard: Called after each shard that is written.

    Raises:
        UserError: As `write_part`.
    """
    spec = _read_begun(folder)
    if (folder / MANIFEST_FILE).exists():
        logger.info(f"the records in {folder} are joined already")
        return
    vocabulary = open_vocabulary(folder, spec)
    with open_begun_text(config, folder, spec, check) as lines:
        records = Records(config, folder, spec, vocabulary, lines)
        complete = _find_complete(records, shards)
        _write(records, shards, complete, workers, check, on_shard)


def join(config: DataConfig, folder: Path) -> Manifest:
    """Joins the shards that parts have written, the last step of `prepare`.

    The training text is read again only for --rejected.

    Args:
        config: The settings that `begin` had.
        folder: Directory of the records.

    Raises:
        UserError: If a shard is missing, damaged, or of other settings.
    """
    with reserve_folder(folder, _LOCK_FILE, refusal=_REFUSAL):
        spec = _read_begun(folder)
        check_same(config, folder, spec, None, spec.settings.get("keep_text", False))
        if (folder / MANIFEST_FILE).exists():
            clean_records(folder)  # after a kill at the very end
            return read_manifest(folder)
        if not (config.rejected and config.filter):
            return join_records(config, folder, spec, None)
        with open_begun_text(config, folder, spec) as lines:
            return join_records(config, folder, spec, lines.reader)


def verify(folder: Path) -> Manifest:
    """Reads all of the records; see `manifest.verify_records`."""
    return verify_records(folder)


def part_of(num_shards: int, part: tuple[int, int]) -> range:
    """Returns the shards of a part: one after another, as many as of the others.

    >>> [list(part_of(5, (number, 3))) for number in (1, 2, 3)]
    [[0], [1, 2], [3, 4]]
    """
    number, parts = part
    return range((number - 1) * num_shards // parts, number * num_shards // parts)


def describe(manifest: Manifest) -> str:
    """Returns the size of records and the pairs left out, on two lines."""
    report, shards = manifest.report, len(manifest.shards)
    return (
        f"{report.pairs_kept:,} pairs in {shards} shard{'' if shards == 1 else 's'}: "
        f"{report.source_tokens:,} source and {report.target_tokens:,} target tokens\n"
        f"left out: {report.left_out(manifest.spec.max_length)}"
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _read_begun(folder: Path) -> RecordSpec:
    spec = read_spec(folder)
    if spec is None:
        raise UserError(
            f"No records have been begun in {folder}. First run t2t_keras.prepare with "
            "the same flags and --vocabulary_only, once, then all parts, then --join."
        )
    if spec.format == OLD_FORMAT:
        raise UserError(
            f"{folder} has records of a release up to 0.9, which cannot be written in "
            "parts. Give another --output."
        )
    return spec


def _find_complete(
    records: Records, shards: Sequence[int], *, needs_hashes: bool = True
) -> set[int]:
    complete = unfinished.find_complete(
        records.folder, records.spec, shards, needs_hashes=needs_hashes
    )
    if complete:
        logger.info(f"{len(complete)} of {len(shards)} shards are complete already")
    return complete


def _write(
    records: Records,
    shards: Sequence[int],
    complete: Collection[int],
    workers: int,
    check: Callable[[], None],
    on_shard: ShardDone,
) -> None:
    """Writes the shards that are not complete."""
    folder, spec = records.folder, records.spec
    missing = [number for number in shards if number not in complete]
    if not missing:
        return
    num_lines, num_complete = (
        sum(len(spec.lines_of(number)) for number in each)
        for each in (shards, complete)
    )
    pace = Pace(num_lines, num_complete)

    def lines() -> Iterator[RawLines]:
        for number in missing:
            own = spec.lines_of(number)
            for raw in records.lines.reader.read(own.start, own.stop):
                check()
                yield raw

    def shard_done(shard: ShardMetadata) -> None:
        pace.add(shard.text_pairs)
        left = as_duration(pace.seconds_left)
        logger.info(f"{shard.name}  {pace.describe()}  left {left}")
        on_shard(shard)
        check()

    unfinished.write_shards(
        folder, spec, lines(), records.encoding, workers, shard_done
    )


def _repair(
    records: Records, workers: int, signals: DeferredSignals, on_shard: ShardDone
) -> Manifest:
    """Makes the damaged shards of finished records again."""
    folder, spec, reader = records.folder, records.spec, records.lines.reader
    manifest = read_manifest(folder)
    shards = range(spec.num_shards)
    restore_folders(folder, unfinished.SHARDS)
    complete = _find_complete(records, shards, needs_hashes=False)
    if len(complete) < len(shards):
        if reader.num_lines != spec.text_lines:
            raise UserError(
                f"Shards of the records in {folder} are damaged, and the text is in "
                "other files now. Put the old files back, or give another --output."
            )
        # What is a duplicate depends on all shards.
        depends = DUPLICATES in spec.settings["filter"]
        if depends:
            (folder / MANIFEST_FILE).unlink()
            complete = _find_complete(records, shards)
        _write(records, shards, complete, workers, signals.check, on_shard)
        if depends:
            return join_records(records.config, folder, spec, reader)
        made = tuple(read_metadata(folder / each.name) for each in manifest.shards)
        if made != manifest.shards:
            raise UserError(
                f"The damaged shards of {folder} are others when they are made again: "
                "a package that reads or filters the text may be another one. Prepare "
                "the text in another --output."
            )
    finish_records(records.config, folder, manifest, reader)
    return manifest


def _check_old_records(folder: Path) -> Manifest:
    """Returns the manifest of finished records of format 1, after reading all."""
    try:
        return verify_records(folder)
    except DamagedShardError as error:
        raise UserError(
            f"The records in {folder} are of a release up to 0.9 and damaged: "
            f"{error.fault}. Prepare the text in another --output."
        ) from error
