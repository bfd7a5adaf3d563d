"""The only module that opens a config: builds the parts and joins them."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.errors import UserError
from t2t_keras.evaluation.translator import Translator
from t2t_keras.input_pipeline.batches.evaluation_batches import EvaluationBatches
from t2t_keras.input_pipeline.batches.filling import (
    BucketFilling,
    Filling,
    MixedFilling,
    PackedFilling,
    lengths_of_mixture,
)
from t2t_keras.input_pipeline.batches.mixture import Mixture
from t2t_keras.input_pipeline.batches.plan import ALL_ROWS, WorkerShare
from t2t_keras.input_pipeline.corpora.corpus import Corpus, Files, open_corpus
from t2t_keras.input_pipeline.records.manifest import read_manifest, text_files
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.mixing import MixturePart, chunks_in_proportion
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import task_for
from t2t_keras.settings.config import (
    DataConfig,
    DecodingConfig,
    ExperimentConfig,
    TrainingConfig,
)
from t2t_keras.text.forms import TextForm
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.losses import LossSums
from t2t_keras.training.optimizer import SummedGradientAdam, paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import ReplicaUpdate

# Programs that XLA compiles for a dev set: of more, its few batches get no fuller.
_MOST_SHAPES_TO_EVALUATE = 3

# Most searches at a time, on CPUs: each has memory of its own.
_MOST_SEARCHES = 4

# Longest source, in tokens, that is translated whole. Attention's memory grows with
# its square; a sentence that long is a paragraph.
MAX_SOURCE_LENGTH = 512


def build_corpus(
    config: DataConfig, splits: Sequence[str] = ("train", "dev", "test")
) -> Corpus:
    """Returns the corpus that the settings name.

    Training text of one's own takes the place of a dataset that a flagfile names.
    Of records only the dev and test set are text.

    Args:
        config: The settings.
        splits: Which text files to open; a dataset opens what is asked for anyway.

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
    if config.records:
        return _corpus_of_records(config, files, splits)
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
        read_trees=task_for(config.target_language).read_trees,
    )


