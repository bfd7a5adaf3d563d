"""Trains with several workers on this machine, to test a run on several hosts.

    python -m t2t_keras.rehearse --num_workers=2 --flagfile=configs/tiny.flags
    python -m t2t_keras.rehearse --num_workers=2 --cpu_devices=4 --model_dir=runs/two \\
        --flagfile=configs/tiny.flags

It starts `python -m t2t_keras.train` --num_workers times with all other flags, each
with the TF_CONFIG that its host would have. All addresses are on this machine. Output
lines of workers other than the first begin with the worker's number. Signals are
forwarded to all workers that are still running.
"""

import dataclasses
import sys

from t2t_keras.settings import program
from t2t_keras.settings.flags import (
    config_from_flags,
    define_config_flags,
    define_flags,
    remove_flag,
)
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class RehearseOptions(Settings):
    """How many workers train, and in which directory."""

    num_workers: int = setting(2, "Number of worker processes to start.", low=1)
    model_dir: str | None = setting(
        None,
        "Directory of the training run, created if missing. Required.",
        path=True,
        model_folder=True,
        required=True,
    )


_OPTIONS = define_flags(RehearseOptions)
define_config_flags()


def main() -> int:
    """Starts the workers and waits for them; returns their highest exit status."""
    from t2t_keras.runs.training.local_workers import launch_local

    arguments = remove_flag("num_workers", sys.argv[1:])
    return launch_local(_OPTIONS.read().num_workers, arguments)


def _check() -> None:
    """Raises `UserError` if flags are invalid or incompatible."""
    _OPTIONS.read()
    program.check_extras(config_from_flags())


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        with_config=True,
        own_devices=True,
        check=_check,
    )
