"""Workers of one training run on this machine, as a rehearsal of several hosts."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

from t2t_keras.files.signals import handle_signals
from t2t_keras.runs.workers import free_ports


def launch_local(num_workers: int, arguments: Sequence[str]) -> int:
    """Starts workers, waits for all of them, and returns the worst of their statuses.

    Each is a process of `python -m t2t_keras.train` with the TF_CONFIG that its host
    would have. Their lines are repeated on standard output, those of all but the first
    after the worker's number. SIGINT and SIGTERM are passed on to all of them.

    Args:
        num_workers: Number of processes.
        arguments: Command line of `train`.
    """
    addresses = [f"localhost:{port}" for port in free_ports(num_workers)]
    workers: list[subprocess.Popen[str]] = []
    received: list[int] = []

    def pass_on(number: int) -> None:
        received.append(number)
        for worker in workers:
            worker.send_signal(number)  # nothing where it has ended

    with handle_signals(pass_on):
        for index in range(len(addresses)):
            workers.append(_start_worker(index, addresses, arguments))
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
        # Ctrl-C in a terminal goes to all processes of a group; here it goes to us.
        start_new_session=True,
    )


def _repeat(worker: subprocess.Popen[str], prefix: str) -> None:
    """Prints the lines of a worker until it has ended."""
    with worker:
        for line in worker.stdout or ():
            print(f"{prefix}{line}", end="", flush=True)
