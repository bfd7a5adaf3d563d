"""Text into records: what the prepare program does, step by step."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.files.locks import reserve_folder
from t2t_keras.files.signals import DeferredSignals, defer_signals
from t2t_keras.input_pipeline.corpora.corpus import Corpus, TextChunk
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
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
    Pace,
    find_intact_shards,
    write_shards,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport
from t2t_keras.runs import corpora
from t2t_keras.runs.corpora import check_settings, without_corpus
from t2t_keras.runs.mixing import open_parts
from t2t_keras.settings.config import DataConfig
from t2t_keras.settings.flags import record_settings
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.training.progress import as_duration

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
    say: Callable[[str], None],
) -> Manifest:
    """Makes records of the training text, or what is missing of them.

    Args:
        config: Which text, and how it is tokenized.
        folder: Where the records go; made if it is not there.
        pairs_per_shard: Pairs of text in a shard; as begun, or 500,000, if None.
        workers: Processes that encode; as many as cores if None.
        say: Takes a line for a person.

    Raises:
        UserError: If something given cannot be used, or is not what the folder
            was begun with.
        Interrupted: After SIGINT or SIGTERM; finished shards stay.
    """
    with reserve_folder(folder, _LOCK_FILE, refusal=_REFUSAL, log=say):
        corpus = _open_corpus(config, say)
        spec, vocabulary = _begun(config, folder, corpus, pairs_per_shard, say)
        texts = _written_texts(folder, corpus)
        with defer_signals() as signals:

            def shard_done(pace: Pace) -> None:
                say(_progress(pace))
                signals.check()

            shards = write_shards(
                folder,
                spec,
                _interruptible(corpus.chunks("train"), signals),
                vocabulary,
                present=_present(folder, spec, say),
                workers=workers or len(os.sched_getaffinity(0)),
                on_progress=shard_done,
            )
        nothing = TokenizationReport(0, 0, 0, 0, 0)
        report = sum((facts.report for facts in shards), nothing)
        report.check_any_left(spec.max_length)
        manifest = Manifest(spec, report, tuple(shards), texts)
        write_text(folder / MANIFEST_FILE, manifest.to_json())
    return manifest


def describe(manifest: Manifest) -> str:
    """Returns what records hold, on two lines."""
    report = manifest.report
    return (
        f"{report.pairs_kept:,} pairs in {len(manifest.shards)} shards: "
        f"{report.source_tokens:,} source and {report.target_tokens:,} target tokens\n"
        f"left out: {report.dropped_over_long:,} pairs longer than "
        f"{manifest.spec.max_length} tokens, {report.dropped_empty:,} with an empty "
        "side"
    )


def _open_corpus(config: DataConfig, say: Callable[[str], None]) -> Corpus:
    # Of text alone: a flagfile may name the records that are now made.
    corpus = corpora.build_corpus(dataclasses.replace(config, records=None))
    for split in corpus.splits.values():
        for warning in split.warnings:
            say(f"warning: {warning}")
    corpus.chunks("train")  # refuses a corpus without
    return corpus


def _begun(
    config: DataConfig,
    folder: Path,
    corpus: Corpus,
    pairs_per_shard: int | None,
    say: Callable[[str], None],
) -> tuple[RecordSpec, SubwordVocabulary]:
    """Returns what is to be made here, now or since an earlier start."""
    spec = read_spec(folder)
    if spec is None:
        return _begin(config, folder, corpus, pairs_per_shard, say)
    advice = "\nGive another --output, or the settings they were begun with."
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
    learned = spec.settings["vocabulary_file"] is None and not config.vocabulary_file
    if learned and spec.settings.get("mixture", []) != list(config.mixture):
        raise UserError(
            f"{folder} holds records whose vocabulary was learned with another "
            f"mixture: {spec.settings.get('mixture') or 'none'}, not "
            f"{list(config.mixture) or 'none'}.{advice}"
        )
    if corpus.splits["train"].fingerprint != spec.fingerprint:
        raise UserError(
            f"The corpus {corpus.name} is not the one that the records in {folder} "
            "were begun with: its training text is another. Put the old text back, or "
            "give another --output."
        )
    return spec, open_vocabulary(folder, spec)


def _begin(
    config: DataConfig,
    folder: Path,
    corpus: Corpus,
    pairs_per_shard: int | None,
    say: Callable[[str], None],
) -> tuple[RecordSpec, SubwordVocabulary]:
    if not config.vocabulary_file:
        say(f"learning {config.vocabulary_size:,} subwords …")
    # Of a mixture's further parts nothing but the vocabulary is learned here.
    parts = () if config.vocabulary_file else open_parts(config, say)
    vocabulary = corpora.build_vocabulary(config, corpus, parts)
    train = corpus.splits["train"]
    spec = RecordSpec(
        settings=record_settings(config),
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


def _written_texts(folder: Path, corpus: Corpus) -> dict[str, str]:
    """Keeps dev and test set beside the records, so that a folder is all one needs."""
    hashes = {}
    for split in ("dev", "test"):
        if split not in corpus.splits:
            continue
        chunks = list(corpus.lines(split))
        paths = text_files(folder, split)
        for side, path in enumerate(paths):
            lines = (line for chunk in chunks for line in chunk[side])
            # A line break within a sentence would put the two sides out of step.
            text = "".join(
                f"{line.decode(errors='replace').replace(chr(10), ' ')}\n"
                for line in lines
            )
            write_text(Path(path), text)
        hashes[split] = open_parallel_text(paths[:1], paths[1:]).report.sha256
    return hashes


def _present(folder: Path, spec: RecordSpec, say: Callable[[str], None]):
    present = find_intact_shards(folder, spec.num_shards, say)
    if present:
        say(f"{len(present)} of {spec.num_shards} shards are there and whole")
    return present


def _progress(pace: Pace) -> str:
    return (
        f"{pace.shard}  {pace.pairs_done:,}/{pace.text_pairs:,} pairs  "
        f"{pace.pairs_per_second:,.0f} pairs/s  left {as_duration(pace.seconds_left)}"
    )


def _interruptible(
    chunks: Iterable[TextChunk], signals: DeferredSignals
) -> Iterator[TextChunk]:
    """Yields chunks until a signal has arrived, which then raises `Interrupted`."""
    for chunk in chunks:
        signals.check()
        yield chunk
