"""Lines of the training text that the settings name, from any on; and a sample of them.

Records are prepared from these. Training on text reads pairs (`corpora.corpus`).
"""

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.files.lines import holds_both_sides, text_suffix
from t2t_keras.input_pipeline.corpora.corpus import Corpus, TextChunk, file_chunks
from t2t_keras.input_pipeline.corpora.filters import (
    FilterMakers,
    count_table,
    first_rejections,
    none_left_error,
)
from t2t_keras.input_pipeline.corpora.line_index import (
    IndexedText,
    check_size,
    index_text,
)
from t2t_keras.input_pipeline.corpora.line_reader import (
    ChunkReader,
    FileReader,
    JoinedReader,
    LineReader,
    RawLines,
)
from t2t_keras.input_pipeline.corpora.parallel_text import (
    check_read_twice,
    check_sides,
    expand_patterns,
    format_warnings,
    open_parallel_text,
    read_parallel_text,
)
from t2t_keras.runs.tasks import task_for
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.text.normalization import is_blank, normalize

logger = logging.getLogger(__name__)

MOST_SAMPLED = 2_000_000
"""Lines from which a vocabulary is learned. A longer text is sampled."""
_LINES_PER_RUN = 1000
_SEED = 1
_SECONDS_UNTIL_PROGRESS = 10.0


@dataclasses.dataclass(frozen=True)
class TrainingLines:
    """Lines of the training text.

    Attributes:
        name: Name of the corpus.
        reader: Reads any of them.
        sha256: Hash of the files, or of a dataset's metadata.
        fingerprint: Fingerprint of a dataset; None for that of its pairs.
        index: Index of files, for JSON; None where lines are found by reading all.
        warnings: Warnings about the text.
    """

    name: str
    reader: LineReader
    sha256: str
    fingerprint: str | None
    index: Any
    warnings: Sequence[str] = ()


@contextlib.contextmanager
def open_training_lines(
    config: DataConfig,
    corpus: Corpus,
    *,
    index: Any = None,
    workers: int = 1,
    check: Callable[[], None] = lambda: None,
) -> Iterator[TrainingLines]:
    """Yields the lines of the training text.

    Args:
        config: The settings.
        corpus: That of the settings, from `build_corpus`; it has the dataset.
        index: Index of the same files, if they have been counted. Default: they are
            counted.
        workers: Number of threads that count.
        check: Called now and then; what it raises ends the counting.

    Raises:
        UserError: If there is no training text, or it cannot be read; or if files are
            not those of the index.
    """
    lines = _open_lines(config, corpus, index, workers, check)
    with contextlib.closing(lines.reader):
        yield lines


def _open_lines(
    config: DataConfig,
    corpus: Corpus,
    index: Any,
    workers: int,
    check: Callable[[], None],
) -> TrainingLines:
    if not config.train_source:
        return _dataset_lines(corpus)
    source, target = map(expand_patterns, (config.train_source, config.train_target))
    check_sides(source, target)
    check_read_twice((*source, *target))
    languages = config.source_language, config.target_language
    groups = [*zip(source, target, strict=True)] if target else [(s,) for s in source]
    # Files of lines together, and each other one by itself.
    runs = [
        list(run)
        for _, run in itertools.groupby(
            groups, lambda group: None if _is_of_lines(group[0]) else group[0]
        )
    ]
    if index is not None and len(index) != len(runs):
        index = None
    opened = [
        _open_indexed(
            run, languages, None if index is None else index[number], workers, check
        )
        if _is_of_lines(run[0][0])
        else _open_pairs(run[0][0], config, None if index is None else index[number])
        for number, run in enumerate(runs)
    ]
    if len(opened) == 1:
        return dataclasses.replace(opened[0], index=[opened[0].index])
    hashes = " ".join(each.sha256 for each in opened)
    return TrainingLines(
        "text files",
        JoinedReader([each.reader for each in opened]),
        hashlib.sha256(hashes.encode()).hexdigest(),
        None,
        [each.index for each in opened],
        [warning for each in opened for warning in each.warnings],
    )


def _is_of_lines(path: Path) -> bool:
    """Returns whether a line of a file is one of the corpus, which can be found."""
    return not holds_both_sides(path) or text_suffix(path) == ".tsv"


def _open_indexed(
    groups: Sequence[Sequence[Path]],
    languages: Sequence[str],
    index: Any,
    workers: int,
    check: Callable[[], None],
) -> TrainingLines:
    if index is None:
        indexed = index_text(groups, workers, _Progress(check))
    else:
        indexed = IndexedText.from_json(index, groups)
    tables = [group[0] for group in groups]
    warnings = [*format_warnings(tables, languages), *indexed.warnings()]
    return TrainingLines(
        "text files",
        FileReader(indexed),
        indexed.sha256,
        None,
        indexed.to_json(),
        warnings,
    )


