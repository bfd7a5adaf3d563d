"""Records on an object store: their shards are copied before they are opened.

CACHE/HASH OF THE MANIFEST/
  train-00000/ ...   shards, as in shards.py, without what joining alone needs
  length_counts.npy

Arrays are memory-mapped and read in any order, which an object store cannot serve. A
copy is that of a manifest, which has the hash of every file, not that of a URL: other
records under the same URL get a folder of their own.
"""

import concurrent.futures
import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from t2t_keras.files.atomic import file_sha256
from t2t_keras.files.locks import lock_folder
from t2t_keras.files.paths import expand
from t2t_keras.files.remote import RemotePath, download
from t2t_keras.files.shared_folders import folder_made_once, sweep
from t2t_keras.input_pipeline.records.manifest import (
    Manifest,
    read_length_counts,
    write_length_counts,
)
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    ShardMetadata,
    check_shard,
    delete_shard,
)
from t2t_keras.input_pipeline.records.unfinished import SHARDS

logger = logging.getLogger(__name__)

# Objects of a shard that are copied at a time.
_THREADS = 4
_NAME_LENGTH = 32


def local_shards(folder: Path, manifest: Manifest, cache: str | None) -> Path:
    """Returns the folder of shards that can be opened: the records', or a copy.

    Shards that are in the cache are read and kept if their hashes are right. Processes
    that use one cache wait for each other, and where its file system cannot lock, each
    copies what is missing and the first copy counts.

    Args:
        folder: Folder of the records, on an object store or not.
        manifest: Their manifest.
        cache: Folder of copies. Default: t2t_keras/records in the user's cache.

    Raises:
        DamagedShardError: If a shard on the object store is not that of the manifest.
        OSError: If the copy cannot be written, such as on a full disk.
        UserError: If the object store cannot be read.
    """
    if not isinstance(folder, RemotePath):
        return folder
    name = hashlib.sha256(manifest.to_json().encode()).hexdigest()[:_NAME_LENGTH]
    local = (expand(cache) if cache else _default_cache()) / name
    local.mkdir(parents=True, exist_ok=True)
    with lock_folder(local, wait=True):
        sweep(local, SHARDS)
        missing = [s for s in manifest.shards if not _is_complete(local / s.name, s)]
        if missing:
            logger.info(f"copying {len(missing)} shards of {folder} to {local} …")
        for shard in missing:
            with folder_made_once(local / shard.name) as temporary:
                fetch_shard(folder / shard.name, shard, temporary)
        if manifest.lengths_sha256:
            counts = read_length_counts(folder, manifest.lengths_sha256)
            write_length_counts(local, counts)
    return local


def _default_cache() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expand(caches) / "t2t_keras" / "records"


def _is_complete(path: Path, metadata: ShardMetadata) -> bool:
    """Returns whether a copy of a shard is right; removes one that is not."""
    if not path.exists():
        return False
    try:
        check_shard(path, metadata)
    except DamagedShardError as error:
        logger.warning(f"damaged, and copied again: {error.fault}")
        delete_shard(path)
        return False
    return True


def fetch_shard(url: Path, metadata: ShardMetadata, target: Path) -> None:
    """Copies the files of a shard into an existing folder, and checks their hashes.

    Args:
        url: The shard on the object store.
        metadata: What it has to be.
        target: Where the files go.

    Raises:
        DamagedShardError: If an object is missing, or its hash is another.
        OSError: If a file cannot be written.
        UserError: If the object store cannot be read.
    """

    def fetch(name: str) -> None:
        try:
            download(RemotePath(url / name), target / name)
        except FileNotFoundError as error:
            fault = f"{url / name}: {error.strerror}"
            raise DamagedShardError(fault) from error
        sha256, expected = file_sha256(target / name), metadata.sha256[name]
        if sha256 != expected:
            raise DamagedShardError(
                f"{url / name}: its SHA-256 is {sha256[:12]}…, not {expected[:12]}…"
            )

    for_all(fetch, metadata.sha256)


def for_all(call: Callable[[str], object], names: Iterable[str]) -> None:
    """Calls a function with each name, some at a time; raises its first error."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as threads:
        try:
            for _ in threads.map(call, names):
                pass
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
