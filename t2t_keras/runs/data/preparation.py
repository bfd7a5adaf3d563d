"""Preparation of records: tokenizes training text and writes shards."""

import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.files.locks import reserve_folder
from t2t_keras.files.signals import DeferredSignals, defer_signals
from t2t_keras.input_pipeline.corpora.corpus import Corpus, TextChunk
from t2t_keras.input_pipeline.corpora.filters import PairFilters
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records.encoders import Pace
from t2t_keras.input_pipeline.records.manifest import (
    MANIFEST_FILE,
    SPEC_FILE,
    VOCABULARY_FILE,
    Manifest,
    RecordSpec,
    open_vocabulary,
    read_spec,
    text_files,
)
from t2t_keras.input_pipeline.records.shard_writer import (
    find_intact_shards,
    write_shards,
)
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.data.mixing import MixturePart, open_parts
from t2t_keras.runs.data.record_checks import (
    check_settings,
    other_text_error,
    without_corpus,
)
from t2t_keras.settings.config import record_settings
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.training_text import parse_mixture_item
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.training.progress import as_duration

logger = logging.getLogger(__name__)

PAIRS_PER_SHARD = 500_000
_LOCK_FILE = "prepare.lock"
_REFUSAL = (
    "Another process is preparing {folder}: {owner}. Wait for it, or give another "
    "--output."
)


def prepare(
    config: DataConfig,
    folder: Path,
    *,
    pairs_per_shard: int | None = None,
    workers: int | None = None,
    keep_text: bool = False,
) -> Manifest:
    """Writes records of the training text, or the shards that are missing.

    Args:
        config: Corpus and tokenization settings.
        folder: Directory of the records; created if missing.
        pairs_per_shard: Pairs of text in a shard. Default: that of existing records,
            or 500,000.
        workers: Processes that tokenize. Default: one for each core.
        keep_text: Whether records keep the text of their pairs, for subword sampling.

    Raises:
        UserError: If a setting or a file cannot be used, or existing records in the
            folder have other settings.
        Interrupted: After a signal; finished shards are kept.
    """
    with reserve_folder(folder, _LOCK_FILE, refusal=_REFUSAL):
        with from_settings.open_filters(config) as filters:
            corpus = _open_corpus(config, filters)
            # Only the vocabulary is learned from the other parts of a mixture.
            learns = read_spec(folder) is None and not config.vocabulary_file
            parts = open_parts(config, filters) if learns else ()
        spec, vocabulary = _open_or_begin_records(
            config, folder, corpus, parts, pairs_per_shard, keep_text
        )
        texts = _write_texts(folder, corpus)
        with defer_signals() as signals:

            def shard_done(shard: str, pace: Pace) -> None:
                left = as_duration(pace.seconds_left)
                logger.info(f"{shard}  {pace.describe()}  left {left}")
                signals.check()

            shards = write_shards(
                folder,
                spec,
                _interruptible(corpus.chunks("train"), signals),
                vocabulary,
                present=_find_complete_shards(folder, spec),
                workers=workers or len(os.sched_getaffinity(0)),
                keep_text=keep_text,
                on_progress=shard_done,
            )
        before = corpus.splits["train"].left_out
        report = sum((shard.report for shard in shards), before)
        report.check_any_left(spec.max_length)
        manifest = Manifest(spec, report, tuple(shards), texts)
        write_text(folder / MANIFEST_FILE, manifest.to_json())
    return manifest


def describe(manifest: Manifest) -> str:
    """Returns the size of records and the pairs left out, on two lines."""
    report, shards = manifest.report, len(manifest.shards)
    return (
        f"{report.pairs_kept:,} pairs in {shards} shard{'' if shards == 1 else 's'}: "
        f"{report.source_tokens:,} source and {report.target_tokens:,} target tokens\n"
        f"left out: {report.left_out(manifest.spec.max_length)}"
    )


def _open_corpus(config: DataConfig, filters: PairFilters) -> Corpus:
    # Text only: the flagfile may name the very records that are being written.
    corpus = from_settings.build_corpus(dataclasses.replace(config, records=None))
    for split in corpus.splits.values():
        for warning in split.warnings:
            logger.warning(warning)
    corpus.chunks("train")  # raises UserError without a train split
    return filters.apply(corpus)