def _open_pairs(path: Path, config: DataConfig, index: Any) -> TrainingLines:
    """Returns the pairs of a file of trees, a table or the like."""
    read_trees = task_for(config.target_language).read_trees
    how = (config.source_language, config.target_language), config.columns
    warnings = ()
    if index is None:
        report = open_parallel_text([path], (), read_trees, *how).report
        warnings = report.warnings()
        index = {
            "path": str(path),
            "size": path.stat().st_size,
            "lines": report.lines,
            "sha256": report.fingerprint,
        }
    check_size(path, index["size"])
    reader = ChunkReader(
        lambda: file_chunks(lambda: read_parallel_text(path, None, *how, read_trees)),
        index["lines"],
    )
    return TrainingLines("text files", reader, index["sha256"], None, index, warnings)


def _dataset_lines(corpus: Corpus) -> TrainingLines:
    corpus.chunks("train")  # raises UserError without a train split
    train = corpus.splits["train"]
    reader = ChunkReader(train.open_chunks, train.num_pairs or 0)
    fingerprint = train.fingerprint
    return TrainingLines(
        corpus.name, reader, fingerprint, fingerprint, None, train.warnings
    )


class _Progress:
    """Tells how many bytes have been counted, if that takes long."""

    def __init__(self, check: Callable[[], None]):
        self._check = check
        self._start = self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        self._check()
        now = time.monotonic()
        if now - self._told >= _SECONDS_UNTIL_PROGRESS:
            left = (total - done) * (now - self._start) / done
            logger.info(
                f"counting lines: {done / 1e9:,.1f} of {total / 1e9:,.1f} GB  "
                f"left {left:,.0f}s"
            )
            self._told = now


def sampled_ranges(num_lines: int, most: int | None = None) -> list[range]:
    """Returns the lines of a sample of a text: all, or runs of them.

    The runs are as far apart as the text is long, each by chance within its part of it,
    so that all parts of a corpus count alike. They depend on the numbers of lines
    alone.

    Args:
        num_lines: Lines of the text.
        most: Lines of the sample. Default: those that a vocabulary is learned from.
    """
    most = MOST_SAMPLED if most is None else most
    if num_lines <= most:
        return [range(num_lines)]
    runs = most // _LINES_PER_RUN
    words = np.random.Philox(_SEED).random_raw(runs).tolist()
    ranges = []
    for number, word in enumerate(words):
        begin = number * num_lines // runs
        room = (number + 1) * num_lines // runs - begin - _LINES_PER_RUN
        begin += word % (room + 1)
        ranges.append(range(begin, begin + _LINES_PER_RUN))
    return ranges


def sampled_share(num_lines: int) -> Fraction:
    """Returns the share of the lines that are sampled."""
    return Fraction(min(num_lines, MOST_SAMPLED), max(num_lines, 1))


def sampled_chunks(lines: TrainingLines, filters: FilterMakers) -> Iterator[TextChunk]:
    """Yields the sampled pairs that filters keep.

    Args:
        lines: The training text.
        filters: Each filter. Duplicates are those within the sample.

    Raises:
        UserError: If the filters leave none.
    """
    made = [make() for make in filters.values()]
    counts = np.zeros(1 + len(made), np.int64)
    for own in sampled_ranges(lines.reader.num_lines):
        for raw in lines.reader.read(own.start, own.stop):
            source, target, rejected_by = _filter(raw, made)
            counts += np.bincount(rejected_by + 1, minlength=len(counts))
            kept = np.flatnonzero(rejected_by < 0).tolist()
            yield [source[i] for i in kept], [target[i] for i in kept]
    if made and not counts[0]:
        by_name = dict(zip(filters, counts[1:].tolist(), strict=True))
        raise none_left_error(count_table(lines.name, int(counts.sum()), by_name, 0))


def _filter(
    raw: RawLines, filters: Sequence[Any]
) -> tuple[list[bytes], list[bytes], np.ndarray]:
    """Returns the pairs with text on both sides, and which filter rejects each."""
    pairs = [
        pair for pair in zip(*raw.split(), strict=True) if not any(map(is_blank, pair))
    ]
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    if not filters:
        return source, target, np.full(len(pairs), -1)
    texts = [*map(normalize, source)], [*map(normalize, target)]
    return source, target, first_rejections(filters, *texts)
