"""End of a preparation: what all shards have together, and the manifest."""

import logging
from pathlib import Path

import numpy as np

from t2t_keras.files.atomic import (
    remove,
    remove_leftovers,
    restore_folders,
    write_text,
)
from t2t_keras.files.lines import open_output
from t2t_keras.input_pipeline.corpora.filters import (
    count_table,
    none_left_error,
    rejected_row,
)
from t2t_keras.input_pipeline.corpora.line_reader import LineReader
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records import unfinished
from t2t_keras.input_pipeline.records.joining import join_shards
from t2t_keras.input_pipeline.records.line_encoder import FILTERED
from t2t_keras.input_pipeline.records.manifest import (
    MANIFEST_FILE,
    Manifest,
    RecordSpec,
    text_files,
    write_length_counts,
)
from t2t_keras.input_pipeline.records.shards import read_decisions
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport
from t2t_keras.runs.data.begun_records import OTHER_SPLITS, REJECTED_FILE
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.text.normalization import normalize

logger = logging.getLogger(__name__)


def join_records(
    config: DataConfig, folder: Path, spec: RecordSpec, reader: LineReader | None
) -> Manifest:
    """Joins all shards; the reader is needed for --rejected."""
    restore_folders(folder, unfinished.SHARDS)
    names = spec.settings["filter"]
    is_dataset = spec.settings["dataset"] is not None
    fingerprint = spec.text_sha256 if is_dataset else None
    joined = join_shards(folder, spec, names, fingerprint)
    report = sum((shard.report for shard in joined.shards), TokenizationReport())
    if names:
        rejected = sum(joined.filters.values())
        kept = joined.text_pairs
        table = count_table(spec.corpus, kept + rejected, joined.filters, kept)
        logger.info(table)
        if not kept:
            raise none_left_error(table)
    report.check_any_left(spec.max_length)
    manifest = Manifest(
        spec,
        joined.fingerprint,
        joined.text_pairs,
        report,
        joined.filters,
        joined.shards,
        _hash_texts(folder),
        write_length_counts(folder, joined.lengths),
    )
    finish_records(config, folder, manifest, reader)
    return manifest


def finish_records(
    config: DataConfig, folder: Path, manifest: Manifest, reader: LineReader | None
) -> None:
    """Writes what comes last, and removes what is no longer needed."""
    if config.rejected and reader is not None and manifest.spec.settings["filter"]:
        _write_rejected(config.rejected, folder, manifest, reader)
    write_text(folder / MANIFEST_FILE, manifest.to_json())
    clean_records(folder)


def clean_records(folder: Path) -> None:
    """Removes what finished records no longer need."""
    remove_leftovers(folder, unfinished.SHARDS)
    remove(folder / unfinished.PREPARING)


def _hash_texts(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of the dev and test set that records have as text."""
    paths = {split: text_files(folder, split) for split in OTHER_SPLITS}
    return {
        split: open_parallel_text([source], [target]).sha256()
        for split, (source, target) in paths.items()
        if Path(source).exists()
    }


def _write_rejected(
    path: str, folder: Path, manifest: Manifest, reader: LineReader
) -> None:
    """Writes the pairs that filters rejected, with the numbers of their lines."""
    spec = manifest.spec
    names = spec.settings["filter"]
    with open_output(path) as output:
        for number, shard in enumerate(manifest.shards):
            decisions = read_decisions(folder / shard.name, shard)
            own = spec.lines_of(number)
            if not (decisions >= FILTERED).any():
                continue
            for raw in reader.read(own.start, own.stop):
                first = raw.first - own.start
                part = decisions[first : first + raw.count]
                source, target = raw.split()
                for place in np.flatnonzero(part >= FILTERED).tolist():
                    row = str(raw.first + place + 1), names[part[place] - FILTERED]
                    pair = normalize(source[place]), normalize(target[place])
                    output.write(rejected_row(*row, *pair))
        others = folder / unfinished.PREPARING / REJECTED_FILE
        if others.exists():
            output.write(others.read_text(encoding="utf-8"))
