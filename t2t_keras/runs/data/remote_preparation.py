"""Preparation of records on an object store: in a folder that is then uploaded.

An object store has no renames and no locks. So a shard is written to a local folder, as
records on a file system are, and uploaded file by file: `shard.json` comes last and
makes it complete, as `making.json` does what is begun and `manifest.json` the whole.
Two processes that write the same object write the same bytes.

The functions are those of `preparation`, with a `RemotePath` for the folder.
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import remove
from t2t_keras.files.remote import (
    RemotePath,
    delete,
    download,
    list_objects,
    upload,
    write_object,
)
from t2t_keras.files.signals import undo_if_interrupted
from t2t_keras.input_pipeline.records.manifest import (
    LENGTHS_FILE,
    MANIFEST_FILE,
    SPEC_FILE,
    VOCABULARY_FILE,
    Manifest,
    RecordSpec,
    read_spec,
    text_files,
    verify_records,
)
from t2t_keras.input_pipeline.records.remote_records import fetch_shard, for_all
from t2t_keras.input_pipeline.records.shards import (
    METADATA_FILE,
    ShardMetadata,
    check_shard,
    shard_name,
)
from t2t_keras.input_pipeline.records.unfinished import (
    PREPARING,
    TEXT_FILE,
    hash_file,
)
from t2t_keras.runs.data import preparation
from t2t_keras.runs.data.begun_records import OTHER_SPLITS, REJECTED_FILE
from t2t_keras.settings.data_config import DataConfig

logger = logging.getLogger(__name__)

_PROBE = f"{PREPARING}/probe"


def prepare(config: DataConfig, folder: RemotePath, **how: Any) -> Manifest:
    """Writes records, or the shards that are missing; see `preparation.prepare`."""
    with _open_copy(folder) as copy:
        copy.fetch(copy.all_shards())
        manifest = preparation.prepare(
            config, copy.local, on_shard=copy.upload_shard, **how
        )
        copy.upload_end(manifest)
        return manifest


def begin(config: DataConfig, folder: RemotePath, **how: Any) -> RecordSpec:
    """Counts the text and learns the vocabulary; see `preparation.begin`."""
    with _open_copy(folder) as copy:
        spec = preparation.begin(config, copy.local, **how)
        copy.upload_begun()
        return spec


def write_part(
    config: DataConfig, folder: RemotePath, part: tuple[int, int], **how: Any
) -> range:
    """Writes the missing shards of a part; see `preparation.write_part`."""
    with _open_copy(folder) as copy:
        copy.fetch_unfinished(preparation.part_of(len(copy.all_shards()), part))
        return preparation.write_part(
            config, copy.local, part, on_shard=copy.move_shard, **how
        )


def write_some(
    config: DataConfig, folder: RemotePath, shards: Sequence[int], workers: int
) -> None:
    """Writes those of some shards that are missing; see `preparation.write_some`."""
    with _open_copy(folder) as copy:
        copy.fetch_unfinished(shards)
        preparation.write_some(
            config, copy.local, shards, workers, on_shard=copy.move_shard
        )


def join(config: DataConfig, folder: RemotePath) -> Manifest:
    """Joins the shards that parts have written; see `preparation.join`."""
    with _open_copy(folder) as copy:
        copy.fetch(copy.all_shards())
        manifest = preparation.join(config, copy.local)
        copy.upload_end(manifest)
        return manifest


def verify(folder: RemotePath) -> Manifest:
    """Reads all of the records, one shard at a time; see `manifest.verify_records`."""

    def check(path: Path, metadata: ShardMetadata) -> None:
        with _temporary_folder() as local:
            fetch_shard(path, metadata, local)
            check_shard(local, metadata)

    return verify_records(folder, check)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    local = Path(tempfile.mkdtemp(prefix="t2t_keras.records."))
    with undo_if_interrupted(lambda: remove(local)):
        yield local


@contextlib.contextmanager
def _open_copy(url: RemotePath) -> Iterator["_Copy"]:
    """Yields a folder with what was begun, and removes it at the end.

    Raises:
        UserError: At once if the object store cannot be written. Errors in the block
            name it instead of the folder.
    """
    with _temporary_folder() as local:
        write_object(b"", url / _PROBE)
        delete(url / _PROBE)
        logger.info(f"the records in {url} are prepared in {local}")
        try:
            yield _Copy(url, local)
        except UserError as error:
            text = str(error).replace(str(local), str(url))
            raise UserError(text) from error


class _Copy:
    """Folder with the files of records that a step needs.

    Attributes:
        local: The folder.
    """

    def __init__(self, url: RemotePath, local: Path):
        self.local = local
        self._url = url
        self._stored: dict[str, bytes] = {}
        """Contents of small objects."""
        self._objects = set(list_objects(url))
        self._is_begun = False
        for name in self._objects & {*_small_files(), LENGTHS_FILE, MANIFEST_FILE}:
            self._fetch(name)
            self._stored[name] = (local / name).read_bytes()

    def all_shards(self) -> range:
        """Returns the numbers of all shards; none if records are not begun."""
        spec = read_spec(self.local)
        return range(spec.num_shards if spec else 0)

    def fetch(self, shards: Sequence[int]) -> None:
        """Copies those shards that are complete. Their hashes are not checked here."""
        for number in shards:
            name = shard_name(number)
            metadata = f"{name}/{METADATA_FILE}"
            if metadata not in self._objects:
                continue
            own = [each for each in self._objects if each.startswith(f"{name}/")]
            hashes = hash_file(Path(), number).as_posix()
            for_all(self._fetch, [*own, *({hashes} & self._objects)])
            self._stored[metadata] = (self.local / metadata).read_bytes()

    def fetch_unfinished(self, shards: Sequence[int]) -> None:
        """Copies those shards that are complete, unless the records are finished."""
        if not (self.local / MANIFEST_FILE).exists():
            self.fetch(shards)

    def move_shard(self, shard: ShardMetadata) -> None:
        """Uploads a shard that nothing here needs any more."""
        self.upload_shard(shard)
        remove(self.local / shard.name)

    def upload_begun(self) -> None:
        """Uploads what is needed to write any shard, where it is not stored."""
        if MANIFEST_FILE in self._stored and not (self.local / MANIFEST_FILE).exists():
            # Shards are about to be others.
            delete(self._url / MANIFEST_FILE)
            del self._stored[MANIFEST_FILE]
        for name in _small_files():
            self._upload_changed(name)
        self._is_begun = True

    def upload_shard(self, shard: ShardMetadata) -> None:
        """Uploads a shard; from the first byte to the last it counts as missing."""
        if not self._is_begun:
            self.upload_begun()
        metadata = f"{shard.name}/{METADATA_FILE}"
        content = (self.local / metadata).read_bytes()
        # Another process that writes the same shard may have completed it meanwhile.
        if self._stored.get(metadata, content) != content:
            delete(self._url / metadata)
        names = [f"{shard.name}/{name}" for name in shard.sha256]
        hashes = f"{PREPARING}/{shard.name}.npz"
        if (self.local / hashes).exists():
            names.append(hashes)
        for_all(self._upload, names)
        self._upload(metadata)
        self._stored[metadata] = content

    def upload_end(self, manifest: Manifest) -> None:
        """Uploads what joining has changed, and removes what was needed until then."""
        self.upload_begun()
        for shard in manifest.shards:
            content = (self.local / shard.name / METADATA_FILE).read_bytes()
            if self._stored.get(f"{shard.name}/{METADATA_FILE}") != content:
                self.upload_shard(shard)
        self._upload_changed(LENGTHS_FILE)
        self._upload_changed(MANIFEST_FILE)
        unfinished = list_objects(self._url / PREPARING)
        for_all(lambda name: delete(self._url / PREPARING / name), unfinished)

    def _fetch(self, name: str) -> None:
        file = self.local / name
        file.parent.mkdir(exist_ok=True)
        download(self._url / name, file)

    def _upload(self, name: str) -> None:
        upload(self.local / name, self._url / name)

    def _upload_changed(self, name: str) -> None:
        file = self.local / name
        if file.exists() and self._stored.get(name) != file.read_bytes():
            self._upload(name)
            self._stored[name] = file.read_bytes()


def _small_files() -> list[str]:
    """Returns the names of the files that begin records; the last one says so."""
    texts = [text_files(Path(), split) for split in OTHER_SPLITS]
    return [
        VOCABULARY_FILE,
        *(name for pair in texts for name in pair),
        f"{PREPARING}/{REJECTED_FILE}",
        f"{PREPARING}/{TEXT_FILE}",
        SPEC_FILE,
    ]
