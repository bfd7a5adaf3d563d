"""Report on a corpus: counts of finished records, and samples of their text.

Counts and lengths are those of all lines, from the arrays of the shards. Only lines of
samples are read from the text, in one pass, so that time and memory are bounded for
any number of lines. The same records and text give the same report.

Shapes: M `max_length`.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.line_reader import LineReader
from t2t_keras.input_pipeline.records.line_encoder import (
    BLANK,
    DUPLICATES,
    EMPTY,
    FILTERED,
    KEPT,
    OVER_LONG,
)
from t2t_keras.input_pipeline.records.manifest import (
    OLD_FORMAT,
    Manifest,
    read_manifest,
)
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    open_shard,
    read_decisions,
)
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.data.begun_records import check_text
from t2t_keras.runs.data.line_samples import LineSample, RandomLines
from t2t_keras.runs.data.sampled_text import (
    Duplicates,
    Example,
    SampledText,
    Scripts,
)
from t2t_keras.runs.data.training_lines import TrainingLines, open_training_lines
from t2t_keras.settings.data_config import DataConfig

EXAMPLES = 10
"""Pairs of each kind in a report."""
MOST_PAIRS = 200_000
"""Kept pairs whose characters are counted. More are sampled."""
MOST_DUPLICATES = 1_000_000
"""Pairs among which duplicates are counted. More are sampled."""
RATIOS = tuple(map(Fraction, ("1/3", "1/2", "2/3", "4/5", 1, "5/4", "3/2", 2, 3)))
"""Bounds between which ratios of lengths are counted."""
_MOST_DECISIONS = 256


@dataclasses.dataclass(frozen=True, eq=False)
class CorpusReport:
    """What a corpus is like.

    Attributes:
        manifest: The records.
        decisions: Number of lines for each decision, in the order of their numbers;
            kept ones first, filters last.
        lengths: [2, M + 1] int64, number of kept pairs whose source or target has so
            many tokens, end of sentence included.
        ratios: Number of kept pairs whose target has so many times the tokens of the
            source, end of sentence aside: below the first of `RATIOS`, from it to
            below the second, and so on.
        scripts: Characters of the kept pairs.
        duplicates: The most frequent pairs.
        examples: Pairs at random of each decision, in its order.
    """

    manifest: Manifest
    decisions: Mapping[str, int]
    lengths: np.ndarray
    ratios: Sequence[int]
    scripts: Scripts
    duplicates: Duplicates
    examples: Mapping[str, Sequence[Example]]


def read_corpus(config: DataConfig, folder: Path) -> CorpusReport:
    """Returns what the corpus of finished records is like.

    Args:
        config: Settings that name the training text.
        folder: Directory of the records.

    Raises:
        UserError: If there are no finished records, they are damaged or of a release
            up to 0.9, or the training text is missing or another one.
    """
    manifest = read_manifest(folder)
    spec = manifest.spec
    if spec.format == OLD_FORMAT:
        raise UserError(
            f"The records in {folder} are of a release up to 0.9, and do not tell what "
            "became of each line. Prepare the text in another --output."
        )
    languages = {
        name: spec.settings[name] for name in ("source_language", "target_language")
    }
    own = dataclasses.replace(config, records=None, rejected=None, **languages)
    corpus = from_settings.build_corpus(own, ())
    workers = len(os.sched_getaffinity(0))
    with open_training_lines(own, corpus, workers=workers) as lines:
        _check_lines(own, folder, manifest, lines)
        try:
            return _read(folder, manifest, lines.reader)
        except DamagedShardError as error:
            raise UserError(
                f"The records are damaged: {error.fault}. Run t2t_keras.prepare with "
                "the same flags and without --report: it writes damaged shards again."
            ) from error


def _check_lines(
    config: DataConfig, folder: Path, manifest: Manifest, lines: TrainingLines
) -> None:
    """Raises `UserError` unless the lines are those that decisions are about."""
    spec = manifest.spec
    if (lines.sha256, lines.reader.num_lines) == (spec.text_sha256, spec.text_lines):
        return
    check_text(config, folder, spec, lines)
    # The same pairs. They are the same lines if none is without text.
    if lines.reader.num_lines != spec.text_lines or manifest.report.dropped_empty:
        raise UserError(
            f"The text of the records in {folder} is in other files now, with blank "
            "lines at other places perhaps. --report needs the old files (their names "
            "and compression do not matter)."
        )


def _read(folder: Path, manifest: Manifest, reader: LineReader) -> CorpusReport:
    spec = manifest.spec
    names = _names_of(manifest)
    chosen = RandomLines(EXAMPLES)
    counts = _count(folder, manifest, len(names), chosen)
    filters = spec.settings["filter"]
    are_decided = DUPLICATES in filters
    pool = FILTERED + filters.index(DUPLICATES) if are_decided else KEPT
    decisions = counts.decisions.tolist()
    pairs = LineSample(KEPT, decisions[KEPT], MOST_PAIRS)
    repeated = LineSample(pool, decisions[pool], MOST_DUPLICATES)
    read = SampledText(reader, pairs, repeated, chosen)
    for number, shard in enumerate(manifest.shards):
        read.add(
            read_decisions(folder / shard.name, shard), spec.lines_of(number).start
        )
    examples = {
        name: tuple(read.examples[line] for line in chosen.of(decision).tolist())
        for decision, name in enumerate(names)
    }
    return CorpusReport(
        manifest,
        dict(zip(names, decisions, strict=True)),
        counts.lengths,
        counts.ratios.tolist(),
        read.scripts(),
        read.most_frequent(are_decided),
        examples,
    )


def _names_of(manifest: Manifest) -> list[str]:
    """Returns a name for each decision, by its number."""
    names = {
        KEPT: "kept",
        BLANK: "no text on a side",
        EMPTY: "no tokens on a side",
        OVER_LONG: f"longer than {manifest.spec.max_length} tokens",
    }
    return [*(names[each] for each in range(FILTERED)), *manifest.filters]


@dataclasses.dataclass(frozen=True, eq=False)
class _Counts:
    decisions: np.ndarray
    lengths: np.ndarray
    ratios: np.ndarray


def _count(
    folder: Path, manifest: Manifest, num_decisions: int, chosen: RandomLines
) -> _Counts:
    """Returns what is counted in all lines; chooses lines for examples."""
    spec = manifest.spec
    counts = _Counts(
        np.zeros(num_decisions, np.int64),
        np.zeros([2, spec.max_length + 1], np.int64),
        np.zeros(len(RATIOS) + 1, np.int64),
    )
    bounds = np.array([float(bound) for bound in RATIOS])
    for number, shard in enumerate(manifest.shards):
        path = folder / shard.name
        decisions = read_decisions(path, shard)
        lengths = open_shard(path, shard).lengths
        own = np.bincount(decisions, minlength=_MOST_DECISIONS)
        shortest, longest = lengths.min(initial=2), lengths.max(initial=2)
        # A sentence has a token at least, and its end.
        if own[num_decisions:].any() or shortest < 2 or longest > spec.max_length:
            raise DamagedShardError(f"{path}: a decision or a length is impossible")
        counts.decisions[:] += own[:num_decisions]
        for side in (0, 1):
            counts.lengths[side] += np.bincount(
                lengths[:, side], minlength=spec.max_length + 1
            )
        # Exact: bounds differ from other ratios of such numbers by more than rounding.
        source, target = (lengths[:, side] - 1.0 for side in (0, 1))
        counts.ratios[:] += np.bincount(
            np.searchsorted(bounds, target / source, side="right"),
            minlength=len(RATIOS) + 1,
        )
        chosen.add(decisions, spec.lines_of(number).start)
    return counts
