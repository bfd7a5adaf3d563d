"""Randomly initialized model with nearly equal probabilities, and a reference scorer.

Such a model never ends a sentence early, predicts rare ids, and shows the smallest
difference between two implementations.
"""

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from t2t_keras.model.masks import padding_mask
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.tasks import task_for
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.training import checkpoints
from t2t_keras.training.checkpoint_store import CheckpointStore

# All sizes differ, so that exchanged axes are detected.
CONFIG = ExperimentConfig(
    data=DataConfig(source_language="en", target_language="fr", max_length=24),
    model=ModelConfig(num_layers=2, d_model=26, d_ff=40, num_heads=3, d_k=5, d_v=7),
    training=TrainingConfig(seed=7, jit_compile=False),
    decoding=DecodingConfig(beam_size=4, alpha=0.6, extra_length=6),
)

WORDS = "the a old green house tree walks über grün Bäume Haus alt läuft , .".split


def random_lines(num_lines: int, seed: int, longest: int = 9) -> list[str]:
    """Returns lines of 1 to `longest` words."""
    generator = random.Random(seed)
    words = WORDS()
    return [
        " ".join(generator.choices(words, k=generator.randint(1, longest)))
        for _ in range(num_lines)
    ]


@functools.cache
def random_vocabulary() -> SubwordVocabulary:
    """Returns a vocabulary of 310 subwords."""
    lines = random_lines(200, seed=5)
    return SubwordVocabulary(learn_subwords(lines, vocabulary_size=310))


def random_model(vocabulary: SubwordVocabulary, **sizes: Any) -> Transformer:
    """Returns a model with weights far from those of a fresh one, biases included."""
    config = dataclasses.replace(CONFIG.model, **sizes)
    config = dataclasses.replace(CONFIG, model=config)
    start = models.find_decoder_start(config.model, vocabulary)
    model = models.build_model(config, vocabulary.size, start)
    generator = np.random.default_rng(11)
    for weight in model.weights:
        noise = generator.normal(scale=0.15, size=weight.shape)
        weight.assign(ops.convert_to_numpy(weight.value) + noise)
    return model


def pad_ids(sources: Sequence[Sequence[int]]) -> tf.Tensor:
    """Returns ids [B, S] int32, padded with 0."""
    width = max(map(len, sources))
    rows = [[*source, *[0] * (width - len(source))] for source in sources]
    return tf.constant(rows, tf.int32)


def make_scorer(model: Transformer) -> Callable[[Sequence[int], Sequence[int]], float]:
    """Returns a function of source ids and target ids, EOS included: log p(target).

    It computes all positions at once (teacher forcing), without a cache and without a
    batch, and takes the softmax in float64.
    """
    read_log_probs = _make_log_probs_reader(model)

    def read(source: Sequence[int], target: Sequence[int]) -> float:
        log_probs_TV = read_log_probs(source, target[:-1])
        return float(log_probs_TV[np.arange(len(target)), target].sum())

    return read


def make_next_scorer(
    model: Transformer,
) -> Callable[[Sequence[int], Sequence[int]], np.ndarray]:
    """Returns a function of source ids and a target prefix: log p [V] of the next id.

    As in `make_scorer`, all positions are computed again.
    """
    read_log_probs = _make_log_probs_reader(model)
    return lambda source, start: read_log_probs(source, start)[-1]


def _make_log_probs_reader(model: Transformer):
    row = tf.TensorSpec([1, None], tf.int32)

    @tf.function(input_signature=[row, row])
    def compute_logits(source, shifted):
        mask = padding_mask(model.visible_source(source))
        return model.decode(shifted, model.encode(source), mask)

    def read(source: Sequence[int], start: Sequence[int]) -> np.ndarray:
        """Returns log p [T, V] float64 of each id of the prefix and of the next id."""
        logits = compute_logits(tf.constant([source]), tf.constant([[0, *start]]))
        logits_TV = logits[0].numpy().astype("float64")
        peak_T1 = logits_TV.max(axis=-1, keepdims=True)
        total_T1 = np.log(np.exp(logits_TV - peak_T1).sum(-1, keepdims=True)) + peak_T1
        return logits_TV - total_T1

    return read


def as_trained_model(
    model: Transformer, vocabulary: SubwordVocabulary, **data: str
) -> models.TrainedModel:
    """Returns the model as if it were loaded from a run."""
    config = dataclasses.replace(CONFIG, data=dataclasses.replace(CONFIG.data, **data))
    task = task_for(config.data.target_language)
    return models.TrainedModel(model, vocabulary, config, Path("nowhere"), 123, task)


def random_trained_model(tmp_path_factory, **sizes):
    """Returns a model as if loaded from an average of two checkpoints."""
    vocabulary = random_vocabulary()
    trained = as_trained_model(random_model(vocabulary, **sizes), vocabulary)
    return with_checkpoint(trained, tmp_path_factory.mktemp("checkpoint"))


def strings(lines):
    return np.array([line.encode() for line in lines], dtype=object)


def with_checkpoint(trained: models.TrainedModel, folder: Path) -> models.TrainedModel:
    """Returns the model as if loaded from an average of two checkpoints."""
    store = CheckpointStore(folder / "averaged", trained.model)
    path = store.save(checkpoints.CheckpointState(step=123, averaged=(1, 2)))
    return dataclasses.replace(trained, checkpoint=Path(path))
