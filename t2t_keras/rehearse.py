"""Trains with several workers on this machine, to test a run on several hosts.

    python -m t2t_keras.rehearse --num_workers=2 --flagfile=configs/tiny.flags
    python -m t2t_keras.rehearse --num_workers=2 --cpu_devices=4 --model_dir=runs/two \\
        --flagfile=configs/tiny.flags

It starts `python -m t2t_keras.train` --num_workers times with all other flags, each
with the TF_CONFIG that its host would have. All addresses are on this machine. Output
lines of workers other than the first begin with the worker's number. Signals are
forwarded to all workers that are still running.
"""

import sys

from absl import flags

from t2t_keras.settings import program
from t2t_keras.settings.flags import (
    config_from_flags,
    define_config_flags,
    remove_flag,
)

_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", 2, "Number of worker processes to start.", lower_bound=1
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Directory of the training run, created if missing. Required."
)
define_config_flags()


def main() -> int:
    """Starts the workers and waits for them; returns their highest exit status."""
    from t2t_keras.runs.training.local_workers import launch_local

    arguments = remove_flag("num_workers", sys.argv[1:])
    return launch_local(_NUM_WORKERS.value, arguments)


def _check() -> None:
    """Raises `UserError` if flags are invalid or incompatible."""
    program.require_flag("model_dir")
    program.check_filters(config_from_flags())


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        with_config=True,
        own_devices=True,
        check=_check,
    )
