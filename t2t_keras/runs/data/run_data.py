"""Data of a run: corpus, vocabulary, token ids and batching strategy."""

import dataclasses
import functools
import hashlib
import logging
import math
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.evaluation.compound_bleu import NO_SPACES, moses_languages
from t2t_keras.evaluation.tokenizers import bleu_warnings, has_no_spaces
from t2t_keras.files.remote import as_path
from t2t_keras.input_pipeline.batches.batching_strategy import BatchingStrategy
from t2t_keras.input_pipeline.batches.sampled import SampledCorpus
from t2t_keras.input_pipeline.batches.summary import BatchingSummary, batching_summary
from t2t_keras.input_pipeline.corpora.corpus import Corpus, CorpusSplit
from t2t_keras.input_pipeline.corpora.fingerprints import derived_fingerprint
from t2t_keras.input_pipeline.records.manifest import (
    open_records,
    open_vocabulary,
    read_manifest,
)
from t2t_keras.input_pipeline.records.remote_records import local_shards
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizedCorpus,
    TokenizedSide,
    tokenize_corpus,
)
from t2t_keras.runs.data import from_settings, mixing, run_checks
from t2t_keras.runs.data.record_checks import (
    RecordText,
    check_settings,
    check_text_of_records,
)
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import Task, TranslationTask, task_for, with_tokenizer
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.training.step import computed_rows
from t2t_keras.typing import BatchShape

logger = logging.getLogger(__name__)

# Batches of an epoch below which a warning is logged: each would hold a large part of
# all text.
FEW_BATCHES = 10
# References of the dev set that show whether there are spaces between words.
_SAMPLED_REFERENCES = 100


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


