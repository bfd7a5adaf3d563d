"""Corpora that come as a dataset builder of TensorFlow Datasets.

Nothing here touches the network unless a download is asked for.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import socket
import sys
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import tensorflow as tf

from t2t_keras.errors import UserError, did_you_mean, needed_for
from t2t_keras.files.bundled import DATA, bundled_folder

# TensorFlow Datasets ships no types that pyright could read.
Builder: TypeAlias = Any

# Where TensorFlow Datasets keeps prepared copies of some datasets.
_COPIES_HOST = "storage.googleapis.com"
_ANSWER_SECONDS = 5.0
_RETRIES_OFFLINE = 2


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A prepared dataset, and which of its features are source and target."""

    builder: Builder
    source_feature: str
    target_feature: str

    @property
    def name(self) -> str:
        """Dataset, configuration, version and direction."""
        full_name = self.builder.info.full_name
        return f"{full_name} {self.source_feature}-{self.target_feature}"

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits as the dataset calls them."""
        return tuple(self.builder.info.splits)

    def num_pairs(self, split: str) -> int:
        """Returns how many pairs a split has."""
        return self.builder.info.splits[split].num_examples

    def fingerprint(self, split: str) -> str:
        """Returns a hash of all that TFDS records of a split's contents."""
        info = self.builder.info.splits[split]
        facts = (self.name, split, info.shard_lengths, info.num_bytes)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def opener(self, split: str) -> Callable[[], tf.data.Dataset]:
        """Returns what opens the pairs of a split, in the order on disk."""
        tfds = _tensorflow_datasets()

        def open_pairs() -> tf.data.Dataset:
            examples = self.builder.as_dataset(
                split=split,
                shuffle_files=False,
                # One file after another: the order is that of the files.
                read_config=tfds.ReadConfig(
                    interleave_cycle_length=1, try_autocache=False
                ),
            )
            return examples.map(
                lambda example: {
                    "source": example[self.source_feature],
                    "target": example[self.target_feature],
                },
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )

        return open_pairs


def open_tfds(
    dataset: str,
    *,
    source_language: str | None,
    target_language: str | None,
    data_dir: str | None,
    download: bool,
) -> TfdsSource:
    """Returns a dataset, prepared and with its two languages picked.

    Args:
        dataset: A folder with a dataset builder in `./data` or in the bundled
            `data`, which is prepared if it is not yet; or the name of a dataset
            of TFDS.
        source_language: Feature to translate from; None for "source".
        target_language: Feature to translate into; None for "target".
        data_dir: Where prepared datasets lie; TFDS's own default if None.
        download: Whether to download and prepare what is not there.

    Raises:
        UserError: If there is no such dataset or feature, or it is not
            prepared and may not be downloaded, or cannot be.
    """
    folder = _builder_folder(dataset.split("/")[0].split(":")[0], _data_folders())
    if folder is not None:
        builder = _local_builder(folder, dataset, data_dir)
    else:
        builder = _named_builder(dataset, data_dir)
    # Before anything is prepared: a misspelt language should not cost a download.
    features = _languages(builder, dataset, source_language, target_language)
    if not builder.info.splits:
        _prepare(builder, dataset, may_download=download or folder is not None)
    return TfdsSource(builder, *features)


def _tensorflow_datasets() -> ModuleType:
    # Imported where it is needed: training on text files does without it.
    with needed_for("--dataset", "tensorflow-datasets"):
        import tensorflow_datasets

    return tensorflow_datasets


def _data_folders() -> tuple[Path, ...]:
    here = Path(DATA).resolve()
    bundled = bundled_folder(DATA)
    return (here,) if here == bundled else (here, bundled)


def _builder_folder(name: str, data_folders: Sequence[Path]) -> Path | None:
    for parent in data_folders:
        if name and (parent / name / f"{name}_dataset_builder.py").is_file():
            return parent / name
    return None


def _local_builder(folder: Path, dataset: str, data_dir: str | None) -> Builder:
    tfds = _tensorflow_datasets()
    if str(folder.parent) not in sys.path:
        # At the end: a corpus called like a module of Python must not hide it.
        sys.path.append(str(folder.parent))
    importlib.invalidate_caches()
    name = f"{folder.name}_dataset_builder"
    module = importlib.import_module(f"{folder.name}.{name}")
    # The file may be a link while its folder is none, so files are compared.
    if Path(str(module.__file__)).resolve() != (folder / f"{name}.py").resolve():
        raise UserError(
            f"The name of the corpus {folder} is taken: Python finds "
            f"{module.__file__} under it. Rename the folder and its builder."
        )
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, tfds.core.GeneratorBasedBuilder)
        and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise UserError(
            f"{module.__file__} must define one subclass of "
            f"tfds.core.GeneratorBasedBuilder. Received: {len(found)}"
        )
    _, _, config = dataset.partition("/")
    arguments = {"config": config} if config else {}
    return _built(dataset, lambda: found[0](data_dir=data_dir, **arguments))


