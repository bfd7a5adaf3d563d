"""Data of a run: corpus, vocabulary, token ids and batching strategy."""

import dataclasses
import functools
import hashlib
import math
import os
import platform
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_keras import __version__
from t2t_keras.errors import UserError
from t2t_keras.evaluation.compound_bleu import NO_SPACES, moses_languages
from t2t_keras.evaluation.tokenizers import bleu_warnings, has_no_spaces
from t2t_keras.input_pipeline.batches.batching_strategy import (
    BatchingStrategy,
    BatchingSummary,
    batching_summary,
)
from t2t_keras.input_pipeline.batches.sampled import SampledCorpus
from t2t_keras.input_pipeline.corpora.corpus import Corpus
from t2t_keras.input_pipeline.records.manifest import (
    open_records,
    open_vocabulary,
    read_manifest,
)
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizedCorpus,
    TokenizedSide,
    tokenize_corpus,
)
from t2t_keras.runs import corpora, fine_tuning, mixing
from t2t_keras.runs.corpora import check_settings
from t2t_keras.runs.model_dir import ModelDir, package_versions
from t2t_keras.runs.tasks import Task, TranslationTask, task_for, with_tokenizer
from t2t_keras.settings.config import ExperimentConfig, TrainingConfig
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.training.step import computed_rows
from t2t_keras.typing import BatchShape

# Batches of an epoch below which a warning is logged: each would hold a large part of
# all text.
FEW_BATCHES = 10
# References of the dev set that show whether there are spaces between words.
_SAMPLED_REFERENCES = 100
_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy")


@dataclasses.dataclass(frozen=True)
class RunData:
    """Training and evaluation data of a run.

    Attributes:
        corpus: The corpus as text. With records, it holds only the dev and test sets.
        fingerprint: Fingerprint of the main corpus' training text.
        mixture: Run card entry of each other part of a mixture.
        vocabulary: Shared vocabulary of both languages.
        train: Token ids of the training pairs; with subword sampling, of each epoch.
        dev: Token ids of the dev pairs, or None without a dev set.
        batching: Groups the training pairs into batches.
        summary: Number of pairs, batches and tokens.
        task: Converts text to and from the model's, and scores it.
    """

    corpus: Corpus
    fingerprint: str
    mixture: list[dict[str, Any]]
    vocabulary: Vocabulary
    train: TokenizedCorpus | SampledCorpus
    dev: TokenizedCorpus | None
    batching: BatchingStrategy
    summary: BatchingSummary
    task: Task

    @property
    def dev_sha256(self) -> str | None:
        """Digest of the token ids of the dev set; None without one."""
        if self.dev is None:
            return None
        digest = hashlib.sha256(np.ascontiguousarray(self.dev.lengths).data)
        for side in (self.dev.source, self.dev.target):
            digest.update(side.gather(np.arange(len(self.dev)))[0].data)
        return digest.hexdigest()


def prepare_data(
    config: ExperimentConfig,
    model_dir: ModelDir,
    log: Callable[[str], object],
    task: Task | None = None,
    *,
    source: fine_tuning.Source | None = None,
    writes: bool = True,
    num_replicas: int = 1,
) -> RunData:
    """Opens the corpus, learns or loads the vocabulary, and tokenizes the text.

    Args:
        config: The settings.
        model_dir: Model directory of the run.
        log: Called with lines of progress and warnings.
        task: Default: the task of the target language.
        source: Checkpoint that the weights will start from, whose vocabulary is the
            default of a new run.
        writes: Whether to write to the model directory. With several workers only
            the chief does; the others call this afterwards.
        num_replicas: Devices that share each batch, to count padding.

    Raises:
        UserError: If the model directory belongs to another run or corpus, if it is
            missing and `writes` is False, or if records are damaged or have other
            settings.
    """
    task = task or task_for(config.data.target_language)
    if model_dir.exists():
        model_dir.check_same(config, by_content=True)
        _check_source(config.training.init_from, model_dir)
    elif not writes:
        raise UserError(
            f"The first worker has started a run, but {model_dir.path} on "
            f"{socket.gethostname()} has none ({model_dir.flagfile.name} is missing). "
            "Give all workers the same --model_dir, in a folder that all of them share."
        )
    corpus = corpora.build_corpus(config.data, task=task, log=log)
    for split in corpus.splits.values():
        for warning in split.warnings:
            log(f"warning: {warning}")
    _check_dev_set(config.training, corpus)
    task = _choose_tokenizer(config.training, model_dir, corpus, task, checks=writes)
    links = corpora.read_links(config.data, corpus, log)
    with corpora.open_filters(config.data, log, writes=writes) as filters:
        corpus = filters.apply(corpus)
        parts = mixing.open_parts(config.data, log, filters, task)
    if config.data.records:
        text = _open_records(config, model_dir, task, log)
    else:
        text = _tokenize_text(config, model_dir, corpus, parts, links, log, source)
    data = _build_run_data(config, corpus, text, parts, log, num_replicas, task)
    _check_mixture(data.mixture, model_dir)
    _warn_of_dev_set(data.dev_sha256, model_dir, log)
    config = resolve_epochs(config, data.summary)
    fine_tuning.check_fit(config, data.vocabulary, source)
    for line in fine_tuning.other_meanings(config, source):
        log(f"warning: {line}")
    if not model_dir.exists():
        # Nothing is written before all settings and data have been checked.
        model_dir.path.mkdir(parents=True, exist_ok=True)
        data.vocabulary.save(model_dir.vocabulary_file)
        model_dir.update_run_card(_initial_run_card(config, data, source))
    if not writes:
        return data
    if isinstance(task, TranslationTask):
        model_dir.update_run_card({"bleu_tokenizer": task.tokenizer})
    # The flagfile is written last, since it makes the directory one of a run. It is
    # written again when a run resumes, perhaps with more steps.
    command = "python -m t2t_keras.train --flagfile="
    command += shlex.quote(str(model_dir.flagfile))
    model_dir.write_config(
        config,
        f"Every setting of this run. To resume it, or run it again:\n"
        f"{command} --model_dir={shlex.quote(str(model_dir.path))}",
    )
    return data


