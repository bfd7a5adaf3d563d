"""A setting: a field of a dataclass with a help text, legal values and marks.

Every options class of the programs is a frozen dataclass of such fields, below
`Settings`. Its flags (`define_flags`), their help, the checks of their values and what
the program does with them all follow from the fields.
"""

import contextlib
import csv
import dataclasses
import functools
import math
import os
import textwrap
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self, get_args, get_type_hints

from t2t_keras.errors import UserError, did_you_mean

_KEY = "setting"
_BOOLS = MappingProxyType({"true": True, "false": False})
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a setting is, beside its name, type and default.

    Attributes:
        about: Help text, with the unit.
        choices: Allowed values; empty for any.
        low: Minimum of a number.
        high: Maximum of a number.
        repeated: Whether its flag is repeated for several values, which may contain
            commas, instead of separating them by commas.
        path: Whether it names files or folders.
        model_folder: Whether TensorFlow reads a checkpoint or an export in that folder.
        resume: Whether it may change when a run resumes: it decides when to evaluate
            and when to stop, not what an update computes.
        same_on_workers: Whether all workers need the same value although it may change
            on resume: it determines their collective operations.
        record: Where records depend on it: "tokens", their ids; "vocabulary", their
            ids where the vocabulary was learned; "text", what they were made of, which
            a fingerprint identifies. None if they do not.
        batches_only: Whether it is of batches alone, which `prepare` does not make.
        reinterprets: Whether the same weights compute something else with another
            value, although their shapes stay.
        shared: Whether it gives text or ids a meaning that models must share to
            translate together.
        paper: Whether a run with another value is not the paper's experiment.
        recorded: Whether it is recorded with results even where it is the default.
        required: Whether it must have a value, which no default is.
        uses: Names of the uses of a program that it is for; empty for all.
    """

    about: str
    choices: tuple[str | int, ...] = ()
    low: float | None = None
    high: float | None = None
    repeated: bool = False
    path: bool = False
    model_folder: bool = False
    resume: bool = False
    same_on_workers: bool = False
    record: str | None = None
    batches_only: bool = False
    reinterprets: bool = False
    shared: bool = False
    paper: bool = False
    recorded: bool = False
    required: bool = False
    uses: tuple[str, ...] = ()


def setting(
    default: Any, about: str, choices: Iterable[str | int] = (), **marks: Any
) -> Any:
    """Returns a dataclass field with a default, a help text, legal values and marks.

    Args:
        default: Default value.
        about: As in `Setting`.
        choices: As in `Setting`.
        **marks: Other attributes of `Setting`.
    """
    described = Setting(about, tuple(choices), **marks)
    return dataclasses.field(default=default, metadata={_KEY: described})


def settings_of(cls: Any) -> Mapping[str, Setting]:
    """Returns the settings of a class, or of an instance, by name and in order."""
    return {
        field.name: field.metadata[_KEY]
        for field in dataclasses.fields(cls)
        if _KEY in field.metadata
    }


def marked(cls: Any, mark: str) -> tuple[str, ...]:
    """Returns the names of the settings of a class that have a mark."""
    return tuple(name for name, each in settings_of(cls).items() if getattr(each, mark))


def flag_name(name: str) -> str:
    """Returns the name of a setting's flag: `from_` has --from, a word of Python."""
    return name.removesuffix("_")


@dataclasses.dataclass(frozen=True)
class ValueType:
    """Type of a setting's values, other than None.

    Attributes:
        base: str, int, float or bool; of each item, if it is a tuple of any length.
        is_tuple: Whether it is one.
    """

    base: type
    is_tuple: bool


@functools.cache
def value_types(cls: type) -> Mapping[str, ValueType]:
    """Returns each setting's type by name.

    Raises:
        TypeError: If one has another type, which no flag has.
    """
    hints = get_type_hints(cls)
    return {name: _value_type(cls, name, hints[name]) for name in settings_of(cls)}


def _value_type(cls: type, name: str, hint: Any) -> ValueType:
    for candidate in get_args(hint) or (hint,):
        if candidate in _KINDS:
            return ValueType(candidate, Ellipsis in get_args(hint))
    raise TypeError(f"{cls.__name__}.{name} has no type for a flag: {hint}")