def _open_or_begin_records(
    config: DataConfig,
    folder: Path,
    corpus: Corpus,
    parts: Sequence[MixturePart],
    pairs_per_shard: int | None,
    keep_text: bool,
) -> tuple[RecordSpec, Vocabulary]:
    """Returns specification and vocabulary of the folder's records, old or new."""
    spec = read_spec(folder)
    if spec is None:
        return _begin_records(config, folder, corpus, parts, pairs_per_shard, keep_text)
    advice = "\nGive another --output, or the settings they were started with."
    check_settings(
        spec.settings,
        spec.vocabulary_sha256,
        without_corpus(config),
        folder,
        advice=advice,
    )
    if pairs_per_shard not in (None, spec.pairs_per_shard):
        raise UserError(
            f"{folder} holds records of {spec.pairs_per_shard} pairs a shard, not "
            f"{pairs_per_shard}. Leave --pairs_per_shard out, or give another --output."
        )
    if keep_text != spec.settings.get("keep_text", False):
        raise UserError(
            f"{folder} holds records {'without' if keep_text else 'with'} text, and "
            f"--keep_text is {'' if keep_text else 'not '}given now.{advice}"
        )
    if not config.filter and spec.settings.get("filter"):
        raise UserError(
            f"{folder} holds records of filtered text, and --filter is not given now. "
            f"They were started with --filter={','.join(spec.settings['filter'])}."
            f"{advice}"
        )
    if spec.settings["vocabulary_file"] is None and not config.vocabulary_file:
        _check_mixture(spec.settings.get("mixture", []), config, folder, advice)
    train = corpus.splits["train"]
    if train.fingerprint != spec.fingerprint:
        name = ",".join(config.train_source + config.train_target) or corpus.name
        raise other_text_error(name, train, spec, folder, "give another --output")
    return spec, open_vocabulary(folder, spec)


def _check_mixture(
    old: Sequence[str],
    config: DataConfig,
    folder: Path,
    advice: str,
) -> None:
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
            f"mixture: {old or 'none'}, not {list(config.mixture) or 'none'}.{advice}"
        )
    if list(old) != list(config.mixture):
        logger.warning(
            f"the vocabulary in {folder} was learned with --mixture="
            f"{','.join(old)} and is kept; {','.join(config.mixture)} is not read"
        )


def _begin_records(
    config: DataConfig,
    folder: Path,
    corpus: Corpus,
    parts: Sequence[MixturePart],
    pairs_per_shard: int | None,
    keep_text: bool,
) -> tuple[RecordSpec, Vocabulary]:
    if not config.vocabulary_file:
        logger.info(f"learning {config.vocabulary_size:,} subwords …")
    vocabulary = from_settings.build_vocabulary(config, corpus, parts)
    train = corpus.splits["train"]
    spec = RecordSpec(
        # Only where it is set: earlier releases wrote the same file without it.
        settings=record_settings(config) | ({"keep_text": True} if keep_text else {}),
        corpus=corpus.name,
        fingerprint=train.fingerprint,
        text_pairs=train.num_pairs or 0,
        vocabulary_size=vocabulary.size,
        vocabulary_sha256=vocabulary.sha256,
        pairs_per_shard=pairs_per_shard or PAIRS_PER_SHARD,
        max_length=config.max_length,
    )
    vocabulary.save(folder / VOCABULARY_FILE)
    write_text(folder / SPEC_FILE, spec.to_json())
    return spec, vocabulary


def _write_texts(folder: Path, corpus: Corpus) -> dict[str, str]:
    """Copies dev and test set next to the records and returns their SHA-256.

    Training then needs only this folder.
    """
    hashes = {}
    for split in ("dev", "test"):
        if split not in corpus.splits:
            continue
        chunks = list(corpus.lines(split))
        paths = text_files(folder, split)
        for side, path in enumerate(paths):
            lines = (line for chunk in chunks for line in chunk[side])
            # A line break within a sentence would misalign the two sides.
            text = "".join(
                f"{line.decode(errors='replace').replace(chr(10), ' ')}\n"
                for line in lines
            )
            write_text(Path(path), text)
        hashes[split] = open_parallel_text(paths[:1], paths[1:]).report.sha256
    return hashes


def _find_complete_shards(folder: Path, spec: RecordSpec):
    shards = find_intact_shards(folder, spec.num_shards)
    if shards:
        logger.info(f"{len(shards)} of {spec.num_shards} shards are complete already")
    return shards


def _interruptible(
    chunks: Iterable[TextChunk], signals: DeferredSignals
) -> Iterator[TextChunk]:
    """Yields chunks; raises `Interrupted` once a signal has arrived."""
    for chunk in chunks:
        signals.check()
        yield chunk