def _named_builder(dataset: str, data_dir: str | None) -> Builder:
    tfds = _tensorflow_datasets()
    try:
        return _built(dataset, lambda: tfds.builder(dataset, data_dir=data_dir))
    except tfds.core.DatasetNotFoundError as error:
        folders = [folder for folder in _data_folders() if folder.is_dir()]
        local = {
            path.name for folder in folders for path in folder.iterdir()
            if _builder_folder(path.name, [folder])
        }  # fmt: skip
        names = [*tfds.list_builders(with_community_datasets=False), *sorted(local)]
        hint = did_you_mean(dataset.split("/")[0], names)
        raise UserError(
            f"There is no dataset {dataset}, neither in TensorFlow Datasets nor as "
            f"a folder with a builder in {' or '.join(map(str, _data_folders()))}."
            f"{hint}"
        ) from error


def _built(dataset: str, build: Callable[[], Builder]) -> Builder:
    """Calls a constructor of TFDS, which raises many things for a wrong name."""
    tfds = _tensorflow_datasets()
    try:
        return build()
    except tfds.core.DatasetNotFoundError:
        raise
    except (ValueError, AssertionError, ImportError) as error:
        raise UserError(
            f"The dataset {dataset} cannot be opened. Write name/configuration, as "
            f"in wmt14_translate/de-en. TensorFlow Datasets says: {error}"
        ) from error


def _languages(
    builder: Builder, dataset: str, source: str | None, target: str | None
) -> tuple[str, str]:
    tfds = _tensorflow_datasets()
    texts = [
        name
        for name, feature in dict(builder.info.features or {}).items()
        if isinstance(feature, tfds.features.Text)
    ]
    chosen = (source or "source", target or "target")
    for flag, given, name in (
        ("--source_language", source, chosen[0]),
        ("--target_language", target, chosen[1]),
    ):
        if name not in texts:
            problem = f"has no text {given!r}" if given else f"needs {flag}"
            raise UserError(
                f"The dataset {dataset} {problem}. {flag} must be one of: "
                f"{', '.join(texts) or '(it has no text)'}.{_configurations(builder)}"
            )
    if chosen[0] == chosen[1]:
        raise UserError(
            f"--source_language and --target_language are both {chosen[0]!r}. Choose "
            f"two of: {', '.join(texts)}."
        )
    return chosen


def _configurations(builder: Builder) -> str:
    # Named without one, a dataset opens its first, and that has other languages.
    names = list(builder.builder_configs)
    if len(names) < 2:
        return ""
    return f" This is {builder.info.full_name}; there are also: {', '.join(names)}."


def _preparation_errors() -> tuple[type[Exception], ...]:
    """Returns what goes wrong when a server, an archive or a disk is at fault."""
    from tensorflow_datasets.core.download import download_manager, extractor, util

    return (
        OSError,  # those of requests, too
        util.DownloadError,
        download_manager.NonMatchingChecksumError,
        extractor.ExtractError,
    )


def _download_and_prepare(builder: Builder, dataset: str) -> None:
    """Prepares a dataset, with words for each wait.

    Without a network TensorFlow Datasets tries ten times to reach its own copies, and
    then as often each host of the dataset, for minutes and without a word.
    """
    from tensorflow_datasets.core.download import downloader

    print(f"preparing {dataset} in {builder.data_dir} …", flush=True)
    config = _tensorflow_datasets().download.DownloadConfig()
    retries = downloader.MAX_RETRIES
    if not _can_be_reached(_COPIES_HOST):
        print(f"{_COPIES_HOST} cannot be reached; trying other hosts …", flush=True)
        config.try_download_gcs = False
        downloader.MAX_RETRIES = _RETRIES_OFFLINE
    try:
        builder.download_and_prepare(download_config=config)
    finally:
        downloader.MAX_RETRIES = retries


def _can_be_reached(host: str) -> bool:
    """Returns whether a host answers soon; taken for granted behind a proxy."""
    if urllib.request.getproxies():
        return True
    try:
        socket.create_connection((host, 443), timeout=_ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _prepare(builder: Builder, dataset: str, *, may_download: bool) -> None:
    if not may_download:
        raise UserError(
            f"The dataset {dataset} is not prepared in {builder.data_dir}. Download "
            "and prepare it once with --download (it may take hours and many "
            "gigabytes), or give the --data_dir that holds it."
        )
    # Bars that redraw themselves are for a terminal; standard output is for results.
    _tensorflow_datasets().display_progress_bar(sys.stderr.isatty())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            _download_and_prepare(builder, dataset)
    except _preparation_errors() as error:
        raise UserError(
            f"The dataset {dataset} could not be prepared in {builder.data_dir}: "
            f"{error}. Check the network and the free space, and try again."
        ) from error
