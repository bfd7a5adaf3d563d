"""An untrained model whose every choice is close, and its own log probabilities.

Such a model never ends a sentence early, calls rare ids, and shows the smallest
difference between two ways to compute one thing.
"""

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from keras import ops

from t2t_keras.model.masks import padding_mask
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.tasks import task_for
from t2t_keras.settings.config import (
    DataConfig,
    DecodingConfig,
    ExperimentConfig,
    ModelConfig,
    TrainingConfig,
)
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import SubwordVocabulary

# Every size another, so that no two axes can be taken for one another.
CONFIG = ExperimentConfig(
    data=DataConfig(source_language="en", target_language="fr", max_length=24),
    model=ModelConfig(num_layers=2, d_model=26, d_ff=40, num_heads=3, d_k=5, d_v=7),
    training=TrainingConfig(seed=7, jit_compile=False),
    decoding=DecodingConfig(beam_size=4, alpha=0.6, extra_length=6),
)

WORDS = "the a old green house tree walks über grün Bäume Haus alt läuft , .".split


def made_up_lines(num_lines: int, seed: int, longest: int = 9) -> list[str]:
    """Returns lines of 1 to `longest` words."""
    generator = random.Random(seed)
    words = WORDS()
    return [
        " ".join(generator.choices(words, k=generator.randint(1, longest)))
        for _ in range(num_lines)
    ]


def random_vocabulary() -> SubwordVocabulary:
    """Returns a vocabulary of 310 subwords."""
    lines = made_up_lines(200, seed=5)
    return SubwordVocabulary(learn_subwords(lines, vocabulary_size=310))


def random_model(vocabulary: SubwordVocabulary, **sizes: int) -> Transformer:
    """Returns a model with weights far from those of a fresh one, biases included."""
    config = dataclasses.replace(CONFIG.model, **sizes)
    config = dataclasses.replace(CONFIG, model=config)
    model = models.build_model(config, vocabulary.size)
    generator = np.random.default_rng(11)
    for weight in model.weights:
        noise = generator.normal(scale=0.15, size=weight.shape)
        weight.assign(ops.convert_to_numpy(weight.value) + noise)
    return model


def ids_of(sources: Sequence[Sequence[int]]) -> tf.Tensor:
    """Returns ids [B, S] int32, padded with 0."""
    width = max(map(len, sources))
    rows = [[*source, *[0] * (width - len(source))] for source in sources]
    return tf.constant(rows, tf.int32)


def reader_of(model: Transformer) -> Callable[[Sequence[int], Sequence[int]], float]:
    """Returns what gives log p of a target's ids, the EOS included, after a source's.

    It reads all positions at once, without a cache and without a batch, and takes
    the softmax in float64.
    """
    log_probs_of = _log_probs_reader(model)

    def read(source: Sequence[int], target: Sequence[int]) -> float:
        log_probs_TV = log_probs_of(source, target[:-1])
        return float(log_probs_TV[np.arange(len(target)), target].sum())

    return read


def next_reader_of(
    model: Transformer,
) -> Callable[[Sequence[int], Sequence[int]], np.ndarray]:
    """Returns what gives log p [V] of what follows the start of a target.

    As in `reader_of`, all positions are read anew.
    """
    log_probs_of = _log_probs_reader(model)
    return lambda source, start: log_probs_of(source, start)[-1]


def _log_probs_reader(model: Transformer):
    row = tf.TensorSpec([1, None], tf.int32)

    @tf.function(input_signature=[row, row])
    def logits_of(source, shifted):
        return model.decode(shifted, model.encode(source), padding_mask(source))

    def read(source: Sequence[int], start: Sequence[int]) -> np.ndarray:
        """Returns log p [T, V] float64 of each of the start, and of what follows it."""
        logits = logits_of(tf.constant([source]), tf.constant([[0, *start]]))
        logits_TV = logits[0].numpy().astype("float64")
        peak_T1 = logits_TV.max(axis=-1, keepdims=True)
        total_T1 = np.log(np.exp(logits_TV - peak_T1).sum(-1, keepdims=True)) + peak_T1
        return logits_TV - total_T1

    return read


def trained_of(
    model: Transformer, vocabulary: SubwordVocabulary, **data: str
) -> models.TrainedModel:
    """Returns the model as if it came from a run."""
    config = dataclasses.replace(CONFIG, data=dataclasses.replace(CONFIG.data, **data))
    task = task_for(config.data.target_language)
    return models.TrainedModel(model, vocabulary, config, Path("nowhere"), 123, task)