class Settings:
    """Base class of frozen dataclasses of settings, which are checked when made.

    Python callers may give lists, paths, and NumPy's numbers and arrays: values become
    Python's own, and lists tuples, as do texts with commas between.

    Raises:
        UserError: If a value has another type, is out of bounds or not a choice, or
            settings contradict each other.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        """Lists the settings in the docstring, for `help`."""
        own = {
            name: field.metadata[_KEY]
            for name, field in vars(cls).items()
            if isinstance(field, dataclasses.Field) and _KEY in field.metadata
        }
        inherited = settings_of(cls) if hasattr(cls, "__dataclass_fields__") else {}
        lines = [
            textwrap.fill(f"{name}: {each.about}", 84, subsequent_indent="    ")
            for name, each in {**inherited, **own}.items()
        ]
        text = textwrap.indent("\n".join(lines), " " * 8)
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n    Settings:\n{text}\n"

    def __post_init__(self) -> None:
        defaults = default_values(type(self))
        for name, described in settings_of(self).items():
            kind = value_types(type(self))[name]
            value = _plain_value(kind, getattr(self, name))
            if value is not None:
                value = _legal_value(flag_name(name), kind, described, value)
            elif defaults[name] is not None:
                what = "a list" if kind.is_tuple else _KINDS[kind.base]
                raise UserError(f"--{flag_name(name)} must be {what}. Received: None")
            object.__setattr__(self, name, value)
            if described.required:
                self.require(name)
        self.check()

    def check(self) -> None:
        """Raises `UserError` if settings contradict each other."""

    def require(self, name: str) -> Any:
        """Returns the value of a setting that must have one.

        Raises:
            UserError: If it has none.
        """
        value = getattr(self, name)
        if not value:
            about = settings_of(self)[name].about
            raise UserError(f"--{flag_name(name)} is required: {about}")
        return value

    def override(self, **values: Any) -> Self:
        """Returns these settings with other values, by name; None keeps a value.

        Raises:
            UserError: If there is no such setting, or a value is not legal.
        """
        names = list(settings_of(self))
        for name in values:
            if name not in names:
                raise UserError(
                    f"There is no setting {name!r}. Settings: {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        given = {name: value for name, value in values.items() if value is not None}
        return dataclasses.replace(self, **given)


def default_values(cls: type) -> Mapping[str, Any]:
    """Returns the default of each setting of a class by name."""
    return {
        field.name: field.default
        for field in dataclasses.fields(cls)
        if _KEY in field.metadata
    }


def _plain_value(kind: ValueType, value: Any) -> Any:
    """Returns a value as Python's own type, a tuple for a list."""
    if hasattr(value, "tolist"):  # a number or an array of NumPy
        value = value.tolist()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
        return (value,) if kind.is_tuple else value  # a name may contain a comma
    if not kind.is_tuple:
        return _plain_item(kind.base, value)
    if isinstance(value, str):  # as a flag has it
        value = [text.strip() for line in csv.reader([value]) for text in line]
    if isinstance(value, Iterable):
        return tuple(_plain_item(kind.base, item) for item in value)
    return value


def _plain_item(base: type, value: Any) -> Any:
    if base is not str and isinstance(value, str):  # as a flag has it
        with contextlib.suppress(ValueError):
            return _BOOLS.get(value, value) if base is bool else base(value)
    if base is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if base is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e5
    if base is float and type(value) is int:
        return float(value)
    return value


def _legal_value(name: str, kind: ValueType, described: Setting, value: Any) -> Any:
    """Returns the value.

    Raises:
        UserError: If it is of another type, too low or too high, or not a choice.
    """
    if not kind.is_tuple:
        return _legal_item(name, kind.base, described, value)
    if not isinstance(value, tuple):
        raise UserError(f"--{name} must be a list. Received: {value!r}")
    return tuple(_legal_item(name, kind.base, described, item) for item in value)


def _legal_item(name: str, base: type, described: Setting, value: Any) -> Any:
    choices = [str(choice) for choice in described.choices]
    if choices and value not in described.choices:
        raise UserError(
            f"--{name} must be one of {', '.join(choices)}. Received: {value}."
            f"{did_you_mean(str(value), choices)}"
        )
    if type(value) is not base:
        raise UserError(f"--{name} must be {_KINDS[base]}. Received: {value!r}")
    if base is str:
        _check_text(name, value)
    if base is float and not math.isfinite(value):
        raise UserError(f"--{name} must be a number. Received: {value}")
    if described.low is not None and value < described.low:
        raise UserError(f"--{name} must be at least {described.low}. Received: {value}")
    if described.high is not None and value > described.high:
        raise UserError(f"--{name} must be at most {described.high}. Received: {value}")
    return value


def _check_text(name: str, text: str) -> None:
    if text.encode(errors="ignore").decode() != text:
        raise UserError(
            f"--{name} must be UTF-8, as flagfiles are. Received: {text!a}. "
            "Rename the file."
        )
