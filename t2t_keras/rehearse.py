"""Trains with several workers on this machine, as a rehearsal of several hosts.

    python -m t2t_keras.rehearse --num_workers=2 --flagfile=configs/tiny.flags
    python -m t2t_keras.rehearse --num_workers=2 --cpu_devices=4 --model_dir=runs/two \\
        --flagfile=configs/tiny.flags

Every flag but --num_workers goes to `python -m t2t_keras.train`, which is started so
many times, with the TF_CONFIG that each host would have. Their addresses are of this
machine alone. Lines of all but the first begin with the worker's number. A signal is
passed on to all of them that are still there.
"""

import json
import os
import subprocess
import sys
import threading

from absl import flags

from t2t_keras.files.signals import handle_signals
from t2t_keras.settings import program
from t2t_keras.settings.flags import (
    config_from_flags,
    define_config_flags,
    without_flag,
)

_OWN = ("num_workers", "model_dir")
_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", 2, "Processes to start.", lower_bound=1
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Directory of the run, made if it is not there. Required."
)
define_config_flags()


def main() -> int:
    """Starts the workers and waits for them; returns the worst of their statuses."""
    from t2t_keras.runs.workers import free_ports

    program.required("model_dir")
    passed_on = without_flag("num_workers", sys.argv[1:])
    addresses = [f"localhost:{port}" for port in free_ports(_NUM_WORKERS.value)]
    workers: list[subprocess.Popen[str]] = []
    received: list[int] = []

    def pass_on(number: int) -> None:
        received.append(number)
        for worker in workers:
            worker.send_signal(number)  # nothing where it has ended

    with handle_signals(pass_on):
        for index in range(len(addresses)):
            workers.append(_started(index, addresses, passed_on))
            if received:  # while it was started
                workers[-1].send_signal(received[0])
        readers = [
            threading.Thread(target=_repeat, args=(worker, f"[{i}] " if i else ""))
            for i, worker in enumerate(workers)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    # A status below 0 is that of a process that a signal ended.
    statuses = [worker.wait() for worker in workers]
    return max(128 - status if status < 0 else status for status in statuses)


def _started(
    index: int, addresses: list[str], arguments: list[str]
) -> subprocess.Popen[str]:
    task = {"type": "worker", "index": index}
    tf_config = json.dumps({"cluster": {"worker": addresses}, "task": task})
    return subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.train", *arguments],
        env={**os.environ, "TF_CONFIG": tf_config},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Ctrl-C in a terminal goes to all processes of a group; here it goes to us.
        start_new_session=True,
    )


def _repeat(worker: subprocess.Popen[str], prefix: str) -> None:
    """Writes what a worker writes, until it has ended."""
    with worker:
        for line in worker.stdout or ():
            print(f"{prefix}{line}", end="", flush=True)


def _check() -> None:
    """Raises `UserError` if flags are wrong or do not go together."""
    program.required("model_dir")
    config_from_flags()


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        _OWN,
        with_config=True,
        own_devices=True,
        check=_check,
    )
