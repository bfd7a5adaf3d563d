"""Vocabulary sizes that explain a published number of parameters."""

from typing import NamedTuple

from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.settings.model_config import ModelConfig


class Range(NamedTuple):
    """Vocabulary sizes from `low` up to `high`."""

    low: float
    high: float


def find_vocabulary_sizes(model: ModelConfig, millions: float) -> Range:
    """Returns the vocabulary sizes with which a model has `millions` of parameters.

    Args:
        model: Settings of the model.
        millions: Published number of parameters, in millions, rounded.
    """
    rest = parameter_count(model, 0)
    low, high = (
        ((millions + half) * 1e6 - rest) / model.d_model for half in (-0.5, 0.5)
    )
    return Range(low, high)
