"""Conversion of settings to and from flat mappings, absl flags and flagfiles."""

import csv
import dataclasses
import io
import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from absl import flags

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.bundled import expand_flagfiles
from t2t_keras.files.paths import expand
from t2t_keras.settings.config import CHANGEABLE_ON_RESUME, DataConfig, ExperimentConfig
from t2t_keras.settings.training_text import make_names_absolute

# Settings that determine the ids of records. A fingerprint identifies the text itself.
_RECORD_SETTINGS = (
    "dataset",
    "train_source",
    "train_target",
    "mixture",
    "filter",
    "source_language",
    "target_language",
    "vocabulary_file",
    "vocabulary_size",
    "subwords",
    "user_symbols",
    "max_length",
)


def sections() -> dict[str, type]:
    """Returns the section classes of `ExperimentConfig` by field name, in order."""
    hints = get_type_hints(ExperimentConfig)
    return {f.name: hints[f.name] for f in dataclasses.fields(ExperimentConfig)}


def value_type(section: type, name: str) -> type:
    """Returns a field's type without `None`: str, int, float, bool or tuple."""
    hint = get_type_hints(section)[name]
    for candidate in get_args(hint) or (hint,):
        if candidate in (str, int, float, bool):
            return tuple if Ellipsis in get_args(hint) else candidate
    raise TypeError(f"{section.__name__}.{name} has no type for a flag: {hint}")


def flatten(config: ExperimentConfig) -> dict[str, Any]:
    """Returns every setting by name; names are unique over all sections."""
    return {
        field.name: getattr(getattr(config, section), field.name)
        for section in sections()
        for field in dataclasses.fields(getattr(config, section))
    }


def unflatten(values: dict[str, Any]) -> ExperimentConfig:
    """Returns the configuration with these values; the inverse of `flatten`."""
    parts = {}
    for section, cls in sections().items():
        names = [field.name for field in dataclasses.fields(cls)]
        parts[section] = cls(**{name: values[name] for name in names})
    return ExperimentConfig(**parts)


def differences(old: ExperimentConfig, new: ExperimentConfig) -> dict[str, Any]:
    """Returns (old, new) of changed settings that determine what an update computes."""
    before, after = flatten(old), flatten(new)
    changeable = CHANGEABLE_ON_RESUME
    if new.training.schedule == "linear":
        # The rate of every update depends on the last step.
        by_epochs = new.training.train_epochs is not None
        changeable -= {"train_epochs" if by_epochs else "train_steps"}
    return {
        name: (before[name], after[name])
        for name in before
        if before[name] != after[name] and name not in changeable
    }


def record_settings(config: DataConfig) -> dict[str, Any]:
    """Returns the settings that a manifest of records contains, as JSON values."""
    values = {name: getattr(config, name) for name in _RECORD_SETTINGS}
    if config.train_source:
        values["dataset"] = None  # --train_source overrides it
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def make_paths_absolute(config: ExperimentConfig) -> ExperimentConfig:
    """Returns the settings with absolute paths of all files."""
    paths: dict[str, Any] = {
        name: tuple(os.path.abspath(expand(path)) for path in value)
        for name, value in flatten(config).items()
        if name.endswith(("_source", "_target", "_alignments"))
    }
    paths["mixture"] = tuple(map(make_names_absolute, config.data.mixture))
    names = ("data_dir", "vocabulary_file", "records", "init_from", "rejected")
    for name in names:
        value = flatten(config)[name]
        if value and "://" not in value:  # TFDS also reads from cloud storage
            paths[name] = os.path.abspath(expand(value))
    return unflatten({**flatten(config), **paths})


def define_config_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines a flag for every setting."""
    for section in sections().values():
        for field in dataclasses.fields(section):
            _define(section, field, flag_values)


def accept_model_dir(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines --model_dir for a program that ignores it, hidden from its --help.

    Flagfiles for training may set it.
    """
    about = "Ignored; defined because flagfiles for training may set it."
    flags.DEFINE_string("model_dir", None, about, flag_values=flag_values)


def _define(
    section: type, field: dataclasses.Field, flag_values: flags.FlagValues
) -> None:
    kind = value_type(section, field.name)
    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
        tuple: flags.DEFINE_list,
    }[kind]
    default: Any = field.default
    bounds: dict[str, Any] = {}
    if kind in (int, float):
        bounds["lower_bound"] = field.metadata["low"]
        bounds["upper_bound"] = field.metadata["high"]
    define(
        field.name, default, field.metadata["about"], flag_values=flag_values, **bounds
    )
    if default is None:
        flag = flag_values[field.name]
        flag.parser = _OrNothing(flag.parser)


