"""Beginning of records: the text is counted, and the vocabulary learned or loaded.

Records that were begun before are compared with the settings and the text.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.input_pipeline.corpora.corpus import Corpus
from t2t_keras.input_pipeline.corpora.fingerprints import shorten
from t2t_keras.input_pipeline.records import unfinished
from t2t_keras.input_pipeline.records.line_encoder import LineEncoding
from t2t_keras.input_pipeline.records.manifest import (
    MANIFEST_FILE,
    OLD_FORMAT,
    SPEC_FILE,
    VOCABULARY_FILE,
    RecordSpec,
    open_vocabulary,
    read_manifest,
    read_spec,
    text_files,
)
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.data.mixing import open_parts
from t2t_keras.runs.data.record_checks import (
    check_settings,
    other_text_error,
    read_text_of_records,
    without_corpus,
)
from t2t_keras.runs.data.training_lines import (
    TrainingLines,
    open_training_lines,
    sampled_chunks,
    sampled_share,
)
from t2t_keras.runs.tasks import task_for
from t2t_keras.settings.config import record_settings
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.training_text import parse_mixture_item
from t2t_keras.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

PAIRS_PER_SHARD = 500_000
OTHER_SPLITS = ("dev", "test")
"""Splits that records have as text."""
REJECTED_FILE = "rejected.tsv"
_ADVICE = "\nGive another --output, or the settings they were started with."


@dataclasses.dataclass(frozen=True)
class Records:
    """Records that are being prepared."""

    config: DataConfig
    folder: Path
    spec: RecordSpec
    vocabulary: Vocabulary
    lines: TrainingLines

    @property
    def encoding(self) -> LineEncoding:
        """How their lines are encoded."""
        # In the order of the start, on which the counts depend.
        names = tuple(self.spec.settings["filter"])
        own = dataclasses.replace(self.config, filter=names)
        return LineEncoding(
            self.vocabulary.to_bytes(),
            self.spec.max_length,
            tuple(from_settings.filter_makers(own).items()),
            keep_text=self.spec.settings.get("keep_text", False),
            drops_blank=self.lines.fingerprint is None,
        )


@contextlib.contextmanager
def begin_records(
    config: DataConfig,
    folder: Path,
    pairs_per_shard: int | None,
    keep_text: bool,
    workers: int,
) -> Iterator[Records]:
    """Yields the folder's records, old or new; writes all but their shards."""
    # Text only: the flagfile may name the very records that are being written.
    text = dataclasses.replace(config, records=None)
    from_settings.filter_makers(config)  # raises UserError before any work
    from_settings.check_rejected(config)
    corpus = from_settings.build_corpus(text, OTHER_SPLITS)
    for name in OTHER_SPLITS:
        for warning in corpus.splits[name].warnings if name in corpus.splits else ():
            logger.warning(warning)
    with open_training_lines(text, corpus, workers=workers) as lines:
        for warning in lines.warnings:
            logger.warning(f"train: {warning}")
        spec = read_spec(folder)
        is_new = spec is None
        if spec is None:
            spec, vocabulary = _make_spec(
                config, folder, lines, pairs_per_shard, keep_text
            )
        else:
            check_same(config, folder, spec, pairs_per_shard, keep_text)
            check_text(config, folder, spec, lines)
            vocabulary = open_vocabulary(folder, spec)
        if not (folder / MANIFEST_FILE).exists():
            unfinished.write_index(folder, lines.index)
            _write_texts(folder, corpus)
        if is_new:
            vocabulary.save(folder / VOCABULARY_FILE)
            # Last: with it, parts can be written.
            write_text(folder / SPEC_FILE, spec.to_json())
        yield Records(config, folder, spec, vocabulary, lines)


@contextlib.contextmanager
def open_begun_text(
    config: DataConfig,
    folder: Path,
    spec: RecordSpec,
    check: Callable[[], None] = lambda: None,
) -> Iterator[TrainingLines]:
    """Yields the lines of the text that records were begun with.

    Args:
        config: The settings that they were begun with.
        folder: Directory of the records.
        spec: Their specification.
        check: Called now and then; what it raises ends the counting of lines, which
            is needed only where the index is lost.

    Raises:
        UserError: If it is another text, or cannot be read.
    """
    text = dataclasses.replace(config, records=None)
    # Dev and test sets have been copied, and may be missing on this host.
    corpus = from_settings.build_corpus(text, ())
    index = unfinished.read_index(folder)
    with open_training_lines(text, corpus, index=index, check=check) as lines:
        check_text(config, folder, spec, lines)
        yield lines


def _make_spec(
    config: DataConfig,
    folder: Path,
    lines: TrainingLines,
    pairs_per_shard: int | None,
    keep_text: bool,
) -> tuple[RecordSpec, Vocabulary]:
    if config.vocabulary_file:
        vocabulary = from_settings.load_vocabulary_file(config)
    else:
        vocabulary = _learn_vocabulary(config, folder, lines)
    spec = RecordSpec(
        # Only where it is set: earlier releases wrote the same file without it.
        settings=record_settings(config) | ({"keep_text": True} if keep_text else {}),
        corpus=lines.name,
        text_lines=lines.reader.num_lines,
        text_sha256=lines.sha256,
        vocabulary_size=vocabulary.size,
        vocabulary_sha256=vocabulary.sha256,
        pairs_per_shard=pairs_per_shard or PAIRS_PER_SHARD,
        max_length=config.max_length,
    )
    return spec, vocabulary


