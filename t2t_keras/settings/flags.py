"""Settings as absl flags and as flagfiles."""

import csv
import dataclasses
import io
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.bundled import expand_flagfiles
from t2t_keras.files.paths import expand
from t2t_keras.settings.config import (
    ExperimentConfig,
    all_settings,
    sections,
    unflatten,
)
from t2t_keras.settings.setting import (
    Setting,
    Settings,
    ValueType,
    default_values,
    flag_name,
    settings_of,
    value_types,
)

# Flags belong to the program that defines them by calling a function here.
flags.disclaim_key_flags()

_SettingsT = TypeVar("_SettingsT", bound=Settings)


class OptionalParser(flags.ArgumentParser):
    """Parser of a flag without a default: `--name=` unsets what came before."""

    def __init__(self, parser: flags.ArgumentParser):
        self._parser = parser

    def parse(self, argument: Any) -> Any:
        return None if argument == "" else self._parser.parse(argument)

    def flag_type(self) -> str:
        return self._parser.flag_type()


class SwitchParser(flags.BooleanParser):
    """Parser of a flag that is on or off, with a message that says so."""

    def parse(self, argument: Any) -> bool:
        try:
            return super().parse(argument)
        except (TypeError, ValueError) as error:
            raise ValueError("value should be true or false") from error


@dataclasses.dataclass(frozen=True)
class DefinedFlags(Generic[_SettingsT]):
    """The flags of a settings class, a flag for each of its settings.

    Attributes:
        cls: The class.
        flag_values: Where they are defined.
        without: Settings that have no flag.
    """

    cls: type[_SettingsT]
    flag_values: flags.FlagValues
    without: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """Returns the value of each flag by name, unchecked."""
        return {
            name: self.flag_values[flag_name(name)].value
            for name in settings_of(self.cls)
            if name not in self.without
        }

    def given(self) -> dict[str, Any]:
        """Returns the values that are not the default by name, unchecked."""
        return {
            name: value
            for name, value in self.values().items()
            if value != self.flag_values[flag_name(name)].default
        }

    def read(self, **others: Any) -> _SettingsT:
        """Returns the settings.

        Args:
            **others: Fields of the class that are no settings.

        Raises:
            UserError: If a value is not legal, or settings contradict each other.
        """
        return self.cls(**_with_lists(self.cls, self.values()), **others)