def _choose_tokenizer(
    training: TrainingConfig,
    model_dir: ModelDir,
    corpus: Corpus,
    task: Task,
    *,
    checks: bool,
) -> Task:
    """Returns the task with the tokenizer of BLEU: the setting, or else the run's own.

    All evaluations of a run are scored alike, or its early stop would compare different
    scores. So a run of an earlier release, whose run card has no tokenizer, keeps 13a.

    Raises:
        UserError: If this process will need a tokenizer that is not installed.
    """
    tokenize = training.tokenize
    if tokenize is None and model_dir.exists():
        tokenize = model_dir.run_card().get("bleu_tokenizer", "13a")
    task = with_tokenizer(task, tokenize)
    scores_dev = "dev" in corpus.splits and training.dev_bleu_sentences > 0
    if checks and (scores_dev or training.score_split in corpus.splits):
        task.scorer()
    return task


def resolve_epochs(
    config: ExperimentConfig, summary: BatchingSummary
) -> ExperimentConfig:
    """Returns the settings with the number of updates that --train_epochs stands for.

    Rounded up. With packing or a mixture the number of batches differs a little between
    epochs; that of the first is used.

    Raises:
        UserError: If a linear decay would begin after the last update.
    """
    epochs = config.training.train_epochs
    if epochs is None:
        return config
    steps = math.ceil(epochs * summary.batches_per_epoch)
    training = dataclasses.replace(config.training, train_steps=steps)
    if training.schedule == "linear" and training.warmup_steps >= steps:
        raise UserError(
            "--warmup_steps must be less than the number of updates with "
            f"--schedule=linear, which falls after the warm-up. Received: "
            f"{training.warmup_steps:,}, and {epochs} epochs have {steps:,} updates."
        )
    return dataclasses.replace(config, training=training)


def advice(config: ExperimentConfig, data: RunData) -> list[str]:
    """Returns warnings of likely mistakes that do not prevent training."""
    lines = []
    languages = (*moses_languages(), "tree")
    for flag, effect in (
        ("source_language", ""),
        ("target_language", " Without them there is no tokenized BLEU."),
    ):
        language = getattr(config.data, flag)
        if has_no_spaces(language):
            note = f"There is no tokenized BLEU: {NO_SPACES.format(language)}"
            lines += [note] if effect else []
        elif language not in languages:
            lines.append(
                f"--{flag}={language} has no tokenization rules. Supported: "
                f"{', '.join(languages)}.{effect}"
            )
    if isinstance(data.task, TranslationTask):
        lines += bleu_warnings(language, data.task.tokenizer, _dev_references(data))
    pairs, size = data.summary.pairs, data.vocabulary.size
    if pairs < size:
        lines.append(
            f"Only {pairs:,} pairs for {size:,} subwords, most of which will be rare. "
            "Train on more text, or lower --vocabulary_size."
        )
    batches = data.summary.batches_per_epoch
    if batches < FEW_BATCHES:
        lines.append(
            f"Only {batches} batches per epoch. Train on more text, or lower "
            f"--tokens_per_batch={config.data.tokens_per_batch}."
        )
    return lines


