"""All settings of a training run, and what their marks say of a change.

Every setting is also a flag of the same name. Its type, default, help, bounds and marks
are defined only in its section: `data_config`, `model_config`, `training_config` or
`decoding_config`. The defaults are the paper's base model and its training; `configs/`
has flagfiles for other runs.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.paths import absolute
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.setting import Setting, Settings, marked, settings_of
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.settings.training_text import make_names_absolute


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """All settings of a training run."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)

    def __post_init__(self) -> None:
        if bool(self.data.train_alignments) != bool(self.training.guided_alignment):
            raise UserError(
                "--guided_alignment and --train_alignments belong together: the weight "
                "of a loss, and the word alignments of the training text. Give both, "
                "or for neither --guided_alignment=0 --train_alignments=. Received: "
                f"--guided_alignment={self.training.guided_alignment} "
                f"--train_alignments={','.join(self.data.train_alignments)}"
            )
        if self.training.tokenize and self.data.target_language == "tree":
            raise UserError(
                "--tokenize is for BLEU, and a parser is scored by its brackets. Leave "
                f"it out. Received: --tokenize={self.training.tokenize} "
                "--target_language=tree"
            )
        positions, first = self.model.max_positions, self.model.first_position
        if positions is not None and positions < self.data.max_length:
            needed = "--max_length plus --first_position" if first else "--max_length"
            raise UserError(
                f"--learned_positions must be at least {needed}, or long sentences "
                f"have no position. Received: {self.model.learned_positions} and "
                f"{self.data.max_length}{f' plus {first}' if first else ''}"
            )
        max_tokens = self.training.max_tokens_per_replica
        if max_tokens is not None and max_tokens < self.data.max_length:
            raise UserError(
                "--max_tokens_per_replica must be at least --max_length: a sentence "
                f"pair is not divided. Received: {max_tokens} and "
                f"{self.data.max_length}"
            )


def sections() -> dict[str, type[Settings]]:
    """Returns the section classes of `ExperimentConfig` by field name, in order."""
    hints = get_type_hints(ExperimentConfig)
    return {f.name: hints[f.name] for f in dataclasses.fields(ExperimentConfig)}


def all_settings() -> dict[str, Setting]:
    """Returns every setting by name; names are unique over all sections."""
    return {
        name: each
        for section in sections().values()
        for name, each in settings_of(section).items()
    }


def flatten(config: ExperimentConfig) -> dict[str, Any]:
    """Returns the value of every setting by name."""
    return {
        name: getattr(getattr(config, section), name)
        for section, cls in sections().items()
        for name in settings_of(cls)
    }


def unflatten(values: Mapping[str, Any]) -> ExperimentConfig:
    """Returns the configuration with these values; defaults for others.

    Raises:
        UserError: If there is no such setting, or a value is not legal.
    """
    names = list(all_settings())
    for name in values:
        if name not in names:
            raise UserError(
                f"There is no setting {name!r}.{did_you_mean(name, names)} "
                "python -m t2t_keras.train --help lists all settings."
            )
    parts: dict[str, Any] = {
        section: cls(
            **{name: values[name] for name in settings_of(cls) & values.keys()}
        )
        for section, cls in sections().items()
    }
    return ExperimentConfig(**parts)


def differences(old: ExperimentConfig, new: ExperimentConfig) -> dict[str, Any]:
    """Returns (old, new) of changed settings that determine what an update computes."""
    before, after = flatten(old), flatten(new)
    changeable = {name for name, each in all_settings().items() if each.resume}
    if new.training.falls_to_last_step:
        by_epochs = new.training.train_epochs is not None
        changeable -= {"train_epochs" if by_epochs else "train_steps"}
    return {
        name: (before[name], after[name])
        for name in before
        if before[name] != after[name] and name not in changeable
    }


def settings_of_workers(config: ExperimentConfig) -> dict[str, Any]:
    """Returns the values that must be the same on all workers of a run."""
    return {
        name: value
        for name, value in flatten(config).items()
        for each in [all_settings()[name]]
        if each.same_on_workers or not each.resume
    }


def record_settings(config: DataConfig) -> dict[str, Any]:
    """Returns the settings that a manifest of records contains, as JSON values."""
    values = {name: getattr(config, name) for name in marked(DataConfig, "record")}
    if config.train_source:
        values["dataset"] = None  # --train_source overrides it
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def make_paths_absolute(config: ExperimentConfig) -> ExperimentConfig:
    """Returns the settings with absolute paths of all files."""
    paths = dict(_absolute_paths(config))
    paths["mixture"] = tuple(map(make_names_absolute, config.data.mixture))
    return unflatten({**flatten(config), **paths})


def _absolute_paths(config: ExperimentConfig) -> Iterator[tuple[str, Any]]:
    values = flatten(config)
    for name, each in all_settings().items():
        value = values[name]
        if not each.path or value is None:
            continue
        if isinstance(value, tuple):
            yield name, tuple(map(absolute, value))
        else:
            yield name, absolute(value)