def _learn_vocabulary(
    config: DataConfig, folder: Path, lines: TrainingLines
) -> Vocabulary:
    rejected = None
    if config.rejected and config.filter and config.mixture:
        # Of the other parts, which are read only now.
        rejected = str(folder / unfinished.PREPARING / REJECTED_FILE)
        Path(rejected).parent.mkdir(parents=True, exist_ok=True)
    own = dataclasses.replace(config, rejected=rejected)
    with from_settings.open_filters(own) as filters:
        parts = open_parts(own, filters)
    makers = from_settings.filter_makers(config)
    return from_settings.learn_vocabulary(
        config,
        sampled_chunks(lines, makers),
        parts,
        sampled_share(lines.reader.num_lines),
    )


def check_same(
    config: DataConfig,
    folder: Path,
    spec: RecordSpec,
    pairs_per_shard: int | None,
    keep_text: bool,
) -> None:
    """Raises `UserError` if records were begun with other settings."""
    check_settings(
        spec.settings,
        spec.vocabulary_sha256,
        without_corpus(config),
        folder,
        advice=_ADVICE,
    )
    if pairs_per_shard not in (None, spec.pairs_per_shard):
        raise UserError(
            f"{folder} holds records of {spec.pairs_per_shard} pairs a shard, not "
            f"{pairs_per_shard}. Leave --pairs_per_shard out, or give another --output."
        )
    if keep_text != spec.settings.get("keep_text", False):
        raise UserError(
            f"{folder} holds records {'without' if keep_text else 'with'} text, and "
            f"--keep_text is {'' if keep_text else 'not '}given now.{_ADVICE}"
        )
    if not config.filter and spec.settings.get("filter"):
        raise UserError(
            f"{folder} holds records of filtered text, and --filter is not given now. "
            f"They were started with --filter={','.join(spec.settings['filter'])}."
            f"{_ADVICE}"
        )
    if spec.settings["vocabulary_file"] is None and not config.vocabulary_file:
        _check_mixture(spec.settings.get("mixture", []), config, folder)


def _check_mixture(old: Sequence[str], config: DataConfig, folder: Path) -> None:
    """Checks the mixture that the vocabulary of existing records was learned with.

    Raises:
        UserError: If rates or tags differ. Other names are only a warning, since the
            parts are not read again.
    """
    rates = [
        [parse_mixture_item(i)[1:] for i in each] for each in (old, config.mixture)
    ]
    if rates[0] != rates[1]:
        raise UserError(
            f"{folder} holds records whose vocabulary was learned with another "
            f"mixture: {old or 'none'}, not {list(config.mixture) or 'none'}.{_ADVICE}"
        )
    if list(old) != list(config.mixture):
        logger.warning(
            f"the vocabulary in {folder} was learned with --mixture="
            f"{','.join(old)} and is kept; {','.join(config.mixture)} is not read"
        )


def check_text(
    config: DataConfig, folder: Path, spec: RecordSpec, lines: TrainingLines
) -> None:
    """Raises `UserError` if records were begun with another text."""
    expected = spec.text_sha256, spec.text_lines
    if (lines.sha256, lines.reader.num_lines) == expected:
        return
    name = ",".join(config.train_source + config.train_target) or lines.name
    if (folder / MANIFEST_FILE).exists():
        # The same pairs may be in other files.
        manifest = read_manifest(folder)
        task = task_for(config.target_language)
        train = read_text_of_records(config, spec, task)
        if train.has_fingerprint(manifest.fingerprint):
            return
        advice = "give another --output"
        raise other_text_error(name, train, manifest, folder, advice)
    if spec.format == OLD_FORMAT:
        raise UserError(
            f"The records in {folder} were begun by a release up to 0.9. Finish them "
            "with that release, or give another --output."
        )
    raise UserError(
        f"{name} is not the training text that the records in {folder} were begun "
        f"with: its SHA-256 is {shorten(lines.sha256)} ({lines.reader.num_lines:,} "
        f"lines), expected {shorten(spec.text_sha256)} ({spec.text_lines:,} lines). "
        "Put the old files back (their names and compression do not matter), or give "
        "another --output."
    )


def _write_texts(folder: Path, corpus: Corpus) -> None:
    """Copies dev and test set next to the records: training needs only this folder."""
    for split in OTHER_SPLITS:
        if split not in corpus.splits:
            continue
        chunks = list(corpus.lines(split))
        for side, path in enumerate(text_files(folder, split)):
            lines = (line for chunk in chunks for line in chunk[side])
            # A line break within a sentence would misalign the two sides.
            text = "".join(
                f"{line.decode(errors='replace').replace(chr(10), ' ')}\n"
                for line in lines
            )
            write_text(Path(path), text)