def _dev_references(data: RunData) -> list[str]:
    """Returns some references of the dev set, if there is one."""
    if data.dev is None:
        return []
    pairs = data.corpus.pairs("dev").take(_SAMPLED_REFERENCES).as_numpy_iterator()
    return [pair["target"].decode(errors="replace") for pair in pairs]


class _MainText(NamedTuple):
    """Training text of the main corpus: its fingerprint, vocabulary and token ids."""

    fingerprint: str
    vocabulary: Vocabulary
    train: TokenizedCorpus


def _tokenize_text(
    config: ExperimentConfig,
    model_dir: ModelDir,
    corpus: Corpus,
    parts: Sequence[mixing.MixturePart],
    links: TokenizedSide | None,
    log: Callable[[str], object],
    source: fine_tuning.Source | None,
) -> _MainText:
    if "train" not in corpus.splits:
        raise UserError(
            f"The corpus {corpus.name} has no training text, only "
            f"{', '.join(corpus.splits)}. Give --train_source and --train_target."
        )
    fingerprint = corpus.splits["train"].fingerprint
    if links is not None:
        digest = hashlib.sha256(fingerprint.encode())
        digest.update(links.tokens.data)
        digest.update(links.offsets.data)
        fingerprint = digest.hexdigest()
    names = config.data.train_source + config.data.train_target
    name = ",".join(names) or corpus.name
    if links is not None:
        name += f" with {','.join(config.data.train_alignments)}"
    _check_corpus(name, fingerprint, model_dir)
    if model_dir.exists():
        vocabulary = model_dir.vocabulary()
        _check_vocabulary_file(config.data.vocabulary_file, vocabulary, model_dir)
    elif source is not None and not config.data.vocabulary_file:
        vocabulary = source.vocabulary
    else:
        if not config.data.vocabulary_file:
            log(f"learning {config.data.vocabulary_size:,} subwords …")
        vocabulary = corpora.build_vocabulary(config.data, corpus, parts)
    train = tokenize_corpus(
        corpus.pairs("train"),
        vocabulary,
        config.data.max_length,
        keep_text=config.data.subword_sampling > 0,
        before=corpus.splits["train"].left_out,
    )
    if links is not None:
        train = corpora.with_links(train, links, corpus, vocabulary)
    return _MainText(fingerprint, vocabulary, train)


def _open_records(
    config: ExperimentConfig,
    model_dir: ModelDir,
    task: Task,
    log: Callable[[str], object],
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
        "t2t_keras.prepare. --dataset, --train_source and --vocabulary_file can be "
        "left out; the records determine them.",
    )
    corpora.check_text_of_records(config.data, spec, folder, task, log)
    _check_corpus(f"The text of the records in {folder}", spec.fingerprint, model_dir)
    vocabulary = open_vocabulary(folder, spec)
    if model_dir.exists() and model_dir.vocabulary().sha256 != vocabulary.sha256:
        raise UserError(
            f"The records in {folder} have another vocabulary than the run in "
            f"{model_dir.path}. Prepare them with --vocabulary_file="
            f"{model_dir.vocabulary_file}, or start in a new --model_dir."
        )
    train = open_records(folder, manifest, needs_text=config.data.subword_sampling > 0)
    return _MainText(spec.fingerprint, vocabulary, train)


def _check_dev_set(training: TrainingConfig, corpus: Corpus) -> None:
    """Raises `UserError` if a setting compares evaluations, and there are none."""
    if "dev" in corpus.splits:
        return
    for name in ("patience", "keep_best", "monitor"):
        value = getattr(training, name)
        if value != getattr(TrainingConfig, name):
            raise UserError(
                f"--{name}={value} needs a dev set, and the corpus {corpus.name} has "
                f"none. Give --dev_source and --dev_target, or leave out --{name}."
            )


def _check_source(init_from: str | None, model_dir: ModelDir) -> None:
    """Raises `UserError` if --init_from names another checkpoint than at the start.

    The one that it named then may be gone.
    """
    old = model_dir.config().training.init_from
    if init_from and os.path.abspath(init_from) != (old and os.path.abspath(old)):
        fine_tuning.open_source(init_from, model_dir)


