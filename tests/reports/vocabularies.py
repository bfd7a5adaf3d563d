"""Vocabulary sizes that explain a published number of parameters."""

from typing import NamedTuple

from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.settings.config import ModelConfig


class Range(NamedTuple):
    """Vocabulary sizes from `low` up to `high`."""

    low: float
    high: float


def explaining_vocabularies(model: ModelConfig, millions: float) -> Range:
    """Returns the vocabulary sizes with which a model has so many parameters.

    Args:
        model: The model.
        millions: What was published, rounded to whole millions.
    """
    rest = parameter_count(model, 0)
    low, high = (
        ((millions + half) * 1e6 - rest) / model.d_model for half in (-0.5, 0.5)
    )
    return Range(low, high)