def _corpus_of_records(
    config: DataConfig, files: Mapping[str, Files], splits: Sequence[str]
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
    read_trees = task_for(config.target_language).read_trees
    texts = open_corpus(files=opened, read_trees=read_trees).splits if opened else {}
    return Corpus(manifest.making.corpus, texts)


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


def build_filling(
    config: DataConfig, corpus: TokenizedCorpus, mixture: Mixture | None = None
) -> Filling:
    """Returns how the training pairs fall into batches."""
    lengths = corpus.lengths
    if mixture is not None:
        way = _way_to_fill(config, lengths_of_mixture(lengths, mixture))
        return MixedFilling(lengths, mixture, way)
    return _way_to_fill(config, lengths)


def _way_to_fill(
    config: DataConfig, lengths: np.ndarray
) -> BucketFilling | PackedFilling:
    if config.batching == "pack":
        return PackedFilling.of(lengths, tokens_per_batch=config.tokens_per_batch)
    return BucketFilling.of(
        lengths,
        max_shapes=config.max_shapes,
        tokens_per_batch=config.tokens_per_batch,
    )


def build_model(config: ExperimentConfig, vocabulary_size: int) -> Transformer:
    """Returns the model with fresh weights, drawn from the run's seed."""
    keras.utils.set_random_seed(config.training.seed)
    precision = config.training.precision
    policy = precision if precision == "float32" else f"mixed_{precision}"
    model = Transformer(
        vocabulary_size, **dataclasses.asdict(config.model), dtype=policy
    )
    model.build()
    return model


def build_schedule(config: ExperimentConfig) -> WarmupInverseSquareRoot:
    """Returns the paper's learning rate for the settings."""
    return WarmupInverseSquareRoot(
        config.model.d_model,
        config.training.warmup_steps,
        config.training.learning_rate_scale,
    )


def build_optimizer(config: ExperimentConfig, model: keras.Model) -> SummedGradientAdam:
    """Returns the paper's Adam on the paper's schedule, built for a model."""
    # bfloat16 has float32's range; float16 has not, and small gradients vanish.
    scaled = config.training.precision == "float16"
    optimizer = paper_adam(build_schedule(config), dynamic_loss_scale=scaled)
    optimizer.build(model.trainable_variables)
    return optimizer


def uses_xla(config: TrainingConfig) -> bool:
    """Returns whether XLA compiles the step: where it is asked for and gains.

    On CPUs it has no fast bfloat16 product. TensorFlow's own is three times as fast
    there as either's of float32 (benchmarks/README.md).
    """
    return config.jit_compile and (_has_gpu() or config.precision != "bfloat16")


def _has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def build_stepper(
    config: TrainingConfig,
    model: keras.Model,
    optimizer: SummedGradientAdam | None,
    strategy: tf.distribute.Strategy,
    *,
    packed: bool = False,
) -> Stepper:
    """Returns what trains and evaluates the model; `packed` batches to train on."""
    update = ReplicaUpdate(
        model,
        optimizer,
        label_smoothing=config.label_smoothing,
        seed=config.seed,
        jit_compile=uses_xla(config),
        packed=packed,
    )
    return Stepper(update, strategy, max_tokens=config.max_tokens_per_replica)


def build_translator(
    model: Transformer,
    vocabulary: SubwordVocabulary,
    config: DecodingConfig,
    n_best: int = 1,
    form: TextForm | None = None,
) -> Translator:
    """Returns a translator that traces the search once for all shapes."""
    settings = BeamSearchSettings(
        beam_size=config.beam_size, alpha=config.alpha, n_best=n_best
    )
    search = tf.function(
        functools.partial(
            search_translations,
            model,
            settings=settings,
            extra_length=config.extra_length,
        ),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )
    return Translator(
        search,
        vocabulary,
        max_source_length=longest_source(model),
        extra_length=config.extra_length,
        at_once=1 if _has_gpu() else min(os.cpu_count() or 1, _MOST_SEARCHES),
        form=form,
    )


def longest_source(model: Transformer) -> int:
    """Returns how many source tokens are translated, EOS counted; the rest is cut."""
    return min(MAX_SOURCE_LENGTH, model.sizes["learned_positions"] or MAX_SOURCE_LENGTH)


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model from a model directory, ready to be used.

    Attributes:
        model: With the checkpoint's weights.
        vocabulary: The one it was trained with.
        config: The settings of its run.
        checkpoint: Where the weights came from.
        step: Updates they had.
    """

    model: Transformer
    vocabulary: SubwordVocabulary
    config: ExperimentConfig
    checkpoint: Path
    step: int


def load_trained(model_dir: ModelDir, which: str) -> TrainedModel:
    """Returns the model of a run.

    Args:
        model_dir: Of the run.
        which: The checkpoint, as `ModelDir.find_checkpoint` takes it.

    Raises:
        UserError: If a part is missing, damaged, or does not fit another.
    """
    config = model_dir.config()
    vocabulary = model_dir.vocabulary()
    path = model_dir.find_checkpoint(which)
    model = build_model(config, vocabulary.size)
    state = CheckpointStore(path.parent, model).restore(path)
    check_fingerprint(path, state.fingerprints, vocabulary)
    return TrainedModel(model, vocabulary, config, path, state.step)


def check_fingerprint(
    path: Path, fingerprints: Mapping[str, str], vocabulary: SubwordVocabulary
) -> None:
    """Raises `UserError` if a checkpoint was trained with another vocabulary."""
    expected = fingerprints.get("vocabulary")
    if expected and expected != vocabulary.sha256:
        raise UserError(
            f"The checkpoint {path} was trained with another vocabulary: SHA-256 "
            f"{expected[:12]}…, where the one given has {vocabulary.sha256[:12]}…. Its "
            "ids would mean other words. Use the vocabulary.model of its own run."
        )


def build_evaluation(
    config: DataConfig, corpus: TokenizedCorpus, share: WorkerShare = ALL_ROWS
) -> EvaluationBatches:
    """Returns the batches to evaluate on: of several workers, the rows of one."""
    return EvaluationBatches(
        corpus,
        max_shapes=min(config.max_shapes, _MOST_SHAPES_TO_EVALUATE),
        tokens_per_batch=config.tokens_per_batch,
        share=share,
    )


def loss_sums(
    stepper: Stepper,
    batches: EvaluationBatches,
    batch_done: Callable[[], object] = lambda: None,
) -> LossSums:
    """Returns the loss sums of some batches, without dropout and smoothing.

    Args:
        stepper: Evaluates the model.
        batches: On which.
        batch_done: Called after each batch.
    """
    total = [0.0, 0.0, 0.0]
    for batch in batches:
        sums = stepper.evaluate(batch).losses
        total = [a + float(b) for a, b in zip(total, sums, strict=True)]
        batch_done()
    return LossSums(*total)