class _OrNothing(flags.ArgumentParser):
    """Parser of a flag without a default: `--name=` unsets what came before."""

    def __init__(self, parser: flags.ArgumentParser):
        self._parser = parser

    def parse(self, argument: Any) -> Any:
        return None if argument == "" else self._parser.parse(argument)

    def flag_type(self) -> str:
        return self._parser.flag_type()


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ExperimentConfig:
    """Returns the configuration with the values of the flags.

    Raises:
        UserError: If a value is not one of a setting's choices, or not finite.
    """
    check_settings_flags(flag_values)
    values: dict[str, Any] = {}
    for section in sections().values():
        for field in dataclasses.fields(section):
            value = flag_values[field.name].value
            if value_type(section, field.name) is tuple:
                value = tuple(value or ())
            values[field.name] = value
    return unflatten(values)


def check_settings_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Raises `UserError` if a setting has an invalid value.

    Checks each setting by itself; `config_from_flags` also checks combinations.
    """
    for section in sections().values():
        for field in dataclasses.fields(section):
            _check_value(field, flag_values[field.name].value)


def _check_value(field: dataclasses.Field, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):  # absl lets it pass
        raise UserError(f"--{field.name} must be a number. Received: {value}")
    text = "".join(value) if isinstance(value, list) else str(value)
    if text.encode(errors="ignore").decode() != text:
        raise UserError(
            f"--{field.name} must be UTF-8, as flagfiles are. Received: {text!a}. "
            "Rename the file."
        )
    choices = field.metadata["choices"]
    if choices and value is not None and value not in choices:
        choices = [str(choice) for choice in field.metadata["choices"]]
        hint = did_you_mean(str(value), choices)
        raise UserError(
            f"--{field.name} must be one of {', '.join(choices)}. "
            f"Received: {value}.{hint}"
        )


def find_run(path: str | os.PathLike[str]) -> Path | None:
    """Returns the model directory that a path names; None if it names none.

    Args:
        path: A model directory, or the folder of a checkpoint in one.
    """
    path = expand(path)
    folders = (path, path.resolve().parent.parent)
    return next((each for each in folders if (each / "train.flags").is_file()), None)


def config_from_flagfile(path: str | Path) -> ExperimentConfig:
    """Returns the configuration in a flagfile, with defaults for other settings.

    Raises:
        UserError: If the file is missing, or a line is not a valid setting.
    """
    return config_from_arguments([f"--flagfile={path}"], source=str(path))


def config_from_arguments(arguments: Sequence[str], source: str) -> ExperimentConfig:
    """Returns the configuration in arguments, with defaults for other settings.

    Args:
        arguments: Arguments of `train`: settings, --model_dir, --flagfile.
        source: Origin of the arguments, for the message.

    Raises:
        UserError: If an argument is not a valid setting.
    """
    flag_values = flags.FlagValues()
    accept_model_dir(flag_values)
    define_config_flags(flag_values)
    try:
        flag_values(["arguments", *expand_flagfiles(arguments)])
    except (flags.Error, ValueError) as error:  # ValueError: --nojit_compile=1
        raise UserError(f"{source}: {error}") from error
    return config_from_flags(flag_values)


def read_settings(
    flagfile: str | Path | None = None, **changes: Any
) -> ExperimentConfig:
    """Returns the settings of a flagfile, or the paper's base model, with changes.

    Args:
        flagfile: A file, or one that is installed with the package, such as
            "configs/tiny.flags". Default: the defaults of `train --help`.
        **changes: Settings by name of their flag, such as `train_steps=1000`. A list of
            files may be any sequence, and numbers may be NumPy's.

    Raises:
        UserError: If the file is missing, or a setting is unknown or invalid.

    >>> read_settings("configs/big.flags", warmup_steps=8000).training.warmup_steps
    8000
    """
    defaults = flatten(ExperimentConfig())
    for name, value in changes.items():
        if name not in defaults:
            raise UserError(
                f"There is no setting {name!r}.{did_you_mean(name, list(defaults))} "
                "python -m t2t_keras.train --help lists all settings."
            )
        if value is None and defaults[name] is not None:
            raise UserError(f"--{name} must have a value. Received: None")
    values = {name: _plain_value(name, value) for name, value in changes.items()}
    unset = {name: value for name, value in values.items() if value in (None, ())}
    arguments = [] if flagfile is None else [f"--flagfile={flagfile}"]
    for name in values.keys() - unset.keys():
        arguments += _flag_lines(name, values[name])
    # An empty list is a flag as well: settings are checked together.
    arguments += [f"--{name}=" for name, value in unset.items() if value == ()]
    config = config_from_arguments(arguments, source="settings")
    return unflatten({**flatten(config), **unset})


def _plain_value(name: str, value: Any) -> Any:
    """Returns a setting's value as Python's own type, a tuple for a list.

    Python callers have lists, paths, and NumPy's numbers and arrays.
    """
    kind = next(
        value_type(section, name)
        for section in sections().values()
        if name in {field.name for field in dataclasses.fields(section)}
    )
    if hasattr(value, "tolist"):  # a number or an array of NumPy
        value = value.tolist()
    if kind is tuple and isinstance(value, os.PathLike):
        return (os.fspath(value),)  # a name may contain a comma
    if kind is tuple and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(map(str, value))
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e5
    return value


def explicit_settings(flag_values: flags.FlagValues = flags.FLAGS) -> list[str]:
    """Returns the settings that the user set, as arguments, without defaults."""
    names = [f.name for cls in sections().values() for f in dataclasses.fields(cls)]
    return [
        flag_values[name].serialize() or f"--{name}="
        for name in names
        if flag_values[name].present
    ]


def flagfile_text(config: ExperimentConfig, comment: str) -> str:
    """Returns a flagfile with every setting, in sections.

    Args:
        config: The settings.
        comment: Comment at the top, without "# ".
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for section_name in sections():
        section = getattr(config, section_name)
        lines += ["", f"# {(type(section).__doc__ or '').splitlines()[0]}"]
        for field in dataclasses.fields(section):
            lines += _flag_lines(field.name, getattr(section, field.name))
    return "\n".join(lines) + "\n"