def _check_vocabulary_file(
    path: str | None, vocabulary: Vocabulary, model_dir: ModelDir
) -> None:
    """Raises `UserError` if --vocabulary_file is not the vocabulary of the run.

    The one that the run was started with may be gone, since the run has a copy.
    """
    is_known = path == model_dir.config().data.vocabulary_file
    if not path or (is_known and not os.path.exists(path)):
        return
    sha256 = load_vocabulary(path).sha256
    if sha256 != vocabulary.sha256:
        raise UserError(
            f"{path} (--vocabulary_file) is not the vocabulary of the run in "
            f"{model_dir.path}: its SHA-256 is {sha256[:12]}…, expected "
            f"{vocabulary.sha256[:12]}…. Give --vocabulary_file="
            f"{model_dir.vocabulary_file}, or start in a new --model_dir."
        )


def _check_corpus(name: str, fingerprint: str, model_dir: ModelDir) -> None:
    expected = model_dir.run_card().get("corpus", {}).get("fingerprint")
    if model_dir.exists() and expected and expected != fingerprint:
        raise UserError(
            f"{name} is not the training text that the run in {model_dir.path} was "
            f"started with: its SHA-256 is {fingerprint[:12]}…, expected "
            f"{expected[:12]}…. Put the old text back (names and compression do not "
            "matter), or start in a new --model_dir."
        )


def _check_mixture(parts: Sequence[Mapping[str, Any]], model_dir: ModelDir) -> None:
    """Raises `UserError` if the text of a part has changed.

    Changed rates and tags are found by the check of the settings.
    """
    expected_parts = model_dir.run_card().get("corpus", {}).get("mixture", [])
    for part, expected in zip(parts, expected_parts, strict=False):
        sha256, old = part["fingerprint"], expected["fingerprint"]
        if model_dir.exists() and sha256 != old:
            raise UserError(
                f"{part['name']} (--mixture) is not the text that the run in "
                f"{model_dir.path} was started with, {expected['name']}: its SHA-256 "
                f"is {sha256[:12]}…, expected {old[:12]}…. Put the old text back, or "
                "start in a new --model_dir."
            )


def _warn_of_dev_set(
    digest: str | None, model_dir: ModelDir, log: Callable[[str], object]
) -> None:
    """Logs a warning if the dev set is not the one that the run was started with."""
    expected = model_dir.run_card().get("corpus", {}).get("dev_sha256")
    if model_dir.exists() and expected and digest != expected:
        log(
            "warning: the dev set is not the one that the run was started with. Scores "
            "of before and now cannot be compared, and best/ is chosen by both."
        )


def _build_run_data(
    config: ExperimentConfig,
    corpus: Corpus,
    text: _MainText,
    parts: Sequence[mixing.MixturePart],
    log: Callable[[str], object],
    num_replicas: int,
    task: Task,
) -> RunData:
    max_length = config.data.max_length
    vocabulary = text.vocabulary
    train, mixture = mixing.mix(text.train, parts, config.data, vocabulary)
    if train.report.pairs_dropped:
        log(f"left out: {train.report.left_out(max_length)}")
    if config.data.subword_sampling:
        train = SampledCorpus(
            train,
            vocabulary,
            rate=config.data.subword_sampling,
            seed=config.training.seed,
            max_length=max_length,
            log=log,
        )
    batching = corpora.build_batching_strategy(config.data, train, mixture)
    count_rows = functools.partial(
        _computed_rows, num_replicas, config.training.max_tokens_per_replica
    )
    summary = batching_summary(train, batching, count_rows)
    log(f"corpus {corpus.name}: {summary.describe()}")
    if mixture is not None:
        log(mixing.describe(parts, mixture))
    dev = None
    if "dev" in corpus.splits:
        pairs, before = corpus.pairs("dev"), corpus.splits["dev"].left_out
        dev = tokenize_corpus(pairs, vocabulary, max_length, before=before)
        if dev.report.pairs_dropped:
            log(f"left out of the dev loss: {dev.report.left_out(max_length)}")
    return RunData(
        corpus,
        text.fingerprint,
        mixing.run_card_entries(parts, mixture),
        vocabulary,
        train,
        dev,
        batching,
        summary,
        task,
    )


def _computed_rows(num_replicas: int, max_tokens: int | None, shape: BatchShape) -> int:
    """Returns the rows that the devices compute for a batch, including padding rows."""
    return computed_rows(
        shape.rows,
        max(shape.source_bound, shape.target_bound),
        num_replicas=num_replicas,
        max_tokens=max_tokens,
    )


def _initial_run_card(
    config: ExperimentConfig, data: RunData, source: fine_tuning.Source | None
) -> dict[str, Any]:
    """Returns the run card before the first step."""
    return {
        **({} if source is None else {"init": source.run_card_entry()}),
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
            "dev_sha256": data.dev_sha256,
        },
        "vocabulary": {
            "size": data.vocabulary.size,
            "sha256": data.vocabulary.sha256,
        },
    }
