"""Pool of processes that encode text in parallel and return the ids in order.

They are spawned, not forked: TensorFlow's threads do not survive a fork. They import no
TensorFlow, so that each takes 60 MB and a second.
"""

import contextlib
import dataclasses
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.signals import block_signals
from t2t_keras.input_pipeline.records.tokenized import TokenizedChunk, filter_pairs
from t2t_keras.text.vocabulary import SubwordVocabulary

# Finished chunks per process that may wait for a slower one before them.
_CHUNKS_AHEAD = 4
_JOIN_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive pairs of text of one shard."""

    shard: int
    source: list[bytes]
    target: list[bytes]


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedPiece:
    """Token ids of a piece of text."""

    shard: int
    text_pairs: int
    chunk: TokenizedChunk


class Encoders:
    """Pool of processes that encode; a context manager, which ends them.

    Args:
        model_proto: The vocabulary.
        max_length: Longest side that is kept, end of sentence included.
        workers: Number of processes.
    """

    def __init__(self, model_proto: bytes, max_length: int, workers: int):
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        context = multiprocessing.get_context("spawn")
        # The first start of a process starts this one, and unblocks signals.
        resource_tracker.ensure_running()
        # Ctrl-C reaches the whole process group, and SIGTERM may. The processes inherit
        # the blocked signals, so that only this process ends them.
        with block_signals():
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_encode_pieces,
                    args=(theirs, model_proto, max_length),
                    daemon=True,
                )
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)

    def __enter__(self) -> "Encoders":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(_JOIN_SECONDS)
            process.kill()
            process.join()

    def encode(self, pieces: Iterable[Piece]) -> Iterator[EncodedPiece]:
        """Yields the token ids of pieces, in their order.

        A piece is drawn from `pieces` only when a process is free for it, and none
        while too many finished pieces wait for one before them.

        Raises:
            UserError: If a process ends early.
        """
        source = enumerate(pieces)
        idle = list(self._connections)
        busy: dict[Any, tuple[int, Piece]] = {}
        done: dict[int, EncodedPiece] = {}
        due = 0
        ahead = _CHUNKS_AHEAD * len(idle)
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
                number, piece = busy.pop(connection)
                chunk = self._call(connection, connection.recv)  # type: ignore
                done[number] = EncodedPiece(piece.shard, len(piece.source), chunk)
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
                "(-9: killed, most often for want of memory). Finished shards are "
                "kept: run the same command again, with fewer --workers perhaps."
            ) from error


def _encode_pieces(connection: Connection, model_proto: bytes, max_length: int) -> None:
    """Encodes received pieces until the other end closes: the main of a process."""
    vocabulary = SubwordVocabulary(model_proto)
    # The other end closes when the parent is done or killed.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            piece = connection.recv()
            connection.send(
                filter_pairs(
                    vocabulary.encode_all(piece.source),
                    vocabulary.encode_all(piece.target),
                    max_length,
                    vocabulary.size,
                )
            )
