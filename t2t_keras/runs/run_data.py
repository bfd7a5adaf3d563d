"""Data of a run: corpus, vocabulary, token ids and batching strategy."""

import dataclasses
import functools
import platform
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras import __version__
from t2t_keras.errors import UserError
from t2t_keras.evaluation.compound_bleu import moses_languages
from t2t_keras.input_pipeline.batches.batching_strategy import (
    BatchingStrategy,
    BatchingSummary,
    batching_summary,
)
from t2t_keras.input_pipeline.corpora.corpus import Corpus
from t2t_keras.input_pipeline.records.manifest import (
    open_records,
    open_vocabulary,
    read_manifest,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus, tokenize_corpus
from t2t_keras.runs import corpora, mixing
from t2t_keras.runs.corpora import check_settings
from t2t_keras.runs.model_dir import ModelDir, package_versions
from t2t_keras.runs.tasks import Task, task_for
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.training.step import computed_rows
from t2t_keras.typing import BatchShape

# Updates that see all pairs once: with fewer, each is nearly all the text there is.
FEW_BATCHES = 10
_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy")


@dataclasses.dataclass(frozen=True)
class RunData:
    """What a run trains on and looks at.

    Attributes:
        corpus: As text; of records, dev and test set alone.
        fingerprint: Of the main corpus' training text.
        mixture: What the run card keeps of each further part.
        vocabulary: Of both languages.
        train: The training pairs as ids.
        dev: The dev pairs as ids, None if there are none.
        batching: How the training pairs become batches.
        summary: The same in numbers.
        task: What the text looks like outside the model, and what scores it.
    """

    corpus: Corpus
    fingerprint: str
    mixture: list[dict[str, Any]]
    vocabulary: SubwordVocabulary
    train: TokenizedCorpus
    dev: TokenizedCorpus | None
    batching: BatchingStrategy
    summary: BatchingSummary
    task: Task


def prepare_data(
    config: ExperimentConfig,
    model_dir: ModelDir,
    log: Callable[[str], None],
    task: Task | None = None,
    *,
    writes: bool = True,
    num_replicas: int = 1,
) -> RunData:
    """Opens the corpus, learns or loads the vocabulary, and encodes the text.

    Args:
        config: The settings.
        model_dir: Of the run.
        log: Called with lines for a person.
        task: Default: the task of the target language.
        writes: Whether to write to the model directory; of several workers the
            chief does, and the others come when it has.
        num_replicas: Devices that share each batch, for the report of padding.

    Raises:
        UserError: If the model directory is of another run or another corpus, if
            there is none and this process writes none, or if records are damaged or
            of other settings.
    """
    task = task or task_for(config.data.target_language)
    if model_dir.exists():
        model_dir.check_same(config)
    elif not writes:
        raise UserError(
            f"The first worker has begun a run, but {model_dir.path} on "
            f"{socket.gethostname()} has none (no {model_dir.flagfile.name} is there). "
            "Give all workers one --model_dir in a folder that all of them share."
        )
    corpus = corpora.build_corpus(config.data, task=task)
    for split in corpus.splits.values():
        for warning in split.warnings:
            log(f"warning: {warning}")
    parts = mixing.open_parts(config.data, log, task)
    if config.data.records:
        text = _from_records(config, model_dir, corpus)
    else:
        text = _from_text(config, model_dir, corpus, parts, log)
    data = _run_data(config, corpus, text, parts, log, num_replicas, task)
    _check_mixture(data.mixture, model_dir)
    if not model_dir.exists():
        # Nothing is written before all that was given has been found sound.
        model_dir.path.mkdir(parents=True, exist_ok=True)
        data.vocabulary.save(model_dir.vocabulary_file)
        model_dir.update_run_card(_first_facts(config, data))
    if not writes:
        return data
    # Written last: it is what makes the directory a run. And written again where a
    # run goes on, with more steps perhaps.
    command = "python -m t2t_keras.train --flagfile="
    command += shlex.quote(str(model_dir.flagfile))
    model_dir.write_config(
        config,
        f"Every setting of this run. Run it again, or go on with it:\n"
        f"{command} --model_dir={shlex.quote(str(model_dir.path))}",
    )
    return data


def advice(config: ExperimentConfig, data: RunData) -> list[str]:
    """Returns what is likely a mistake, though it can be trained on."""
    lines = []
    known = (*moses_languages(), "tree")
    for flag, effect in (
        ("source_language", ""),
        ("target_language", " Without them there is no tokenized BLEU."),
    ):
        language = getattr(config.data, flag)
        if language not in known:
            lines.append(
                f"--{flag}={language} is not a language code with tokenization rules: "
                f"{', '.join(known)}.{effect}"
            )
    pairs, size = data.summary.pairs, data.vocabulary.size
    if pairs < size:
        lines.append(
            f"{pairs:,} pairs are few for {size:,} subwords, most of which will hardly "
            "be seen. Train on more text, or lower --vocabulary_size."
        )
    batches = data.summary.batches_per_epoch
    if batches < FEW_BATCHES:
        lines.append(
            f"{batches} batches an epoch are few. Train on more text, or lower "
            f"--tokens_per_batch={config.data.tokens_per_batch}."
        )
    return lines


class _MainText(NamedTuple):
    """The main corpus: its training text's fingerprint, its vocabulary, its ids."""

    fingerprint: str
    vocabulary: SubwordVocabulary
    train: TokenizedCorpus


def _from_text(
    config: ExperimentConfig,
    model_dir: ModelDir,
    corpus: Corpus,
    parts: Sequence[mixing.MixturePart],
    log: Callable[[str], None],
) -> _MainText:
    if "train" not in corpus.splits:
        raise UserError(
            f"The corpus {corpus.name} has no training text, only "
            f"{', '.join(corpus.splits)}. Give --train_source and --train_target."
        )
    fingerprint = corpus.splits["train"].fingerprint
    _check_corpus(corpus.name, fingerprint, model_dir)
    if model_dir.exists():
        vocabulary = model_dir.vocabulary()
    else:
        if not config.data.vocabulary_file:
            log(f"learning {config.data.vocabulary_size:,} subwords …")
        vocabulary = corpora.build_vocabulary(config.data, corpus, parts)
    pairs = corpus.pairs("train")
    train = tokenize_corpus(pairs, vocabulary, config.data.max_length)
    return _MainText(fingerprint, vocabulary, train)


def _from_records(
    config: ExperimentConfig, model_dir: ModelDir, corpus: Corpus
) -> _MainText:
    folder = Path(config.data.records or "")
    manifest = read_manifest(folder)
    spec = manifest.spec
    check_settings(
        spec.settings,
        spec.vocabulary_sha256,
        config.data,
        folder,
        advice="\nTrain with those settings, or make other records with "
        "t2t_keras.prepare. What is left out of --dataset, --train_source and "
        "--vocabulary_file is as in the records.",
    )
    _check_corpus(spec.corpus, spec.fingerprint, model_dir)
    vocabulary = open_vocabulary(folder, spec)
    if model_dir.exists() and model_dir.vocabulary().sha256 != vocabulary.sha256:
        raise UserError(
            f"The records in {folder} have another vocabulary than the run in "
            f"{model_dir.path}. Prepare them with --vocabulary_file="
            f"{model_dir.vocabulary_file}, or start in a new --model_dir."
        )
    return _MainText(spec.fingerprint, vocabulary, open_records(folder, manifest))


def _check_corpus(name: str, fingerprint: str, model_dir: ModelDir) -> None:
    known = model_dir.run_card().get("corpus", {}).get("fingerprint")
    if model_dir.exists() and known and known != fingerprint:
        raise UserError(
            f"The corpus {name} is not the one that the run in "
            f"{model_dir.path} was started with: its training text has changed. Put "
            "the old text back, or start in a new --model_dir."
        )


def _check_mixture(parts: Sequence[Mapping[str, Any]], model_dir: ModelDir) -> None:
    """Refuses text of a part that has changed; which parts, the settings say."""
    known = model_dir.run_card().get("corpus", {}).get("mixture", [])
    for part, before in zip(parts, known, strict=False):
        if model_dir.exists() and part["fingerprint"] != before["fingerprint"]:
            raise UserError(
                f"{part['name']} is not what the run in {model_dir.path} was started "
                "with as a part of its mixture: its training text has changed. Put "
                "the old text back, or start in a new --model_dir."
            )


def _run_data(
    config: ExperimentConfig,
    corpus: Corpus,
    text: _MainText,
    parts: Sequence[mixing.MixturePart],
    log: Callable[[str], None],
    num_replicas: int,
    task: Task,
) -> RunData:
    max_length = config.data.max_length
    vocabulary = text.vocabulary
    train, mixture = mixing.mixed(text.train, parts, config.data, vocabulary)
    report = train.report
    if report.dropped_over_long or report.dropped_empty:
        log(
            f"left out: {report.dropped_over_long:,} pairs longer than {max_length} "
            f"tokens, {report.dropped_empty:,} with an empty side"
        )
    batching = corpora.build_batching_strategy(config.data, train, mixture)
    rows_of = functools.partial(
        _computed_rows, num_replicas, config.training.max_tokens_per_replica
    )
    summary = batching_summary(train, batching, rows_of)
    log(f"corpus {corpus.name}: {summary.describe()}")
    if mixture is not None:
        log(mixing.describe(parts, mixture))
    dev = None
    if "dev" in corpus.splits:
        dev = tokenize_corpus(corpus.pairs("dev"), vocabulary, max_length)
        if dev.report.dropped_over_long:
            log(
                f"left out of the dev loss: {dev.report.dropped_over_long:,} pairs "
                f"longer than {max_length} tokens"
            )
    return RunData(
        corpus,
        text.fingerprint,
        mixing.facts(parts, mixture),
        vocabulary,
        train,
        dev,
        batching,
        summary,
        task,
    )


def _computed_rows(num_replicas: int, max_tokens: int | None, shape: BatchShape) -> int:
    """Returns how many rows of a batch the devices compute, those added included."""
    return computed_rows(
        shape.rows,
        max(shape.source_bound, shape.target_bound),
        num_replicas=num_replicas,
        max_tokens=max_tokens,
    )


def _first_facts(config: ExperimentConfig, data: RunData) -> dict[str, Any]:
    """Returns what the run card says before the first step."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {
            "t2t_keras": __version__,
            "python": platform.python_version(),
            **package_versions(_PACKAGES),
        },
        "seed": config.training.seed,
        "corpus": {
            "name": data.corpus.name,
            "fingerprint": data.fingerprint,
            **dataclasses.asdict(data.summary),
            "mixture": data.mixture,
        },
        "vocabulary": {
            "size": data.vocabulary.size,
            "sha256": data.vocabulary.sha256,
        },
    }
