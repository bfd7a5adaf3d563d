"""Shared parts of all programs: help, quiet start, and errors without a traceback."""

import contextlib
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tqdm
from absl import app, flags, logging

from t2t_keras import __version__
from t2t_keras.errors import UserError, did_you_mean, require_extra, require_package
from t2t_keras.files.atomic import STANDARD_OUTPUT, explain, name_in_errors
from t2t_keras.files.bundled import expand_flagfiles
from t2t_keras.files.keras_import import check_backend, matplotlib_hidden
from t2t_keras.files.lines import prepare_standard_streams, text_suffix
from t2t_keras.files.logs import log_to
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.files.remote import check_supported, is_url
from t2t_keras.files.signals import Interrupted, end_program_on_signal
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.flags import help_text, setting_of_flag
from t2t_keras.settings.setting import Setting, marked
from t2t_keras.settings.training_text import parse_mixture_item

VERSION_LINE = f"t2t_keras {__version__}"


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
    log_line: Callable[[str], object] | None = None,
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
        log_line: Called with each line of the log of a server, which has time and
            level. Default: `log`, without them.
    """
    prepare_standard_streams()
    # Before flags are checked: whoever asks may have given none of the required ones.
    if {"--help", "-help", "--h", "-h"} & set(sys.argv[1:]):
        with exit_on_errors():
            module = sys.modules[main.__module__]
            own = [f.name for f in flags.FLAGS.get_key_flags_for_module(module)]
            print(help_text(usage, flags.FLAGS, [*own, *settings_used], with_config))
        sys.exit(0)
    if "--version" in sys.argv[1:]:
        with exit_on_errors():
            print(VERSION_LINE)
        sys.exit(0)

    def run_with_error_handling(argv: Sequence[str]) -> None:
        log_is_stamped = log_line is not None
        with (
            exit_on_errors(),
            log_to(log_line or log, alone=True, stamped=log_is_stamped),
        ):
            if len(argv) > 1 and not takes_arguments:
                raise UserError(
                    f"Arguments are given as flags. Received: {' '.join(argv[1:])}. "
                    "--help lists the flags."
                )
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
            described = setting_of_flag(flag)
            if described is None or described.path:
                flag.value = _expand_paths(name, flag.value, described)
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


def _expand_paths(name: str, value: Any, described: Setting | None) -> Any:
    """Returns a flag's value with the home folder in place of "~".

    Raises:
        UserError: If TensorFlow could not read a folder of checkpoints or exports.
    """
    if isinstance(value, list):
        return [_expand_paths(name, each, described) for each in value]
    if not isinstance(value, str):
        return value
    value = os.path.expanduser(value)
    if described is not None and described.model_folder:
        check_readable_by_tensorflow(value, f"--{name}")
    return value


def _import_tensorflow(look_at_devices: bool) -> None:
    """Imports TensorFlow quietly. It is slow, so --help does not wait for it."""
    with (
        require_package("This program", "tensorflow"),
        quiet_start_up(),
        matplotlib_hidden(),
    ):
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


def check_extras(config: ExperimentConfig) -> None:
    """Raises `MissingPackage` if the data need an extra that is not installed."""
    data = config.data
    if "language" in data.filter:
        require_extra("--filter=language", "filters")
    sources = *data.train_source, *data.dev_source, *data.test_source
    parts = (parse_mixture_item(item).names[0] for item in data.mixture)
    for name in filter(is_url, _input_paths(data)):
        check_supported(name)
    for name in (*sources, *parts):
        if text_suffix(name) == ".parquet":
            require_extra(f"{name}, a file in Parquet,", "formats", "pyarrow")


def _input_paths(data: DataConfig) -> Iterator[str]:
    """Yields the paths of all files that the settings name."""
    for name in marked(DataConfig, "path"):
        value = getattr(data, name)
        if name != "data_dir" and value:  # TFDS reads from object stores by itself
            yield from [value] if isinstance(value, str) else value
    for item in data.mixture:
        yield from parse_mixture_item(item).names


def refuse_flags(names: Sequence[str], reason: str) -> None:
    """Raises `UserError` if one of these flags was given.

    Args:
        names: Names of the flags.
        reason: The message after the name of the flag.
    """
    for name in names:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name} {reason}")


def progress_bar(total: int | None, unit: str) -> tqdm.tqdm:
    """Returns a progress bar, disabled if standard error is not a terminal.

    Without a total it displays count and speed, but not the time left.
    """
    return tqdm.tqdm(total=total, unit=f" {unit}", disable=None, leave=False)
