"""Shared parts of all programs: help, quiet start, and errors without a traceback."""

import contextlib
import dataclasses
import functools
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tqdm
from absl import app, flags, logging

from t2t_keras.errors import UserError, did_you_mean, require_extra, require_package
from t2t_keras.files.atomic import STANDARD_OUTPUT, explain, name_in_errors
from t2t_keras.files.bundled import expand_flagfiles
from t2t_keras.files.keras_import import check_backend
from t2t_keras.files.lines import prepare_standard_streams
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.files.signals import Interrupted, end_program_on_signal
from t2t_keras.settings.config import DecodingConfig, ExperimentConfig
from t2t_keras.settings.flags import check_settings_flags, help_text

# Flags of text, in which "~" is no path. Items of a mixture are expanded one by one.
_TEXT_FLAGS = frozenset(
    {"mixture", "sentence", "target_tag", "translation", "user_symbols", "words"}
)
# Flags of the folders that TensorFlow reads checkpoints and exports from.
_FOLDERS_OF_MODELS = frozenset(
    {"model_dir", "checkpoint", "init_from", "ensemble_with", "export_dir"}
)


def run(  # noqa: PLR0913 - every option of a program
    main: Callable[..., int | None],
    usage: str,
    with_config: bool = False,
    settings_used: Sequence[str] = (),
    own_devices: bool = False,
    with_tensorflow: bool | Callable[[], bool] = True,
    takes_arguments: bool = False,
    check: Callable[..., object] = lambda *_: None,
    backend: str = "tensorflow",
) -> None:
    """Parses the command line, calls `main`, and exits with its status.

    Exit status: 0 on success; 2 with one message if a flag or a file cannot be used or
    a disk is full; 128 and its number after a signal; 1 with a traceback for any other
    error.

    Args:
        main: Function that does the work, called after flags are parsed.
        usage: The program's docstring, printed by --help.
        with_config: Whether the settings of an experiment are flags of the program.
        settings_used: Names of the settings to list, if the program uses only some.
        own_devices: Whether `main` sets up devices, before it computes anything.
        with_tensorflow: Whether `main` needs TensorFlow, which is then imported
            quietly; or a function that returns this, called after flags are parsed.
        takes_arguments: Whether `main` takes the arguments other than flags. Without
            it, such arguments are an error.
        check: Called with the arguments of `main` before TensorFlow is imported, which
            it must not import itself. Raises `UserError` for invalid flags.
        backend: Backend of Keras that the program runs on, if it needs TensorFlow.
            Another one in KERAS_BACKEND is an error.
    """
    prepare_standard_streams()
    if {"--help", "-help", "--h", "-h"} & set(sys.argv[1:]):
        with exit_on_errors():
            module = sys.modules[main.__module__]
            own = [f.name for f in flags.FLAGS.get_key_flags_for_module(module)]
            print(help_text(usage, flags.FLAGS, [*own, *settings_used], with_config))
        sys.exit(0)

    def run_with_error_handling(argv: Sequence[str]) -> None:
        with exit_on_errors():
            if len(argv) > 1 and not takes_arguments:
                raise UserError(
                    f"Arguments are given as flags. Received: {' '.join(argv[1:])}. "
                    "--help lists the flags."
                )
            if with_config:
                check_settings_flags()
            check(*([argv[1:]] if takes_arguments else []))
            # absl's default is to log everything, including what libraries do.
            logging.set_verbosity(logging.ERROR)
            if with_tensorflow() if callable(with_tensorflow) else with_tensorflow:
                check_backend(backend)
                # Without a value, ~/.keras/keras.json would name the backend.
                os.environ["KERAS_BACKEND"] = backend
                _import_tensorflow(look_at_devices=not own_devices)
            status = main(argv[1:]) if takes_arguments else main()
        sys.exit(status or 0)

    end_program_on_signal()
    app.run(run_with_error_handling, flags_parser=_parse_flags)


@contextlib.contextmanager
def exit_on_errors() -> Iterator[None]:
    """Exits with one message after an error of the user, of files or a signal.

    The status is 141 if a reader, such as `head`, closes standard output.
    """
    try:
        with name_in_errors(STANDARD_OUTPUT):  # other files are named in their errors
            yield
            print(end="", flush=True)
    except Interrupted as stop:
        log(f"{stop}")
        sys.exit(128 + stop.signal_number)
    except BrokenPipeError:
        _discard_output()
        sys.exit(128 + signal.SIGPIPE)
    except (UserError, OSError) as error:
        message = explain(error) if isinstance(error, OSError) else error
        log(f"error: {message}")
        if getattr(error, "filename", None) == STANDARD_OUTPUT:
            _discard_output()
        sys.exit(2)


