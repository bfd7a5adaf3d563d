"""The settings of an experiment as one flat mapping from name to value, and back."""

import dataclasses
import os
from typing import Any, get_args, get_type_hints

from t2t_keras.settings.config import RESUMABLE, ExperimentConfig
from t2t_keras.settings.mixture import with_absolute_names


def sections() -> dict[str, type]:
    """Returns the section classes of an experiment by field name, in order."""
    hints = get_type_hints(ExperimentConfig)
    return {f.name: hints[f.name] for f in dataclasses.fields(ExperimentConfig)}


def value_type(section: type, name: str) -> type:
    """Returns a field's type without `None`: str, int, float, bool or tuple."""
    hint = get_type_hints(section)[name]
    for candidate in get_args(hint) or (hint,):
        if candidate in (str, int, float, bool):
            return tuple if Ellipsis in get_args(hint) else candidate
    raise TypeError(f"{section.__name__}.{name} has no type a flag can have: {hint}")


def flat(config: ExperimentConfig) -> dict[str, Any]:
    """Returns every setting by name; names are unique over all sections."""
    return {
        field.name: getattr(getattr(config, section), field.name)
        for section in sections()
        for field in dataclasses.fields(getattr(config, section))
    }


def unflat(values: dict[str, Any]) -> ExperimentConfig:
    """Returns the configuration that `flat` returned the values of."""
    parts = {}
    for section, cls in sections().items():
        names = [field.name for field in dataclasses.fields(cls)]
        parts[section] = cls(**{name: values[name] for name in names})
    return ExperimentConfig(**parts)


def differences(old: ExperimentConfig, new: ExperimentConfig) -> dict[str, Any]:
    """Returns (old, new) values of settings that decide what an update computes."""
    before, after = flat(old), flat(new)
    return {
        name: (before[name], after[name])
        for name in before
        if before[name] != after[name] and name not in RESUMABLE
    }


def with_absolute_paths(config: ExperimentConfig) -> ExperimentConfig:
    """Returns the same settings, meaning the same files from any directory."""
    paths: dict[str, Any] = {
        name: tuple(os.path.abspath(path) for path in value)
        for name, value in flat(config).items()
        if name.endswith(("_source", "_target"))
    }
    paths["mixture"] = tuple(map(with_absolute_names, config.data.mixture))
    for name in ("data_dir", "vocabulary_file", "records"):
        value = flat(config)[name]
        if value and "://" not in value:  # TFDS reads buckets too
            paths[name] = os.path.abspath(os.path.expanduser(value))
    return unflat({**flat(config), **paths})
