"""Trains with several workers on this machine, as a rehearsal of several hosts.

    python -m t2t_keras.rehearse --num_workers=2 --flagfile=configs/tiny.flags
    python -m t2t_keras.rehearse --num_workers=2 --cpu_devices=4 --model_dir=runs/two \\
        --flagfile=configs/tiny.flags

Every flag but --num_workers goes to `python -m t2t_keras.train`, which is started so
many times, with the TF_CONFIG that each host would have. Their addresses are of this
machine alone. Lines of all but the first begin with the worker's number. A signal is
passed on to all of them that are still there.
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
    "model_dir", None, "Directory of the training run, made if it is missing. Required."
)
define_config_flags()


def main() -> int:
    """Starts the workers and waits for them; returns the worst of their statuses."""
    from t2t_keras.runs.local_workers import launch_local

    arguments = remove_flag("num_workers", sys.argv[1:])
    return launch_local(_NUM_WORKERS.value, arguments)


def _check() -> None:
    """Raises `UserError` if flags are wrong or do not go together."""
    program.require_flag("model_dir")
    config_from_flags()


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        with_config=True,
        own_devices=True,
        check=_check,
    )
