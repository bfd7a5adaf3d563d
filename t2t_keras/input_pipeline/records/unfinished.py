"""Records that are not finished: shards, and what is needed to join them.

FOLDER/preparing/
  text.json             index of the training text (line_index.py)
  rejected.tsv          pairs of other parts of a mixture that filters reject
  train-00000.npz ...   hashes of each shard's pairs

Shards do not depend on each other, so any process may write any of them, on any host,
at any time, also several times. Memory holds the ids of one shard, and a few thousand
sentences of text for each process.
"""

import itertools
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.files.atomic import atomic_file, write_text
from t2t_keras.files.shared_folders import sweep
from t2t_keras.input_pipeline.corpora.line_reader import RawLines
from t2t_keras.input_pipeline.records.line_encoder import EncodedLines, LineEncoding
from t2t_keras.input_pipeline.records.manifest import RecordSpec
from t2t_keras.input_pipeline.records.process_pool import ProcessPool
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    ShardMetadata,
    check_shard,
    delete_shard,
    join_lines,
    read_metadata,
    shard_name,
    write_shard,
)

logger = logging.getLogger(__name__)

PREPARING = "preparing"
TEXT_FILE = "text.json"
"""Index of the training text."""
SHARDS = "train-*"
"""Pattern of the names of shards."""


def hash_file(folder: Path, shard: int) -> Path:
    """Returns the file with the hashes of a shard's pairs."""
    return folder / PREPARING / f"{shard_name(shard)}.npz"


def write_index(folder: Path, index: Any) -> None:
    """Writes the index of the training text, a value for JSON."""
    write_text(folder / PREPARING / TEXT_FILE, json.dumps(index) + "\n")


def read_index(folder: Path) -> Any:
    """Returns the index of the training text; None if there is none."""
    try:
        return json.loads((folder / PREPARING / TEXT_FILE).read_text())
    except (OSError, ValueError):
        return None


def find_complete(
    folder: Path, spec: RecordSpec, shards: Sequence[int], *, needs_hashes: bool = True
) -> set[int]:
    """Returns the shards that need not be written; removes damaged ones.

    Every byte is read: that takes far less time than writing the missing shards.
    Folders that killed processes left unfinished are removed.

    Args:
        folder: Folder of the records.
        spec: Their specification.
        shards: Numbers of the shards to look at.
        needs_hashes: Whether shards are incomplete without the hashes of their pairs.
    """
    sweep(folder, SHARDS)
    complete = set()
    for number in shards:
        path = folder / shard_name(number)
        if not path.exists():
            continue
        try:
            metadata = read_metadata(path)
            check_shard(path, metadata)
        except DamagedShardError as error:
            logger.warning(f"damaged, and made again: {error.fault}")
            delete_shard(path)
            continue
        if metadata.making != spec.digest:
            logger.warning(f"{path} is a shard of other records, and made again")
            delete_shard(path)
        elif not needs_hashes or hash_file(folder, number).exists():
            complete.add(number)
    return complete


def write_shards(
    folder: Path,
    spec: RecordSpec,
    lines: Iterable[RawLines],
    encoding: LineEncoding,
    workers: int,
    on_progress: Callable[[ShardMetadata], None],
) -> None:
    """Writes shards, and the hashes of their pairs.

    Args:
        folder: Folder of the records.
        spec: Their specification.
        lines: All lines of each shard to write, in order; none of two shards together.
        encoding: How they are encoded.
        workers: Number of processes that encode; 0 for this one.
        on_progress: Called after each shard.

    Raises:
        UserError: If a process is killed.
    """
    with ProcessPool(encoding, workers) as pool:
        for number, parts in itertools.groupby(
            pool.map(lines), lambda each: each[0].first // spec.pairs_per_shard
        ):
            own = [part for _, part in parts]
            _save_hashes(hash_file(folder, number), own)
            on_progress(write_shard(folder, number, join_lines(own), spec.digest))


def _save_hashes(file: Path, parts: Sequence[EncodedLines]) -> None:
    file.parent.mkdir(exist_ok=True)
    with atomic_file(file) as output:
        np.savez(
            output,
            pairs=np.concatenate([part.hashes for part in parts]),
            candidates=np.concatenate([part.candidates for part in parts]),
        )
