"""Corpora of a run: opened, its vocabulary learned, its pairs dealt into batches."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.batching_strategy import (
    BatchingStrategy,
    BucketBatching,
)
from t2t_keras.input_pipeline.batches.mixture import (
    Mixture,
    MixtureBatching,
    mixture_lengths,
)
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import EvaluationBatches
from t2t_keras.input_pipeline.batches.plan import ALL_ROWS, WorkerShard
from t2t_keras.input_pipeline.corpora.corpus import Corpus, Files, open_corpus
from t2t_keras.input_pipeline.corpora.parallel_text import TreeReader
from t2t_keras.input_pipeline.records.manifest import read_manifest, text_files
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.runs.mixing import MixturePart, chunks_in_proportion
from t2t_keras.runs.tasks import Task, task_for
from t2t_keras.settings.config import DataConfig
from t2t_keras.settings.flags import record_settings
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import SubwordVocabulary

# Programs that XLA compiles for a dev set: of more, its few batches get no fuller.
_MOST_SHAPES_TO_EVALUATE = 3

_ALWAYS = ("source_language", "target_language", "max_length")
_OF_LEARNING = ("vocabulary_size", "subwords")


def build_corpus(
    config: DataConfig,
    splits: Sequence[str] = ("train", "dev", "test"),
    task: Task | None = None,
) -> Corpus:
    """Returns the corpus that the settings name.

    Training text of one's own takes the place of a dataset that a flagfile names.
    Of records only the dev and test set are text.

    Args:
        config: The settings.
        splits: Which text files to open; a dataset opens what is asked for anyway.
        task: Reads treebanks. Default: the task of the target language.

    Raises:
        UserError: If there is no text, or one side of it is missing.
    """
    files = {
        split: (getattr(config, f"{split}_source"), getattr(config, f"{split}_target"))
        for split in ("train", "dev", "test")
    }
    for split, (source, target) in files.items():
        if target and not source:
            raise UserError(f"--{split}_target needs --{split}_source beside it.")
    read_trees = (task or task_for(config.target_language)).read_trees
    if config.records:
        return _corpus_of_records(config, files, splits, read_trees)
    if config.dataset is None and not files["train"][0]:
        raise UserError(
            "There is nothing to train on. Give --dataset (a TFDS name or a folder "
            "under data/), or --train_source and --train_target."
        )
    opened = {name: files[name] for name in splits if files[name][0]}
    if files["train"][0] and not opened:
        return Corpus("text files", {})
    return open_corpus(
        None if files["train"][0] else config.dataset,
        files=opened or None,
        source_language=config.source_language,
        target_language=config.target_language,
        data_dir=config.data_dir,
        download=config.download,
        read_trees=read_trees,
    )


def _corpus_of_records(
    config: DataConfig,
    files: Mapping[str, Files],
    splits: Sequence[str],
    read_trees: TreeReader | None,
) -> Corpus:
    """Returns dev and test set: files that are named, or else those of the records."""
    folder = Path(config.records or "")
    manifest = read_manifest(folder)
    kept = {
        split: ([source], [target])
        for split in manifest.texts
        for source, target in [text_files(folder, split)]
    }
    named = {split: pair for split, pair in files.items() if pair[0]}
    opened = {
        split: pair
        for split, pair in {**kept, **named}.items()
        if split in splits and split != "train"
    }
    texts = open_corpus(files=opened, read_trees=read_trees).splits if opened else {}
    return Corpus(manifest.spec.corpus, texts)


def build_vocabulary(
    config: DataConfig, corpus: Corpus, parts: Sequence[MixturePart] = ()
) -> SubwordVocabulary:
    """Returns the vocabulary of the settings: a file's, or learned from the corpus.

    Of a mixture's parts it is learned as well, in the proportion of their rates.
    """
    if config.vocabulary_file:
        return SubwordVocabulary.load(config.vocabulary_file)

    def lines():
        for source, target in chunks_in_proportion(corpus, parts):
            for pair in zip(source, target, strict=True):
                yield from pair

    proto = learn_subwords(
        lines(),
        vocabulary_size=config.vocabulary_size,
        model_type=cast(Any, config.subwords),
    )
    return SubwordVocabulary(proto)


def build_batching_strategy(
    config: DataConfig, corpus: TokenizedCorpus, mixture: Mixture | None = None
) -> BatchingStrategy:
    """Returns how the training pairs fall into batches."""
    lengths = corpus.lengths
    if mixture is not None:
        strategy = _strategy(config, mixture_lengths(lengths, mixture))
        return MixtureBatching(lengths, mixture, strategy)
    return _strategy(config, lengths)


def _strategy(
    config: DataConfig, lengths: np.ndarray
) -> BucketBatching | PackedBatching:
    if config.batching == "pack":
        return PackedBatching.of(lengths, tokens_per_batch=config.tokens_per_batch)
    return BucketBatching.of(
        lengths,
        max_shapes=config.max_shapes,
        tokens_per_batch=config.tokens_per_batch,
    )


def build_evaluation(
    config: DataConfig, corpus: TokenizedCorpus, shard: WorkerShard = ALL_ROWS
) -> EvaluationBatches:
    """Returns the batches to evaluate on: of several workers, the rows of one."""
    return EvaluationBatches(
        corpus,
        max_shapes=min(config.max_shapes, _MOST_SHAPES_TO_EVALUATE),
        tokens_per_batch=config.tokens_per_batch,
        shard=shard,
    )


def check_settings(
    made_with: Mapping[str, Any],
    vocabulary_sha256: str,
    config: DataConfig,
    folder: Path,
    *,
    advice: str,
) -> None:
    """Refuses settings that would have made other records.

    A corpus or a vocabulary file that is not named is taken as the records have it.

    Args:
        made_with: The manifest's settings.
        vocabulary_sha256: Of the records' vocabulary.
        config: What was asked for.
        folder: Of the records.
        advice: What to do about it.

    Raises:
        UserError: If something differs; each difference is shown.
    """
    asked = record_settings(config)
    names = [*_ALWAYS]
    if not config.vocabulary_file and made_with["vocabulary_file"] is None:
        names += _OF_LEARNING
    if asked["train_source"]:
        names += ("train_source", "train_target")
    elif asked["dataset"]:
        names.append("dataset")
    rows = [
        f"  --{name}: {_shown(made_with[name])} in the records, "
        f"{_shown(asked[name])} now"
        for name in names
        if made_with[name] != asked[name]
    ]
    if config.vocabulary_file:
        found = SubwordVocabulary.load(config.vocabulary_file).sha256
        if found != vocabulary_sha256:
            rows.append(
                f"  --vocabulary_file: SHA-256 {vocabulary_sha256[:12]}… in the "
                f"records, {found[:12]}… now"
            )
    if rows:
        raise UserError(
            f"{folder} holds records of other settings:\n" + "\n".join(rows) + advice
        )


def without_corpus(config: DataConfig) -> DataConfig:
    """Returns settings that name no training text."""
    return dataclasses.replace(config, dataset=None, train_source=(), train_target=())


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
