"""Pool of processes that encode text and return the results in order.

Processes are spawned, not forked: TensorFlow's threads do not survive a fork. They
import no TensorFlow, so that each takes 60 MB and a second.
"""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from t2t_keras.errors import UserError
from t2t_keras.files.signals import block_signals

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

# Finished tasks per process that may wait for a slower one before them.
_TASKS_AHEAD = 4
_JOIN_SECONDS = 10.0


class Pace:
    """Progress and speed of encoding text.

    Args:
        text_pairs: Number of pairs of text.
        pairs_present: Number of them that were encoded before the start.
    """

    def __init__(self, text_pairs: int, pairs_present: int = 0):
        self.text_pairs = text_pairs
        self.pairs_done = pairs_present
        self._pairs_present = pairs_present
        self._start_seconds = time.monotonic()

    def add(self, pairs: int) -> None:
        """Counts pairs that have been encoded."""
        self.pairs_done += pairs

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start_seconds

    @property
    def pairs_per_second(self) -> float:
        """Pairs of text encoded per second since the start."""
        return (self.pairs_done - self._pairs_present) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Seconds until the last pair, at the mean speed so far."""
        return (self.text_pairs - self.pairs_done) / self.pairs_per_second

    def describe(self) -> str:
        """Returns the pairs done and the speed as text."""
        done = f"{self.pairs_done:,}/{self.text_pairs:,} pairs"
        return f"{done}  {self.pairs_per_second:,.0f} pairs/s"


class ProcessPool(Generic[_Task, _Result]):
    """Processes that each call a function of their own; a context manager.

    Args:
        make: Returns the function, in each process. It is sent to them.
        workers: Number of processes; 0 to call the function in this one.
    """

    def __init__(self, make: Callable[[], Callable[[_Task], _Result]], workers: int):
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        self._own = None if workers else make()
        context = multiprocessing.get_context("spawn")
        if workers:
            # The first start of a process starts this one, and unblocks signals.
            resource_tracker.ensure_running()
        # Ctrl-C reaches the whole process group, and SIGTERM may. The processes inherit
        # the blocked signals, so that only this process ends them.
        with block_signals():
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_call_function, args=(theirs, make), daemon=True
                )
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)

    def __enter__(self) -> "ProcessPool[_Task, _Result]":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(_JOIN_SECONDS)
            process.kill()
            process.join()

    def map(self, tasks: Iterable[_Task]) -> Iterator[tuple[_Task, _Result]]:
        """Yields each task and its result, in their order.

        A task is drawn from `tasks` only when a process is free for it, and none while
        too many finished ones wait for one before them.

        Raises:
            UserError: If a process ends early, or its function raises one.
        """
        if self._own is not None:
            for task in tasks:
                yield task, self._own(task)
            return
        source = enumerate(tasks)
        idle = list(self._connections)
        busy: dict[Any, tuple[int, _Task]] = {}
        done: dict[int, tuple[_Task, _Result]] = {}
        due = 0
        ahead = _TASKS_AHEAD * len(idle)
        exhausted = False
        while not exhausted or busy or done:
            while idle and not exhausted and len(busy) + len(done) < ahead:
                numbered = next(source, None)
                if numbered is None:
                    exhausted = True
                else:
                    busy[connection := idle.pop()] = numbered
                    self._call(
                        connection, lambda c=connection, p=numbered[1]: c.send(p)
                    )
            for connection in wait(list(busy)) if busy else ():
                number, task = busy.pop(connection)
                result = self._call(connection, connection.recv)  # type: ignore
                if isinstance(result, UserError):
                    raise result
                done[number] = task, result
                idle.append(connection)  # type: ignore
            while due in done:
                yield done.pop(due)
                due += 1

    def _call(self, connection: Any, call: Callable[[], Any]) -> Any:
        """Calls a function of a connection; explains the error of a lost process."""
        try:
            return call()
        except (EOFError, OSError) as error:
            process = self._processes[self._connections.index(connection)]
            process.join(_JOIN_SECONDS)
            raise UserError(
                f"A process that encodes text ended with status {process.exitcode} "
                "(-9: killed, most often for want of memory). Finished shards and "
                "checkpoints are kept: run the same command again, `prepare` perhaps "
                "with fewer --workers."
            ) from error


def _call_function(
    connection: Connection, make: Callable[[], Callable[[Any], Any]]
) -> None:
    """Answers tasks until the other end closes: the main of a process."""
    function = make()
    # The other end closes when the parent is done or killed.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = connection.recv()
            try:
                result = function(task)
            except UserError as error:
                result = error
            connection.send(result)