def _flag_lines(name: str, value: Any) -> list[str]:
    if value is None or value == ():
        return [f"# --{name} is not set"]
    if isinstance(value, bool):
        return [f"--{name}={str(value).lower()}"]
    for part in value if isinstance(value, tuple) else (value,):
        _check_writable(name, str(part))
    if isinstance(value, tuple):
        return [f"--{name}={_comma_separated(value)}"]
    return [f"--{name}={value}"]


def _check_writable(name: str, text: str) -> None:
    """Raises `UserError` if the text would not be read back unchanged."""
    if text != text.strip() or "\n" in text or "\r" in text:
        raise UserError(
            f"--{name} cannot be written to the run's flagfile: {text!r} begins or "
            "ends with a space, or contains a line break. Rename the file."
        )


def _comma_separated(values: Sequence[str]) -> str:
    """Returns a line of CSV, the format of absl's list flags."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def remove_flag(name: str, arguments: Sequence[str]) -> list[str]:
    """Returns the arguments without --name=value or --name value."""
    others, skips_next = [], False
    for argument in arguments:
        if skips_next:
            skips_next = False
        elif argument.lstrip("-") == name:
            skips_next = True
        elif not argument.lstrip("-").startswith(f"{name}="):
            others.append(argument)
    return others


def help_text(
    usage: str, flag_values: flags.FlagValues, own: Sequence[str], with_config: bool
) -> str:
    """Returns the help of a program: its usage, its own flags, then the settings.

    Args:
        usage: The program's docstring, with examples.
        flag_values: Values with definitions of the flags.
        own: Names of the program's own flags.
        with_config: Whether to list the settings of an experiment too.
    """
    lines = [usage.strip(), "", "Flags of this program", ""]
    for name in own:
        lines += _describe_flag(name, flag_values)
    if with_config:
        for section in sections().values():
            lines += ["", (section.__doc__ or "").splitlines()[0], ""]
            for field in dataclasses.fields(section):
                lines += _describe_flag(field.name, flag_values)
    lines += ["", "--flagfile=FILE reads flags from a file; --helpfull lists all."]
    return "\n".join(lines)


def _describe_flag(name: str, flag_values: flags.FlagValues) -> list[str]:
    flag = flag_values[name]
    default = flag.default
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, list):
        default = ",".join(default)
    shown = "" if default in (None, "") else f" [{default}]"
    # absl adds its own lines to the help of a repeatable flag.
    about = textwrap.wrap(" ".join((flag.help or "").split()), 70)
    return [f"  --{name}{shown}", *(f"      {line}" for line in about)]