def _discard_output() -> None:
    # Python would fail again when it flushes at exit.
    with contextlib.suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse_flags(argv: list[str]) -> list[str]:
    """Returns the arguments other than flags; exits if a flag is invalid."""
    try:
        rest = flags.FLAGS([argv[0], *expand_flagfiles(argv[1:])])
        for name in flags.FLAGS:
            flag = flags.FLAGS[name]
            # absl accepts "nan" as a number within any bounds.
            if isinstance(flag.value, float) and not math.isfinite(flag.value):
                raise UserError(f"--{name} must be a number. Received: {flag.value}")
            if name not in _TEXT_FLAGS:
                flag.value = _expand_paths(name, flag.value)
    # absl raises ValueError for --noscores=1: "does not take an argument".
    except (flags.Error, ValueError, UserError) as error:
        message = str(error).removeprefix("ERROR:: ")
        if wrong := re.search(r"=(.*): value should be one of <(.*)>$", message):
            value, choices = wrong.groups()
            message += f".{did_you_mean(value, choices.split('|'))}"
    else:
        return [*map(os.path.expanduser, rest)]
    print(f"error: {message}\n--help lists the flags.", file=sys.stderr)
    sys.exit(2)


def _expand_paths(name: str, value: Any) -> Any:
    """Returns a flag's value with the home folder in place of "~".

    Raises:
        UserError: If TensorFlow could not read a folder of checkpoints or exports.
    """
    if isinstance(value, list):
        return [_expand_paths(name, each) for each in value]
    if not isinstance(value, str):
        return value
    value = os.path.expanduser(value)
    if name in _FOLDERS_OF_MODELS:
        check_readable_by_tensorflow(value, f"--{name}")
    return value


def _import_tensorflow(look_at_devices: bool) -> None:
    """Imports TensorFlow quietly. It is slow, so --help does not wait for it."""
    with require_package("This program", "tensorflow"), quiet_start_up():
        import tensorflow as tf

        if look_at_devices:
            tf.config.list_logical_devices()
    tf.get_logger().setLevel("ERROR")


def log(text: str) -> None:
    """Writes a line to standard error, unless its terminal is closed or disk full."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise


def require_flag(name: str) -> str:
    """Returns the value of a required flag.

    Raises:
        UserError: If the flag is not set.
    """
    value = flags.FLAGS[name].value
    if not value:
        raise UserError(f"--{name} is required: {flags.FLAGS[name].help}")
    return value


def flag_values(names: Sequence[str]) -> dict[str, Any]:
    """Returns the values of these flags by name."""
    return {name: flags.FLAGS[name].value for name in names}


def check_filters(config: ExperimentConfig) -> None:
    """Raises `MissingPackage` if --filter needs an extra that is not installed."""
    if "language" in config.data.filter:
        require_extra("--filter=language", "filters")


def refuse_flags(names: Sequence[str], reason: str) -> None:
    """Raises `UserError` if one of these flags was given.

    Args:
        names: Names of the flags.
        reason: The message after the name of the flag.
    """
    for name in names:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name} {reason}")


# Flags that `define_model_flags` defines belong to the calling program.
flags.disclaim_key_flags()


class ModelFlags(NamedTuple):
    """The flags of every program that uses a trained model."""

    model_dir: flags.FlagHolder
    checkpoint: flags.FlagHolder
    search: Mapping[str, flags.FlagHolder]

    def search_values(self) -> dict[str, Any]:
        """Returns the values of the search's flags; None for those that are not set."""
        return {name: holder.value for name, holder in self.search.items()}

    def given_search(self) -> list[str]:
        """Returns the names of the search's flags that are set."""
        values = self.search_values().items()
        return [name for name, value in values if value is not None]

    def decoding(self, config: ExperimentConfig) -> DecodingConfig:
        """Returns the decoding settings of a run, overridden by the flags."""
        return config.decoding.override(**self.search_values())


def define_model_flags(
    flag_values: flags.FlagValues = flags.FLAGS,
    *,
    about_model_dir: str = "Directory of a training run. Required.",
) -> ModelFlags:
    """Defines the flags for the model that a program uses and for its search."""
    return ModelFlags(
        flags.DEFINE_string(
            "model_dir", None, about_model_dir, flag_values=flag_values
        ),
        flags.DEFINE_string(
            "checkpoint",
            "averaged",
            "Checkpoint to use: averaged (the average written at the end of training, "
            "or else the latest), latest, best, a step number, or the folder of a "
            "checkpoint.",
            flag_values=flag_values,
        ),
        {
            field.name: _define_search_setting(field, flag_values)
            for field in dataclasses.fields(DecodingConfig)
        },
    )


