"""Models of a run: fresh, or with a checkpoint's weights; and translators of them."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path

import keras
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.errors import UserError
from t2t_keras.evaluation.translator import Translator
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import Task, task_for
from t2t_keras.settings.config import DecodingConfig, ExperimentConfig
from t2t_keras.text.reading import TextAdapter
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.training.checkpoints import CheckpointStore

# Most searches at a time, on CPUs: each has memory of its own.
_MOST_SEARCHES = 4

# Longest source, in tokens, that is translated whole. Attention's memory grows with
# its square; a sentence that long is a paragraph.
MAX_SOURCE_LENGTH = 512


def build_model(config: ExperimentConfig, vocabulary_size: int) -> Transformer:
    """Returns the model with fresh weights, drawn from the run's seed.

    With bfloat16 and float16 it is Keras' mixed precision: weights stay float32.
    """
    keras.utils.set_random_seed(config.training.seed)
    precision = config.training.precision
    policy = precision if precision == "float32" else f"mixed_{precision}"
    model = Transformer(
        vocabulary_size, **dataclasses.asdict(config.model), dtype=policy
    )
    model.build()
    return model


def build_translator(
    model: Transformer,
    vocabulary: SubwordVocabulary,
    config: DecodingConfig,
    n_best: int = 1,
    text_adapter: TextAdapter | None = None,
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
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    return Translator(
        search,
        vocabulary,
        max_source_length=longest_source(model),
        extra_length=config.extra_length,
        at_once=1 if has_gpu else min(os.cpu_count() or 1, _MOST_SEARCHES),
        text_adapter=text_adapter,
    )


def text_translator(
    trained: "TrainedModel", decoding: DecodingConfig, n_best: int = 1
) -> Translator:
    """Returns a translator of raw text, as the program `translate` uses it.

    Raises:
        UserError: If more translations are asked for than the beam holds.
    """
    if not 1 <= n_best <= decoding.beam_size:
        raise UserError(
            f"--n_best must be from 1 to --beam_size={decoding.beam_size}. "
            f"Received: {n_best}"
        )
    text_adapter = trained.task.text_adapter(splits_words=True)
    return build_translator(
        trained.model, trained.vocabulary, decoding, n_best, text_adapter
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
        task: What its text looks like outside, and what scores it.
    """

    model: Transformer
    vocabulary: SubwordVocabulary
    config: ExperimentConfig
    checkpoint: Path
    step: int
    task: Task

    @property
    def checkpoint_name(self) -> str:
        """The checkpoint's folders, as "averaged/step-1500"."""
        return f"{self.checkpoint.parent.name}/{self.checkpoint.name}"


def load_trained(
    model_dir: ModelDir, which: str, task: Task | None = None
) -> TrainedModel:
    """Returns the model of a run.

    Args:
        model_dir: Of the run.
        which: The checkpoint, as `ModelDir.find_checkpoint` takes it.
        task: Default: the task of the run's target language.

    Raises:
        UserError: If a part is missing, damaged, or does not fit another.
    """
    config = model_dir.config()
    vocabulary = model_dir.vocabulary()
    path = model_dir.find_checkpoint(which)
    model = build_model(config, vocabulary.size)
    state = CheckpointStore(path.parent, model).restore(path)
    check_fingerprint(path, state.fingerprints, vocabulary)
    task = task or task_for(config.data.target_language)
    return TrainedModel(model, vocabulary, config, path, state.step, task)


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
