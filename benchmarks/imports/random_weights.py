"""Models with random weights and other architectures, for exports of them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_keras.runs import models
from t2t_keras.runs.models import TrainedModel


def with_random_weights(
    trained: TrainedModel, options: Mapping[str, Any]
) -> TrainedModel:
    """Returns a small model with the vocabulary of another one, far from a fresh one.

    Args:
        trained: The other model.
        options: Settings of the model.
    """
    sizes = {"num_layers": 2, "d_model": 48, "d_ff": 80, "num_heads": 4}
    sizes |= {"encoder_layers": 3, "decoder_layers": 2, "d_k": None, "d_v": None}
    model = dataclasses.replace(trained.config.model, **{**sizes, **options})
    config = dataclasses.replace(trained.config, model=model)
    start = models.find_decoder_start(model, trained.vocabulary)
    built = models.build_model(config, trained.vocabulary.size, start)
    rng = np.random.default_rng(6)
    for weight in built.weights:
        noise = rng.normal(scale=0.3, size=weight.shape)
        weight.assign(weight + noise)
    return dataclasses.replace(trained, model=built, config=config)
