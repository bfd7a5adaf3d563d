"""Shared parts of all programs: help, quiet start, and errors without a traceback."""

import contextlib
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import tqdm
from absl import app, flags, logging

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.bundled import with_flagfiles
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.files.signals import Interrupted, end_program_on_signal
from t2t_keras.settings.config import DecodingConfig, ExperimentConfig
from t2t_keras.settings.flags import check_settings_flags, help_text


def run(
    main: Callable[..., int | None],
    usage: str,
    with_config: bool = False,
    settings_used: Sequence[str] = (),
    own_devices: bool = False,
    with_tensorflow: bool = True,
    takes_arguments: bool = False,
    check: Callable[..., object] = lambda *_: None,
) -> None:
    """Parses the command line, calls `main`, and exits with its status.

    Exit statuses: 0 done; 2 a flag is wrong, something the user gave cannot be used,
    or a disk is full, said in one message; 130, 141 or 143 after a signal; 1 with a
    traceback for anything else.

    Args:
        main: Does the work; flags are parsed when it is called.
        usage: The program's docstring, shown by --help.
        with_config: Whether the settings of an experiment are flags here too.
        settings_used: Settings that the program uses where it uses only some.
        own_devices: Whether `main` sets devices up, before it computes anything.
        with_tensorflow: Whether `main` needs it; it is then imported, without the
            noise that it makes.
        takes_arguments: Whether `main` is called with what is given besides flags;
            other programs refuse it.
        check: Called as `main` is, but before TensorFlow is imported, which it must
            not do either. Raises `UserError` if flags are wrong or do not go together.
    """
    if {"--help", "-help", "--h", "-h"} & set(sys.argv[1:]):
        with _ending_with_the_reader():
            module = sys.modules[main.__module__]
            own = [f.name for f in flags.FLAGS.get_key_flags_for_module(module)]
            print(help_text(usage, flags.FLAGS, [*own, *settings_used], with_config))
        sys.exit(0)

    def guarded(argv: Sequence[str]) -> None:
        try:
            if len(argv) > 1 and not takes_arguments:
                raise UserError(
                    f"Arguments are given as flags. Received: {' '.join(argv[1:])}. "
                    "--help lists the flags."
                )
            if with_config:
                check_settings_flags()
            check(*([argv[1:]] if takes_arguments else []))
            if with_tensorflow:
                _import_tensorflow(look_at_devices=not own_devices)
            with _ending_with_the_reader():
                status = main(argv[1:]) if takes_arguments else main()
            sys.exit(status or 0)
        except Interrupted as stop:
            print(stop, file=sys.stderr)
            sys.exit(128 + stop.signal_number)
        except (UserError, OSError) as error:
            print(f"error: {_in_words(error)}", file=sys.stderr)
            sys.exit(2)

    end_program_on_signal()
    app.run(guarded, flags_parser=_parsed)


@contextlib.contextmanager
def _ending_with_the_reader() -> Iterator[None]:
    """Exits with status 141 if the reader of the output, `head` say, has enough."""
    try:
        yield
        print(end="", flush=True)
    except BrokenPipeError:
        # Python would fail once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


def _parsed(argv: list[str]) -> list[str]:
    """Returns what is given besides flags; ends the program if a flag is wrong."""
    try:
        rest = flags.FLAGS([argv[0], *with_flagfiles(argv[1:])])
        # absl takes "nan" for a number within any bounds.
        for name in flags.FLAGS:
            value = flags.FLAGS[name].value
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"--{name} must be a number. Received: {value}")
    # absl raises ValueError for --noscores=1: "does not take an argument".
    except (flags.Error, ValueError, UserError) as error:
        message = str(error).removeprefix("ERROR:: ")
        if wrong := re.search(r"=(.*): value should be one of <(.*)>$", message):
            value, choices = wrong.groups()
            message += f".{did_you_mean(value, choices.split('|'))}"
    else:
        return rest
    print(f"error: {message}\n--help lists the flags.", file=sys.stderr)
    sys.exit(2)


def _in_words(error: UserError | OSError) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    return (
        f"{error.filename} cannot be used: {error.strerror}. Check the path, its "
        "permissions, and the free space on its disk."
    )


def _import_tensorflow(look_at_devices: bool) -> None:
    """Imports what is slow and noisy, which --help need not wait for."""
    with quiet_start_up():
        import tensorflow as tf

        if look_at_devices:
            tf.config.list_logical_devices()
    # absl's programs log everything; TensorFlow's own notes are not for our users.
    logging.set_verbosity(logging.ERROR)
    tf.get_logger().setLevel("ERROR")


def log(text: str) -> None:
    """Writes a line for a person to standard error."""
    print(text, file=sys.stderr, flush=True)


def required(name: str) -> str:
    """Returns a flag's value.

    Raises:
        UserError: If it was not given.
    """
    value = flags.FLAGS[name].value
    if not value:
        raise UserError(f"--{name} is required: {flags.FLAGS[name].help}")
    return value


# What `define_model_flags` defines are the calling program's own flags.
flags.disclaim_key_flags()


class ModelFlags(NamedTuple):
    """The flags of every program that uses a trained model."""

    model_dir: flags.FlagHolder
    checkpoint: flags.FlagHolder
    beam_size: flags.FlagHolder
    alpha: flags.FlagHolder

    def decoding(self, config: ExperimentConfig) -> DecodingConfig:
        """Returns how a run decodes, with what the flags say instead."""
        return config.decoding.changed(self.beam_size.value, self.alpha.value)


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
            "Checkpoint to use: averaged (the mean made at the end of training, or "
            "else the latest), latest, best, a step number, or the folder of a "
            "checkpoint.",
            flag_values=flag_values,
        ),
        flags.DEFINE_integer(
            "beam_size",
            None,
            "Beam size: hypotheses kept at each step of the search. Default: as in "
            "the run.",
            lower_bound=1,
            flag_values=flag_values,
        ),
        flags.DEFINE_float(
            "alpha",
            None,
            "Strength of the length penalty. Default: as in the run.",
            lower_bound=0,
            flag_values=flag_values,
        ),
    )


def progress_bar(total: int | None, unit: str) -> tqdm.tqdm:
    """Returns a bar with an estimate of the time left; none if no one looks.

    Where the total is not known, it tells what is done and how fast.
    """
    return tqdm.tqdm(total=total, unit=f" {unit}", disable=None, leave=False)