def _with_lists(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of flags, () for a list without a value."""
    kinds = value_types(cls)
    return {
        name: tuple(value or ()) if kinds[name].is_tuple else value
        for name, value in values.items()
    }


def define_flags(
    cls: type[_SettingsT],
    *,
    default_note: str | None = None,
    about: Mapping[str, str] = MappingProxyType({}),
    uses: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    without: Sequence[str] = (),
    hidden: bool = False,
    flag_values: flags.FlagValues = flags.FLAGS,
) -> DefinedFlags[_SettingsT]:
    """Defines a flag for each setting of a class, with its type, default and help.

    Values are checked when the settings are made from them.

    Args:
        cls: The class.
        default_note: Where values come from that no flag gives: then no flag has a
            default, and each help text ends in "Default: {default_note}."
        about: Help texts in place of those of the settings, by name.
        uses: In place of `Setting.uses` that are empty, by name; "" for all others.
        without: Settings that get no flag, and keep their defaults.
        hidden: Whether the help of the program does not list them.
        flag_values: Where to define them.
    """
    for name, described in settings_of(cls).items():
        if name in without:
            continue
        text = about.get(name, described.about)
        default = default_values(cls)[name]
        if default_note is not None:
            default, text = None, f"{text} Default: {default_note}."
        described = dataclasses.replace(
            described,
            about=text,
            uses=described.uses or uses.get(name, uses.get("", ())),
        )
        kind = value_types(cls)[name]
        _define_flag(flag_name(name), kind, described, default, flag_values, hidden)
    return DefinedFlags(cls, flag_values, tuple(without))


def _define_flag(
    name: str,
    kind: ValueType,
    described: Setting,
    default: Any,
    flag_values: flags.FlagValues,
    hidden: bool,
) -> None:
    define: Callable[..., object] = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }[kind.base]
    about = described.about
    if kind.is_tuple:
        define = flags.DEFINE_list
        default = None if default is None else list(default)
    if described.repeated:
        define = flags.DEFINE_multi_string
        # absl adds "; repeat this option to specify a list of values".
        about = about.removesuffix(".")
    define(
        name,
        default,
        about,
        flag_values=flag_values,
        module_name=__name__ if hidden else None,
    )
    flag = flag_values[name]
    flag.setting = described
    if kind.base is bool and not kind.is_tuple:
        flag.parser = SwitchParser()
    if default is None:
        flag.parser = OptionalParser(flag.parser)


def setting_of_flag(flag: flags.Flag) -> Setting | None:
    """Returns the setting of a flag that `define_flags` has defined, or None."""
    return getattr(flag, "setting", None)


def check_use(groups: Sequence[DefinedFlags[Any]], use: str, reason: str) -> None:
    """Raises `UserError` if a flag is given that is for other uses of a program.

    Args:
        groups: The flags of the program.
        use: What it is used for now; see `Setting.uses`.
        reason: The message after the name of the flag.
    """
    for group in groups:
        for name in group.given():
            uses = group.flag_values[flag_name(name)].setting.uses
            if uses and use not in uses:
                raise UserError(f"--{name} {reason}")


def read_if(
    is_chosen: bool, group: DefinedFlags[_SettingsT], flag: str
) -> _SettingsT | None:
    """Returns settings that have a meaning with another flag only; None without it.

    Raises:
        UserError: If a value is not legal; or the flag is missing, and one is given.
    """
    if is_chosen:
        return group.read()
    for name in group.given():
        raise UserError(f"--{name} is for --{flag}. Add --{flag}, or leave it out.")
    return None


def define_config_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines a flag for every setting of an experiment."""
    for section in sections().values():
        define_flags(section, hidden=True, flag_values=flag_values)


def accept_model_dir(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines --model_dir for a program that ignores it, hidden from its --help.

    Flagfiles for training may set it.
    """
    about = "Ignored; defined because flagfiles for training may set it."
    flags.DEFINE_string(
        "model_dir", None, about, flag_values=flag_values, module_name=__name__
    )


def config_values(flag_values: flags.FlagValues = flags.FLAGS) -> dict[str, Any]:
    """Returns the value of the flag of every setting by name, unchecked."""
    return {
        name: value
        for section in sections().values()
        for name, value in _with_lists(
            section, DefinedFlags(section, flag_values).values()
        ).items()
    }


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ExperimentConfig:
    """Returns the configuration with the values of the flags.

    Raises:
        UserError: If a value is not legal, or settings contradict each other.
    """
    return unflatten(config_values(flag_values))


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


def config_from_arguments(
    arguments: Sequence[str], source: str, changes: Mapping[str, Any] | None = None
) -> ExperimentConfig:
    """Returns the configuration in arguments, with defaults for other settings.

    Args:
        arguments: Arguments of `train`: settings, --model_dir, --flagfile.
        source: Origin of the arguments, for the message.
        changes: Settings by name in place of those.

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
    return unflatten({**config_values(flag_values), **(changes or {})})


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
    arguments = [] if flagfile is None else [f"--flagfile={flagfile}"]
    return config_from_arguments(arguments, "settings", changes)


def explicit_settings(flag_values: flags.FlagValues = flags.FLAGS) -> list[str]:
    """Returns the settings that the user set, as arguments, without defaults."""
    return [
        flag_values[name].serialize() or f"--{name}="
        for name in all_settings()
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
        for name in settings_of(section):
            lines += flag_lines(name, getattr(section, name))
    return "\n".join(lines) + "\n"


def flag_lines(name: str, value: Any) -> list[str]:
    """Returns a setting as lines of a flagfile; a comment if it is not set."""
    if value is None or value == ():
        return [f"# --{name} is not set"]
    if isinstance(value, bool):
        return [f"--{name}={str(value).lower()}"]
    for part in value if isinstance(value, tuple) else (value,):
        _check_writable(name, str(part))
    if isinstance(value, tuple):
        return [f"--{name}={comma_separated(value)}"]
    return [f"--{name}={value}"]


def _check_writable(name: str, text: str) -> None:
    """Raises `UserError` if the text would not be read back unchanged."""
    if text != text.strip() or "\n" in text or "\r" in text:
        raise UserError(
            f"--{name} cannot be written to the run's flagfile: {text!r} begins or "
            "ends with a space, or contains a line break. Rename the file."
        )


def comma_separated(values: Sequence[str]) -> str:
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
            for name in settings_of(section):
                lines += _describe_flag(name, flag_values)
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
