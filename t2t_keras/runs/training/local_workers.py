"""Launch of several workers of one training run on this machine, to test a cluster."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

from t2t_keras.files.signals import handle_signals
from t2t_keras.runs.training.workers import free_ports


def launch_local(num_workers: int, arguments: Sequence[str]) -> int:
    """Starts workers of `train`, waits for all, and returns their highest exit status.

    Each is a process of `python -m t2t_keras.train` with the TF_CONFIG that its host
    would have. Their output lines are printed here, prefixed with the worker's number
    except for the first worker. SIGINT and SIGTERM are forwarded to all of them.
    """
    addresses = [f"localhost:{port}" for port in free_ports(num_workers)]
    workers: list[subprocess.Popen[str]] = []
    received: list[int] = []

    def forward(number: int) -> None:
        received.append(number)
        for worker in workers:
            worker.send_signal(number)  # no effect on a worker that has ended

    with handle_signals(forward):
        for index in range(len(addresses)):
            workers.append(_start_worker(index, addresses, arguments))
            if received:  # while the worker was starting
                workers[-1].send_signal(received[0])
        readers = [
            threading.Thread(target=_print_lines, args=(worker, f"[{i}] " if i else ""))
            for i, worker in enumerate(workers)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    # A status below 0 means that a signal ended the process.
    statuses = [worker.wait() for worker in workers]
    return max(128 - status if status < 0 else status for status in statuses)


def _start_worker(
    index: int, addresses: Sequence[str], arguments: Sequence[str]
) -> subprocess.Popen[str]:
    task = {"type": "worker", "index": index}
    tf_config = json.dumps({"cluster": {"worker": addresses}, "task": task})
    return subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.train", *arguments],
        env={**os.environ, "TF_CONFIG": tf_config},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
        # Ctrl-C in a terminal goes to all processes of a group. In a session of its
        # own, a worker receives it from this process alone.
        start_new_session=True,
    )


def _print_lines(worker: subprocess.Popen[str], prefix: str) -> None:
    """Prints the lines of a worker until it has ended."""
    with worker:
        for line in worker.stdout or ():
            print(f"{prefix}{line}", end="", flush=True)
