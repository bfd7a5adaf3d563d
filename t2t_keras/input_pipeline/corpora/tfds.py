"""TensorFlow Datasets (TFDS): corpora that have a dataset builder.

The network is used only if a download is requested.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import io
import logging
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import tensorflow as tf

from t2t_keras.errors import UserError, did_you_mean, require_package
from t2t_keras.files.bundled import DATA, bundled_folder
from t2t_keras.files.locks import lock_folder

logger = logging.getLogger(__name__)

# TensorFlow Datasets ships no types that pyright could read.
Builder: TypeAlias = Any

# Host of TFDS's prepared copies of some datasets.
_COPIES_HOST = "storage.googleapis.com"
_CONNECT_SECONDS = 5.0
_RETRIES_OFFLINE = 2


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """Prepared dataset, with the names of its source and target features."""

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
        """Names of the splits in the dataset."""
        return tuple(self.builder.info.splits)

    def num_pairs(self, split: str) -> int:
        """Returns the number of pairs of a split."""
        return self.builder.info.splits[split].num_examples

    def fingerprint(self, split: str) -> str:
        """Returns a hash of TFDS's metadata of a split's contents."""
        info = self.builder.info.splits[split]
        metadata = (self.name, split, info.shard_lengths, info.num_bytes)
        return hashlib.sha256(repr(metadata).encode()).hexdigest()

    def make_opener(self, split: str) -> Callable[[], tf.data.Dataset]:
        """Returns a function that opens the pairs of a split, in the order on disk."""
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
    """Returns a prepared dataset, with its source and target features.

    Args:
        dataset: A folder with a dataset builder in `./data` or in the bundled `data`,
            which is prepared first if needed; or the name of a dataset of TFDS.
        source_language: Feature to translate from; None for "source".
        target_language: Feature to translate into; None for "target".
        data_dir: Folder of prepared datasets. Default: that of TFDS.
        download: Whether to download and prepare a missing dataset.

    Raises:
        UserError: If there is no such dataset or feature, or it is not prepared and
            may not or cannot be downloaded.
    """
    folder = _builder_folder(dataset.split("/")[0].split(":")[0], _data_folders())

    def make_builder() -> Builder:
        if folder is not None:
            return _local_builder(folder, dataset, data_dir)
        return _named_builder(dataset, data_dir)

    builder = make_builder()
    # Before anything is prepared: a misspelled language should not cost a download.
    features = _choose_features(builder, dataset, source_language, target_language)
    if not builder.info.splits:
        if not download and folder is None:
            raise _not_prepared(builder, dataset)
        with _only_process(builder, dataset):
            builder = make_builder()
            if not builder.info.splits:
                _prepare(builder, dataset, uses_network=download)
    return TfdsSource(builder, *features)


def _tensorflow_datasets() -> ModuleType:
    # Imported here: training on text files does not need it.
    with require_package("--dataset", "tensorflow-datasets"):
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
        # At the end: a corpus with the name of a Python module must not hide it.
        sys.path.append(str(folder.parent))
    importlib.invalidate_caches()
    name = f"{folder.name}_dataset_builder"
    module = importlib.import_module(f"{folder.name}.{name}")
    # Files are compared, because the file may be a link and its folder none.
    if Path(str(module.__file__)).resolve() != (folder / f"{name}.py").resolve():
        raise UserError(
            f"The name of the corpus {folder} is taken: Python finds "
            f"{module.__file__} under it. Rename the folder and its builder."
        )
    builders = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, tfds.core.GeneratorBasedBuilder)
        and value.__module__ == module.__name__
    ]
    if len(builders) != 1:
        raise UserError(
            f"{module.__file__} must define one subclass of "
            f"tfds.core.GeneratorBasedBuilder. Received: {len(builders)}"
        )
    _, _, config = dataset.partition("/")
    arguments = {"config": config} if config else {}
    return _call_builder(dataset, lambda: builders[0](data_dir=data_dir, **arguments))


def _named_builder(dataset: str, data_dir: str | None) -> Builder:
    tfds = _tensorflow_datasets()
    try:
        return _call_builder(dataset, lambda: tfds.builder(dataset, data_dir=data_dir))
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


def _call_builder(dataset: str, build: Callable[[], Builder]) -> Builder:
    """Calls a constructor of TFDS, which raises many exceptions for a wrong name."""
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


def _choose_features(
    builder: Builder, dataset: str, source: str | None, target: str | None
) -> tuple[str, str]:
    tfds = _tensorflow_datasets()
    texts = [
        name
        for name, feature in dict(builder.info.features or {}).items()
        if isinstance(feature, tfds.features.Text)
    ]
    chosen = (source or "source", target or "target")
    for flag, value, name in (
        ("--source_language", source, chosen[0]),
        ("--target_language", target, chosen[1]),
    ):
        if name not in texts:
            problem = f"has no text {value!r}" if value else f"needs {flag}"
            raise UserError(
                f"The dataset {dataset} {problem}. {flag} must be one of: "
                f"{', '.join(texts) or '(it has no text)'}."
                f"{_list_configurations(builder)}"
            )
    if chosen[0] == chosen[1]:
        raise UserError(
            f"--source_language and --target_language are both {chosen[0]!r}. Choose "
            f"two of: {', '.join(texts)}."
        )
    return chosen


def _list_configurations(builder: Builder) -> str:
    # Without a configuration TFDS opens the first, which has other languages.
    names = list(builder.builder_configs)
    if len(names) < 2:
        return ""
    return f" This is {builder.info.full_name}; there are also: {', '.join(names)}."


def _preparation_errors() -> tuple[type[Exception], ...]:
    """Returns the exceptions of failing servers, archives and disks."""
    from tensorflow_datasets.core.download import download_manager, extractor, util

    return (
        OSError,  # includes those of requests
        util.DownloadError,
        download_manager.NonMatchingChecksumError,
        extractor.ExtractError,
    )


class _LogWriter(io.TextIOBase):
    """Text stream that logs its lines, in place of standard output."""

    def __init__(self):
        self._stdout = sys.stdout
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        # What is logged may be printed to standard output.
        with contextlib.redirect_stdout(self._stdout):
            for line in filter(str.strip, lines):
                logger.info(line)
        return len(text)


def _download_and_prepare(
    builder: Builder,
    dataset: str,
    uses_network: bool,
) -> None:
    """Prepares a dataset, with a message before each wait.

    Without a network TensorFlow Datasets tries ten times to reach its own copies, and
    ten times each host of the dataset, for minutes and without a message.
    """
    from tensorflow_datasets.core.download import downloader

    logger.info(f"preparing {dataset} in {builder.data_dir} …")
    config = _tensorflow_datasets().download.DownloadConfig()
    retries = downloader.MAX_RETRIES
    if not uses_network:
        config.try_download_gcs = False
    elif not _is_reachable(_COPIES_HOST):
        logger.info(f"{_COPIES_HOST} cannot be reached; trying other hosts …")
        config.try_download_gcs = False
        downloader.MAX_RETRIES = _RETRIES_OFFLINE
    try:
        # TensorFlow Datasets prints; standard output is for results.
        with contextlib.redirect_stdout(_LogWriter()):
            builder.download_and_prepare(download_config=config)
    finally:
        downloader.MAX_RETRIES = retries


def _is_reachable(host: str) -> bool:
    """Returns whether a host accepts connections; behind a proxy, always True."""
    if urllib.request.getproxies():
        return True
    try:
        socket.create_connection((host, 443), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _not_prepared(builder: Builder, dataset: str) -> UserError:
    return UserError(
        f"The dataset {dataset} is not prepared in {builder.data_dir}. Download and "
        "prepare it once with --download (it may take hours and many gigabytes), or "
        "give the --data_dir that holds it."
    )


@contextlib.contextmanager
def _only_process(builder: Builder, dataset: str) -> Iterator[None]:
    """Waits until no other process prepares the dataset, if folders can be locked."""
    folder = Path(builder.data_dir).parent
    with contextlib.ExitStack() as stack:
        if "://" not in str(builder.data_dir):
            folder.mkdir(parents=True, exist_ok=True)
            if not stack.enter_context(lock_folder(folder)):
                logger.info(f"waiting for another process that prepares {dataset} …")
                stack.enter_context(lock_folder(folder, wait=True))
        yield


def _prepare(builder: Builder, dataset: str, *, uses_network: bool) -> None:
    # Progress bars are for a terminal.
    _tensorflow_datasets().display_progress_bar(sys.stderr.isatty())
    try:
        _download_and_prepare(builder, dataset, uses_network)
    except _preparation_errors() as error:
        raise UserError(
            f"The dataset {dataset} could not be prepared in {builder.data_dir}: "
            f"{error}. Check the network and the free space, and try again."
        ) from error
