"""Replications: runs with the settings of the paper's own experiments.

A run is one only if it is finished and scored, with the paper's corpus, model,
training and search. Batching, compilation and precision do not matter.
"""

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from t2t_keras.reports.run_summary import RunSummary
from t2t_keras.settings.config import ExperimentConfig, all_settings, flatten
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import BIG, ModelConfig
from t2t_keras.settings.training_config import TrainingConfig

_WMT14 = "wmt14_translate/"
# Tolerance of "about 37000 tokens", 32000 word pieces, 16K and 32K tokens.
_ABOUT = 0.15

# Sections of the Wall Street Journal, which are folders, and sentences of section 23.
_SECTIONS = tuple(f"{number:02}" for number in range(25))
_TRAINING_SECTIONS = _SECTIONS[2:22]
_TEST_SECTIONS = _SECTIONS[23:24]
_TEST_SENTENCES = 2416


def wmt_target_language(run: RunSummary) -> str | None:
    """Returns the target language of a run on WMT14 from English: de, fr or None."""
    data = run.config.data
    own_text = data.train_source or data.test_source
    if _WMT14 not in run.corpus or own_text or data.source_language != "en":
        return None
    return data.target_language if data.target_language in ("de", "fr") else None


def is_papers_translator(run: RunSummary, model: ModelConfig, language: str) -> bool:
    """Returns whether a run is that of a model of Table 2, into de or fr."""
    expected = _translator(model, language)
    averaged = run.card.get("averaged", {}).get("steps", [])
    return (
        wmt_target_language(run) == language
        and not run.config.data.mixture
        and not run.config.data.filter
        and _compared_settings(run.config) == _compared_settings(expected)
        and _is_about(run.vocabulary_size, expected.data.vocabulary_size)
        and len(averaged) == expected.training.average_checkpoints
        and _is_scored(run, run.test_scores("bleu"), expected.decoding)
    )


def is_papers_parser(run: RunSummary, *, semi_supervised: bool) -> bool:
    """Returns whether a run is that of a row of Table 4, with or without further trees.

    The paper gives neither the rates nor the number of steps.
    """
    data, model = run.config.data, run.config.model
    scores = run.test_scores("f1")
    return (
        run.is_parser
        and _compared_model(model) == _compared_model(_parser(model))
        and bool(data.mixture) == semi_supervised
        and not data.filter
        and _is_about(run.vocabulary_size, 32_000 if semi_supervised else 16_000)
        and _sections(data.train_source) == _TRAINING_SECTIONS
        and _sections(data.test_source) == _TEST_SECTIONS
        and _is_scored(run, scores, DecodingConfig(21, 0.3, 300))
        and (scores or {}).get("sentences") == _TEST_SENTENCES
    )


def _parser(model: ModelConfig) -> ModelConfig:
    """Returns the parser of section 6.3, with a run's choices where it gives none."""
    return ModelConfig(
        num_layers=4,
        d_model=1024,
        d_ff=model.d_ff,
        num_heads=model.num_heads,
        d_k=model.d_k,
        d_v=model.d_v,
        dropout_rate=model.dropout_rate,
        attention_dropout_rate=model.attention_dropout_rate,
        learned_positions=model.learned_positions,
        encoder_neighborhood=model.encoder_neighborhood,
    )


def _translator(model: ModelConfig, language: str) -> ExperimentConfig:
    """Returns the settings of sections 5 and 6.1; defaults for the rest."""
    big = model == BIG
    if big and language == "fr":
        model = dataclasses.replace(model, dropout_rate=0.1)
    return ExperimentConfig(
        DataConfig(vocabulary_size=32_000 if language == "fr" else 37_000),
        model,
        TrainingConfig(
            train_steps=300_000 if big else 100_000,
            average_checkpoints=20 if big else 5,
        ),
    )


def _compared_settings(config: ExperimentConfig) -> list[Any]:
    """Returns the settings that are equal in two runs of the same experiment.

    Of the model they are all; of data, training and search those marked `paper`.
    """
    values = flatten(config)
    names = (name for name, each in all_settings().items() if each.paper)
    return [_compared_model(config.model), *(values[name] for name in names)]


def _compared_model(model: ModelConfig) -> ModelConfig:
    """Returns a model's settings with values for those that follow from others."""
    per_head = model.d_model // model.num_heads
    return dataclasses.replace(
        model,
        d_k=model.d_k or per_head,
        d_v=model.d_v or per_head,
        num_layers=1,  # without effect where the next two are given
        encoder_layers=model.encoder_layers or model.num_layers,
        decoder_layers=model.decoder_layers or model.num_layers,
    )


def _is_about(size: int | None, expected: int) -> bool:
    return size is not None and abs(size / expected - 1) <= _ABOUT


def _is_scored(
    run: RunSummary, scores: Mapping[str, Any] | None, search: DecodingConfig
) -> bool:
    """Returns whether a run's last weights are scored, with a search."""
    return (
        run.finished
        and scores is not None
        and scores["step"] == run.config.training.train_steps
        and scores.get("decoding") == search.as_dict()
    )


def _sections(patterns: Sequence[str]) -> tuple[str, ...]:
    """Returns the sections of files, by the names of their folders."""
    folders = [PurePath(pattern).parent.name for pattern in patterns]
    if not all(any(fnmatch.filter(_SECTIONS, folder)) for folder in folders):
        return ()  # some are no sections
    return tuple(
        section
        for section in _SECTIONS
        if any(fnmatch.fnmatch(section, folder) for folder in folders)
    )