def open_data(
    config: ExperimentConfig,
    model_dir: ModelDir,
    task: Task | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    writes: bool = True,
    num_replicas: int = 1,
) -> RunData:
    """Opens the corpus, learns or loads the vocabulary, and tokenizes the text.

    Args:
        config: The settings.
        model_dir: Model directory of the run.
        task: Default: the task of the target language.
        vocabulary: Vocabulary of a new run that names none. Default: one is learned.
        writes: Whether to write the rejected pairs, and to check that scores can be
            computed. With several workers only the chief does, and the others call
            this once it has written the run's files.
        num_replicas: Devices that share each batch, to count padding.

    Raises:
        UserError: If the model directory belongs to another run or corpus, if it is
            missing and `writes` is False, or if records are damaged or have other
            settings.
    """
    task = task or task_for(config.data.target_language)
    if model_dir.exists():
        model_dir.check_same(config, by_content=True)
    elif not writes:
        raise UserError(
            f"The first worker has started a run, but {model_dir.path} on "
            f"{socket.gethostname()} has none ({model_dir.flagfile.name} is missing). "
            "Give all workers the same --model_dir, in a folder that all of them share."
        )
    corpus = from_settings.build_corpus(config.data, task=task)
    for split in corpus.splits.values():
        for warning in split.warnings:
            logger.warning(warning)
    run_checks.check_dev_set(config.training, corpus)
    task = _choose_tokenizer(config.training, model_dir, corpus, task, checks=writes)
    links = from_settings.read_links(config.data, corpus)
    with from_settings.open_filters(config.data, writes=writes) as filters:
        corpus = filters.apply(corpus)
        parts = mixing.open_parts(config.data, filters, task)
    if config.data.records:
        text = _open_records(config.data, model_dir, task)
    else:
        vocabulary = _open_vocabulary(config.data, model_dir, vocabulary)
        text = _tokenize_text(config.data, model_dir, corpus, parts, links, vocabulary)
    shuffle_pairs = from_settings.SHUFFLE_PAIRS
    if model_dir.exists():  # a run of a release up to 0.9 has no entry
        shuffle_pairs = model_dir.run_card().get("shuffle_pairs")
    data = _build_run_data(
        config, corpus, text, parts, num_replicas, task, shuffle_pairs
    )
    run_checks.check_mixture(parts, model_dir)
    run_checks.warn_of_dev_set(data.dev_sha256, model_dir)
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
    batches = math.ceil(epochs * summary.batches_per_epoch)
    steps = config.data.batch_growth().updates(batches)
    training = dataclasses.replace(config.training, train_steps=steps)
    if training.falls_to_last_step and training.warmup_steps >= steps:
        raise UserError(
            "--warmup_steps must be less than the number of updates with "
            f"--schedule={training.schedule}, which falls after the warm-up. Received: "
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


def _open_vocabulary(
    config: DataConfig, model_dir: ModelDir, default: Vocabulary | None
) -> Vocabulary | None:
    """Returns the vocabulary of the run, or of a new one; None for one to build."""
    if model_dir.exists():
        vocabulary = load_vocabulary(
            model_dir.vocabulary_file, model_dir.vocabulary_sha256
        )
        run_checks.check_vocabulary_file(config.vocabulary_file, vocabulary, model_dir)
        return vocabulary
    if config.vocabulary_file or default is None:
        return None
    return default.with_languages(config.source_language, config.target_language)


def _tokenize_text(
    config: DataConfig,
    model_dir: ModelDir,
    corpus: Corpus,
    parts: Sequence[mixing.MixturePart],
    links: TokenizedSide | None,
    vocabulary: Vocabulary | None,
) -> _MainText:
    if "train" not in corpus.splits:
        raise UserError(
            f"The corpus {corpus.name} has no training text, only "
            f"{', '.join(corpus.splits)}. Give --train_source and --train_target."
        )
    text = corpus.splits["train"]
    if links is not None:
        text = _with_links(text, links)
    name = ",".join(config.train_source + config.train_target) or corpus.name
    if links is not None:
        name += f" with {','.join(config.train_alignments)}"
    run_checks.check_corpus(name, text, model_dir)
    if vocabulary is None:
        vocabulary = from_settings.build_vocabulary(config, corpus, parts)
    train = tokenize_corpus(
        corpus.pairs("train"),
        vocabulary,
        config.max_length,
        keep_text=config.subword_sampling > 0,
        before=corpus.splits["train"].left_out,
    )
    if links is not None:
        train = from_settings.with_links(train, links, corpus, vocabulary)
    return _MainText(text.fingerprint, vocabulary, train)


def _with_links(text: CorpusSplit, links: TokenizedSide) -> CorpusSplit:
    """Returns text whose fingerprint is also that of word alignments."""
    arrays = links.tokens, links.offsets
    return dataclasses.replace(
        text,
        fingerprint=derived_fingerprint(text.fingerprint, arrays),
        open_old_fingerprint=lambda: derived_fingerprint(
            text.open_old_fingerprint(), arrays
        ),
    )


def _open_records(
    config: DataConfig,
    model_dir: ModelDir,
    task: Task,
) -> _MainText:
    folder = as_path(config.records or "")
    manifest = read_manifest(folder)
    spec = manifest.spec
    check_settings(
        spec.settings,
        spec.vocabulary_sha256,
        config,
        folder,
        advice="\nTrain with those settings, or make other records with "
        "t2t_keras.prepare. --dataset, --train_source and --vocabulary_file can be "
        "left out; the records determine them.",
    )
    check_text_of_records(config, manifest, folder, task)
    run_checks.check_corpus(
        f"The text of the records in {folder}",
        RecordText(config, manifest, task),
        model_dir,
    )
    vocabulary = open_vocabulary(folder, spec)
    if (
        model_dir.exists()
        and load_vocabulary(
            model_dir.vocabulary_file, model_dir.vocabulary_sha256
        ).sha256
        != vocabulary.sha256
    ):
        raise UserError(
            f"The records in {folder} have another vocabulary than the run in "
            f"{model_dir.path}. Prepare them with --vocabulary_file="
            f"{model_dir.vocabulary_file}, or start in a new --model_dir."
        )
    shards = local_shards(folder, manifest, config.records_cache)
    train = open_records(shards, manifest, needs_text=config.subword_sampling > 0)
    return _MainText(manifest.fingerprint, vocabulary, train)


def _build_run_data(
    config: ExperimentConfig,
    corpus: Corpus,
    text: _MainText,
    parts: Sequence[mixing.MixturePart],
    num_replicas: int,
    task: Task,
    shuffle_pairs: int | None,
) -> RunData:
    max_length = config.data.max_length
    vocabulary = text.vocabulary
    train, mixture = mixing.mix(
        text.train,
        parts,
        vocabulary,
        max_length,
        keep_text=config.data.subword_sampling > 0,
    )
    if train.report.pairs_dropped:
        logger.info(f"left out: {train.report.left_out(max_length)}")
    if config.data.subword_sampling:
        train = SampledCorpus(
            train,
            vocabulary,
            rate=config.data.subword_sampling,
            seed=config.training.seed,
            max_length=max_length,
        )
    batching = from_settings.build_batching_strategy(
        config.data, train, mixture, shuffle_pairs
    )
    count_rows = functools.partial(
        _computed_rows, num_replicas, config.training.max_tokens_per_replica
    )
    summary = batching_summary(train, batching, count_rows)
    logger.info(f"corpus {corpus.name}: {summary.describe()}")
    if mixture is not None:
        logger.info(mixing.describe(parts, mixture))
    dev = None
    if "dev" in corpus.splits:
        pairs, before = corpus.pairs("dev"), corpus.splits["dev"].left_out
        dev = tokenize_corpus(pairs, vocabulary, max_length, before=before)
        if dev.report.pairs_dropped:
            logger.info(f"left out of the dev loss: {dev.report.left_out(max_length)}")
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
