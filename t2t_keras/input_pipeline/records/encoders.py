"""Encoding of text, in this process or in a pool that returns the ids in order.

Processes are spawned, not forked: TensorFlow's threads do not survive a fork. They
import no TensorFlow, so that each takes 60 MB and a second.
"""

import contextlib
import dataclasses
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.signals import block_signals
from t2t_keras.input_pipeline.batches.plan import random_stream
from t2t_keras.input_pipeline.records.tokenized import (
    LinePairs,
    TokenizedChunk,
    TokenRows,
    filter_pairs,
)
from t2t_keras.text.segmentation import SubwordSampler
from t2t_keras.text.stored_vocabulary import vocabulary_from_bytes
from t2t_keras.text.vocabulary import join_rows

# Finished chunks per process that may wait for a slower one before them.
_CHUNKS_AHEAD = 4
_JOIN_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive pairs of text of one shard."""

    shard: int
    source: list[bytes]
    target: list[bytes]
    draws: "Draws | None" = None
    """Key of the segmentations to draw; None for the usual ones."""


@dataclasses.dataclass(frozen=True)
class Draws:
    """Key of the segmentations that are drawn for a piece (ADR 0028)."""

    seed: int
    epoch: int
    part: int
    """Part of a mixture, 0 for the main corpus."""
    first_pair: int
    """Number of the piece's first pair in its part."""
    prefix: tuple[int, ...]
    """Ids before each source: a tag."""
    limits: tuple[int, int]
    """Longest source and target. A pair that would be longer is not drawn."""


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedPiece:
    """Piece of text with its token ids."""

    piece: Piece
    chunk: TokenizedChunk

    @property
    def shard(self) -> int:
        """Number of the shard that the piece belongs to."""
        return self.piece.shard

    @property
    def text_pairs(self) -> int:
        """Number of pairs of text, dropped ones included."""
        return len(self.piece.source)

    def lines(self) -> LinePairs:
        """Returns the text of the pairs that were kept."""
        return self.chunk.keep_lines(self.piece.source, self.piece.target)


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


class PieceEncoder:
    """Encodes pieces of text.

    Args:
        vocabulary: The vocabulary, from `Vocabulary.to_bytes`.
        max_length: Longest side that is kept, end of sentence included.
        sampling_rate: Rate of subword regularization; 0 for none.
    """

    def __init__(self, vocabulary: bytes, max_length: int, sampling_rate: float = 0.0):
        self._vocabulary = vocabulary_from_bytes(vocabulary)
        self._max_length = max_length
        self._sampler = None
        if sampling_rate:
            self._sampler = SubwordSampler(self._vocabulary, sampling_rate)

    def encode(self, piece: Piece) -> TokenizedChunk:
        """Returns the ids of the pairs that can be trained on."""
        vocabulary = self._vocabulary
        if piece.draws is None:
            source = vocabulary.source.encode_all(piece.source)
            target = vocabulary.encode_all(piece.target)
        else:
            source, target = self._draw(piece, piece.draws)
        return filter_pairs(source, target, self._max_length, vocabulary.largest_size)

    def _draw(self, piece: Piece, draws: Draws) -> tuple[TokenRows, TokenRows]:
        """Returns ids drawn for each pair, by numbers of its own (ADR 0028)."""
        if self._sampler is None:
            raise ValueError("Draws need a sampling_rate. Received: 0")
        rows: tuple[list[list[int]], ...] = ([], [])
        texts = zip(piece.source, piece.target, strict=True)
        for number, pair in enumerate(texts, draws.first_pair):
            random = random_stream(draws.seed, draws.epoch, draws.part, number)
            source, target = (self._sampler.encode(text, random) for text in pair)
            source = [*draws.prefix, *source]
            if len(source) > draws.limits[0] or len(target) > draws.limits[1]:
                source, target = map(self._vocabulary.encode, pair)
                source = [*draws.prefix, *source]
            rows[0].append(source)
            rows[1].append(target)
        return join_rows(rows[0]), join_rows(rows[1])


class Encoders:
    """Pool of processes that encode; a context manager, which ends them.

    Args:
        vocabulary: The vocabulary, from `Vocabulary.to_bytes`.
        max_length: Longest side that is kept, end of sentence included.
        workers: Number of processes.
        sampling_rate: Rate of subword regularization; 0 for none.
    """

    def __init__(
        self,
        vocabulary: bytes,
        max_length: int,
        workers: int,
        sampling_rate: float = 0.0,
    ):
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
                    args=(theirs, vocabulary, max_length, sampling_rate),
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
                done[number] = EncodedPiece(piece, chunk)
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


def _encode_pieces(
    connection: Connection, vocabulary: bytes, max_length: int, sampling_rate: float
) -> None:
    """Encodes received pieces until the other end closes: the main of a process."""
    encoder = PieceEncoder(vocabulary, max_length, sampling_rate)
    # The other end closes when the parent is done or killed.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            connection.send(encoder.encode(connection.recv()))
