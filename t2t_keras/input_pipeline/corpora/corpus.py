"""Corpus: sentence pairs as strings, from files or TensorFlow Datasets (TFDS).

A corpus is parallel text files, a folder under `data/`, or a dataset of TensorFlow
Datasets by name. All three have one type.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.fingerprints import is_same_text
from t2t_keras.input_pipeline.corpora.parallel_text import (
    TreeReader,
    open_parallel_text,
)
from t2t_keras.input_pipeline.corpora.tfds import TfdsSource, open_tfds
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport

# Names of the splits here, and in TensorFlow Datasets.
SPLITS: tuple[tuple[str, str], ...] = (
    ("train", "train"),
    ("dev", "validation"),
    ("test", "test"),
)

# Crossing from Python to the graph costs as much for a thousand pairs as for one.
_PAIRS_PER_CHUNK = 1024
# Limit of a chunk of files with very long lines.
_BYTES_PER_CHUNK = 1 << 20

Files: TypeAlias = tuple[Sequence[str | Path], Sequence[str | Path]]
"""Source and target files of one split; no target files for TSV files or trees."""

TextChunk: TypeAlias = tuple[list[bytes], list[bytes]]
"""Consecutive pairs: the sources, and the same number of targets."""


@dataclasses.dataclass(frozen=True)
class CorpusSplit:
    """One split of a corpus: sentence pairs, always in the same order."""

    open_pairs: Callable[[], tf.data.Dataset]
    open_chunks: Callable[[], Iterator[TextChunk]]
    num_pairs: int | None
    """None where only reading all pairs would tell."""
    fingerprint: str
    """Hash of the pairs of files, or of a dataset's name, version and sizes."""
    open_old_fingerprint: Callable[[], str]
    """Returns the fingerprint that releases up to 0.9 stored; it may read the text."""
    warnings: tuple[str, ...] = ()
    """Warnings to log before training on the split."""
    open_lines: Callable[[], Iterator[TextChunk]] | None = None
    """Includes pairs with an empty side; None where `open_chunks` has them."""
    is_kept: np.ndarray | None = None
    """[pairs before filters] bool; None if no filter was applied."""
    left_out: TokenizationReport = dataclasses.field(default_factory=TokenizationReport)
    """Lines that `open_chunks` leaves out."""

    def has_fingerprint(self, stored: str) -> bool:
        """Returns whether a stored fingerprint is that of these pairs."""
        return is_same_text(stored, self.fingerprint, self.open_old_fingerprint)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sentence pairs as strings, by split: "train", "dev" and "test"."""

    name: str
    splits: Mapping[str, CorpusSplit]
    """The existing splits, in the order train, dev, test."""

    def pairs(self, split: str) -> tf.data.Dataset:
        """Returns `{"source": ..., "target": ...}` string scalars, in order.

        Raises:
            UserError: If the corpus has no such split.
        """
        return self._split(split).open_pairs()

    def chunks(self, split: str) -> Iterator[TextChunk]:
        """Yields the pairs of `pairs` in Python, about a thousand at a time.

        For reading all of a large corpus: thirty times as fast as pair by pair.

        Raises:
            UserError: If the corpus has no such split.
        """
        return self._split(split).open_chunks()

    def lines(self, split: str) -> Iterator[TextChunk]:
        """Yields the pairs of `chunks`, and those with an empty side in their places.

        For a test set: each of its lines is scored.

        Raises:
            UserError: If the corpus has no such split.
        """
        lines = self._split(split)
        return (lines.open_lines or lines.open_chunks)()

    def _split(self, split: str) -> CorpusSplit:
        if split not in self.splits:
            only = f", only: {', '.join(self.splits)}" if self.splits else ""
            raise UserError(
                f"The corpus {self.name} has no {split} split{only}. Give files for "
                "it, or another corpus."
            )
        return self.splits[split]


def open_corpus(
    dataset: str | None = None,
    *,
    files: Mapping[str, Files] | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    data_dir: str | None = None,
    download: bool = False,
    read_trees: TreeReader | None = None,
    columns: Sequence[str] = (),
) -> Corpus:
    """Returns a corpus, after a check that it can be read.

    Args:
        dataset: A folder of `data/` that has a dataset builder, or a name of
            TensorFlow Datasets such as `wmt14_translate/de-en`.
        files: Source and target files by split, instead of a dataset.
        source_language: Feature of the dataset to translate from. Default: "source".
            Of files, see `open_parallel_text`.
        target_language: Feature of the dataset to translate into. Default: "target".
        data_dir: Folder of prepared datasets. Default: that of TFDS.
        download: Whether a dataset that is not prepared may be downloaded.
        read_trees: Reads sentence pairs from `.mrg` files, and from the dataset's
            feature `target_language`; None if the task has no trees.
        columns: Names of both columns in files of tables; see `open_parallel_text`.

    Raises:
        UserError: If there are neither `dataset` nor `files`, or both, or they cannot
            be read.
    """
    if files and dataset:
        raise UserError(
            f"Give a dataset or parallel text files. Received: {dataset} and files."
        )
    if files:
        languages = source_language or "source", target_language or "target"
        return _file_corpus(files, read_trees, languages, columns)
    if not dataset:
        raise UserError("Give a dataset or parallel text files. Received: neither.")
    return _dataset_corpus(
        open_tfds(
            dataset,
            source_language=source_language,
            target_language=target_language,
            data_dir=data_dir,
            download=download,
        ),
        read_trees,
    )


def _file_corpus(
    files: Mapping[str, Files],
    read_trees: TreeReader | None,
    languages: Sequence[str],
    columns: Sequence[str],
) -> Corpus:
    known = [name for name, _ in SPLITS]
    if unknown := sorted(set(files) - set(known)):
        raise UserError(f"Splits are called {', '.join(known)}. Received: {unknown}")
    texts = {
        name: open_parallel_text(*files[name], read_trees, languages, columns)
        for name in known
        if files.get(name)
    }
    splits = {
        name: CorpusSplit(
            open_pairs=functools.partial(
                chunk_pairs, functools.partial(file_chunks, text.pairs)
            ),
            open_chunks=functools.partial(file_chunks, text.pairs),
            num_pairs=text.report.pairs,
            fingerprint=text.report.fingerprint,
            open_old_fingerprint=text.sha256,
            warnings=tuple(f"{name}: {line}" for line in text.report.warnings()),
            open_lines=functools.partial(file_chunks, text.lines),
            left_out=TokenizationReport(dropped_empty=text.report.dropped_empty),
        )
        for name, text in texts.items()
    }
    return Corpus("text files", MappingProxyType(splits))


def file_chunks(
    open_lines: Callable[[], Iterator[tuple[bytes, bytes]]],
) -> Iterator[TextChunk]:
    """Yields pairs of lines, many at a time."""
    source: list[bytes] = []
    target: list[bytes] = []
    size = 0
    for pair in open_lines():
        source.append(pair[0])
        target.append(pair[1])
        size += len(pair[0]) + len(pair[1])
        if len(source) == _PAIRS_PER_CHUNK or size >= _BYTES_PER_CHUNK:
            yield source, target
            source, target, size = [], [], 0
    if source:
        yield source, target


def chunk_pairs(open_chunks: Callable[[], Iterator[TextChunk]]) -> tf.data.Dataset:
    """Returns a dataset of the pairs of chunks, opened at each iteration."""

    def chunks() -> Iterator[dict[str, list[bytes]]]:
        for source, target in open_chunks():
            yield {"source": source, "target": target}

    spec = tf.TensorSpec([None], tf.string)
    return tf.data.Dataset.from_generator(
        chunks, output_signature={"source": spec, "target": spec}
    ).unbatch()


def _dataset_chunks(open_pairs: Callable[[], tf.data.Dataset]) -> Iterator[TextChunk]:
    """Yields the pairs of a dataset, many at a time."""
    batches: Any = open_pairs().batch(_PAIRS_PER_CHUNK)
    for batch in batches.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        yield batch["source"].tolist(), batch["target"].tolist()


def _tree_chunks(
    open_pairs: Callable[[], tf.data.Dataset], name: str, read_trees: TreeReader
) -> Iterator[TextChunk]:
    """Yields words and symbols of a dataset's trees, many at a time.

    The dataset's own sentences may be split into words differently from the trees.
    """

    def read_pair(tree: bytes, number: int) -> tuple[bytes, bytes]:
        example = f"{name}, example {number}"
        pairs = list(read_trees(tree.split(b"\n"), example))
        if len(pairs) != 1:
            raise UserError(
                f"{example} must have one tree. Received: {len(pairs)}. The dataset's "
                "feature is taken for the trees of one sentence each."
            )
        return pairs[0]

    first = 1
    for _, trees in _dataset_chunks(open_pairs):
        pairs = [read_pair(tree, number) for number, tree in enumerate(trees, first)]
        first += len(trees)
        yield [source for source, _ in pairs], [target for _, target in pairs]


def _dataset_corpus(source: TfdsSource, read_trees: TreeReader | None) -> Corpus:
    splits = {}
    for name, their_name in SPLITS:
        if their_name not in source.split_names:
            continue
        open_pairs = source.make_opener(their_name)
        open_chunks = functools.partial(_dataset_chunks, open_pairs)
        if read_trees is not None:
            trees_name = f"{source.name}, {name}"
            open_chunks = functools.partial(
                _tree_chunks, open_pairs, trees_name, read_trees
            )
            open_pairs = functools.partial(chunk_pairs, open_chunks)
        fingerprint = source.fingerprint(their_name)
        splits[name] = CorpusSplit(
            open_pairs=open_pairs,
            open_chunks=open_chunks,
            num_pairs=source.num_pairs(their_name),
            fingerprint=fingerprint,
            open_old_fingerprint=functools.partial(str, fingerprint),
        )
    return Corpus(source.name, MappingProxyType(splits))