def define_search_model_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of programs that translate, beside those of the model."""
    flags.DEFINE_string(
        "shortlist",
        None,
        "Lexicon of likely translations, from t2t_keras.prepare --shortlist. The "
        "search considers these alone, which is faster with a large vocabulary. "
        "Default: none, for all of the vocabulary.",
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "shortlist_size",
        None,
        "Number of tokens that --shortlist leaves for a sentence. Default: 1,000.",
        lower_bound=4,
        flag_values=flag_values,
    )
    flags.DEFINE_multi_string(
        "ensemble_with",
        [],
        # absl adds "; repeat this option to specify a list of values".
        "Model directory of another run of the same vocabulary, whose averaged or "
        "latest checkpoint translates together with --model_dir by the mean of their "
        "probabilities; or the folder of a checkpoint",
        flag_values=flag_values,
    )


def search_model_values() -> dict[str, Any]:
    """Returns the values of the flags for the model of a search by name.

    They are the arguments of `ensembles.check`, and with a checkpoint those of `load`.

    Raises:
        UserError: If --model_dir is not set.
    """
    require_flag("model_dir")
    return flag_values(("model_dir", "ensemble_with", "shortlist", "shortlist_size"))


def _define_search_setting(
    field: dataclasses.Field, flag_values: flags.FlagValues
) -> flags.FlagHolder:
    """Defines the flag of a setting of the search, whose default is the run's value."""
    choices, low = field.metadata["choices"], field.metadata["low"]
    about = f"{field.metadata['about']} Default: that of the run."
    if choices:
        define = functools.partial(flags.DEFINE_enum, enum_values=choices)
    elif isinstance(field.default, bool):
        define = flags.DEFINE_bool
    elif isinstance(field.default, int):
        define = functools.partial(flags.DEFINE_integer, lower_bound=low)
    else:
        define = functools.partial(flags.DEFINE_float, lower_bound=low)
    return define(field.name, default=None, help=about, flag_values=flag_values)


ABOUT_HEADS = (
    "Heads of the cross-attention whose mean aligns words, comma-separated: "
    "LAYER:HEAD, or LAYER for all of its heads, both from 1. Default: the head that "
    "--guided_alignment has trained in this run, or else all heads of the decoder's "
    "last layer but one, or of the only layer."
)
"""Help of --alignment_heads."""


class SamplingFlags(NamedTuple):
    """The flags of a program that can sample."""

    sample: flags.FlagHolder
    settings: Mapping[str, flags.FlagHolder]

    def values(self) -> dict[str, Any] | None:
        """Returns the settings that are given, by name; None without --sample."""
        if not self.sample.value:
            return None
        values = {name: holder.value for name, holder in self.settings.items()}
        return {name: value for name, value in values.items() if value is not None}

    def check(self) -> None:
        """Raises `UserError` if settings are given without --sample."""
        if not self.sample.value:
            refuse_flags(
                list(self.settings), "is for --sample. Add --sample, or leave it out."
            )


def define_sampling_flags(
    about: str, *, with_seed: bool, flag_values: flags.FlagValues = flags.FLAGS
) -> SamplingFlags:
    """Defines --sample, with this help text, and the flags of its settings."""
    settings = {
        "temperature": flags.DEFINE_float(
            "temperature",
            None,
            "Divisor of the logits with --sample: below 1 likely tokens become "
            "likelier. Default: 1.",
            flag_values=flag_values,
        ),
        "top_k": flags.DEFINE_integer(
            "top_k",
            None,
            "Number of likeliest tokens that --sample draws from. Default: 0, for all.",
            lower_bound=0,
            flag_values=flag_values,
        ),
        "top_p": flags.DEFINE_float(
            "top_p",
            None,
            "Probability, from 0 to 1, of the smallest set of likeliest tokens that "
            "--sample draws from. Default: 1, for all.",
            flag_values=flag_values,
        ),
    }
    if with_seed:
        settings["seed"] = flags.DEFINE_integer(
            "seed",
            None,
            "Seed of the random numbers of --sample, from 0 to 2^31 - 1. Default: 1.",
            flag_values=flag_values,
        )
    sample = flags.DEFINE_bool("sample", False, about, flag_values=flag_values)
    return SamplingFlags(sample, settings)


def progress_bar(total: int | None, unit: str) -> tqdm.tqdm:
    """Returns a progress bar, disabled if standard error is not a terminal.

    Without a total it displays count and speed, but not the time left.
    """
    return tqdm.tqdm(total=total, unit=f" {unit}", disable=None, leave=False)
