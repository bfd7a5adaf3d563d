"""Settings as one mapping of names to values, as absl flags, and as flagfiles."""

import csv
import dataclasses
import io
import math
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from absl import flags

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.bundled import with_flagfiles
from t2t_keras.settings.config import RESUMABLE, DataConfig, ExperimentConfig
from t2t_keras.settings.mixture import with_absolute_names

# Settings that decide the ids of records. A fingerprint identifies the text itself.
_RECORD_SETTINGS = (
    "dataset",
    "train_source",
    "train_target",
    "mixture",
    "source_language",
    "target_language",
    "vocabulary_file",
    "vocabulary_size",
    "subwords",
    "max_length",
)


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


def record_settings(config: DataConfig) -> dict[str, Any]:
    """Returns the settings that a manifest of records keeps, as JSON restores them."""
    values = {name: getattr(config, name) for name in _RECORD_SETTINGS}
    if config.train_source:
        values["dataset"] = None  # the user's files take its place
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
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


def define_config_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines a flag for every setting."""
    for section in sections().values():
        for field in dataclasses.fields(section):
            _define(section, field, flag_values)


def accept_model_dir(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines --model_dir for a program that ignores it, out of its --help.

    Flagfiles for training name one.
    """
    about = "Ignored: flagfiles for training name it."
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


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ExperimentConfig:
    """Returns the configuration that the flags spell.

    Raises:
        UserError: If a value is not one of a setting's choices, or not a number.
    """
    check_settings_flags(flag_values)
    values: dict[str, Any] = {}
    for section in sections().values():
        for field in dataclasses.fields(section):
            value = flag_values[field.name].value
            if value_type(section, field.name) is tuple:
                value = tuple(value or ())
            values[field.name] = value
    return unflat(values)


def check_settings_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Raises `UserError` if a setting has a value that it cannot have.

    Each is looked at by itself; `config_from_flags` also sees what does not go
    together.
    """
    for section in sections().values():
        for field in dataclasses.fields(section):
            _check_value(field, flag_values[field.name].value)


def _check_value(field: dataclasses.Field, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):  # absl lets it pass
        raise UserError(f"--{field.name} must be a number. Received: {value}")
    choices = field.metadata["choices"]
    if choices and value is not None and value not in choices:
        choices = [str(choice) for choice in field.metadata["choices"]]
        hint = did_you_mean(str(value), choices)
        raise UserError(
            f"--{field.name} must be one of {', '.join(choices)}. "
            f"Received: {value}.{hint}"
        )


def config_from_flagfile(path: str | Path) -> ExperimentConfig:
    """Returns the configuration that a flagfile spells, with defaults for the rest.

    Raises:
        UserError: If the file is missing, or holds something that is no setting.
    """
    return config_from_arguments([f"--flagfile={path}"], of=str(path))


def config_from_arguments(arguments: Sequence[str], of: str) -> ExperimentConfig:
    """Returns the configuration that arguments spell, with defaults for the rest.

    Args:
        arguments: As of `train`: settings, --model_dir, --flagfile.
        of: Where they come from, for the message.

    Raises:
        UserError: If one of them is no setting, or has a value it cannot have.
    """
    flag_values = flags.FlagValues()
    accept_model_dir(flag_values)
    define_config_flags(flag_values)
    try:
        flag_values(["arguments", *with_flagfiles(arguments)])
    except (flags.Error, ValueError) as error:  # ValueError: --nojit_compile=1
        raise UserError(f"{of}: {error}") from error
    return config_from_flags(flag_values)


def read_settings(
    flagfile: str | Path | None = None, **changes: Any
) -> ExperimentConfig:
    """Returns the settings of a flagfile, or the paper's base model, with changes.

    Args:
        flagfile: A file, or one that is installed with the package, such as
            "configs/tiny.flags". Default: the defaults of `train --help`.
        **changes: Settings by the name of their flag, such as `train_steps=1000`.

    Raises:
        UserError: If the file is missing, or a setting is unknown or has a value that
            it cannot have.

    >>> read_settings("configs/big.flags", warmup_steps=8000).training.warmup_steps
    8000
    """
    defaults = flat(ExperimentConfig())
    for name, value in changes.items():
        if name not in defaults:
            raise UserError(
                f"There is no setting {name!r}.{did_you_mean(name, list(defaults))} "
                "python -m t2t_keras.train --help lists all."
            )
        if value is None and defaults[name] is not None:
            raise UserError(f"--{name} must have a value. Received: None")
    arguments = [] if flagfile is None else [f"--flagfile={flagfile}"]
    for name, value in changes.items():
        if value not in (None, ()):
            arguments += _flag_lines(name, value)
    config = config_from_arguments(arguments, of="settings")
    unset = {name: value for name, value in changes.items() if value in (None, ())}
    return unflat({**flat(config), **unset})


def given_settings(flag_values: flags.FlagValues = flags.FLAGS) -> list[str]:
    """Returns the settings that were given, as arguments; defaults are not."""
    names = [f.name for cls in sections().values() for f in dataclasses.fields(cls)]
    return [
        flag_values[name].serialize()
        for name in names
        if flag_values[name].present and flag_values[name].value is not None
    ]


def flagfile_text(config: ExperimentConfig, comment: str) -> str:
    """Returns a flagfile that spells every setting, in sections.

    Args:
        config: What to write.
        comment: Lines for the top; "# " is put before each.
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
    """Raises `UserError` if a flagfile would not give the text back."""
    if text != text.strip() or "\n" in text or "\r" in text:
        raise UserError(
            f"--{name} cannot be kept in the run's flagfile: {text!r} begins or ends "
            "with a space, or holds a line break. Rename the file."
        )


def _comma_separated(values: Sequence[str]) -> str:
    """Returns what absl's list flags read back: a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def without_flag(name: str, arguments: Sequence[str]) -> list[str]:
    """Returns arguments less a flag, given as --name=value or --name value."""
    kept, skips = [], False
    for argument in arguments:
        if skips:
            skips = False
        elif argument.lstrip("-") == name:
            skips = True
        elif not argument.lstrip("-").startswith(f"{name}="):
            kept.append(argument)
    return kept


def help_text(
    usage: str, flag_values: flags.FlagValues, own: Sequence[str], sections_used: bool
) -> str:
    """Returns the help of a program: its usage, its own flags, then the settings.

    Args:
        usage: The program's docstring: what it does, with examples.
        flag_values: Where its flags are defined.
        own: Names of the flags that belong to the program alone.
        sections_used: Whether to list the settings of an experiment too.
    """
    lines = [usage.strip(), "", "Flags of this program", ""]
    for name in own:
        lines += _described(name, flag_values)
    if sections_used:
        for section in sections().values():
            lines += ["", (section.__doc__ or "").splitlines()[0], ""]
            for field in dataclasses.fields(section):
                lines += _described(field.name, flag_values)
    lines += ["", "--flagfile=FILE reads flags from a file; --helpfull lists all."]
    return "\n".join(lines)


def _described(name: str, flag_values: flags.FlagValues) -> list[str]:
    flag = flag_values[name]
    default = flag.default
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, list):
        default = ",".join(default)
    shown = "" if default in (None, "") else f" [{default}]"
    # absl adds lines of its own to the help of a flag that may be repeated.
    about = textwrap.wrap(" ".join((flag.help or "").split()), 70)
    return [f"  --{name}{shown}", *(f"      {line}" for line in about)]
