"""Makes records: text comes in, in order; shards are written, whole and one by one.

A shard at a time is held in memory, as ids, and a few thousand sentences of text
for each process. Whatever is killed, finished shards stay and are not made again.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.corpus import TextChunk
from t2t_keras.input_pipeline.records.encoders import EncodedPiece, Encoders, Piece
from t2t_keras.input_pipeline.records.manifest import Making
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    ShardFacts,
    check_shard,
    read_facts,
    remove_unfinished,
    shard_name,
    write_shard,
)
from t2t_keras.input_pipeline.records.tokenized import joined
from t2t_keras.text.vocabulary import SubwordVocabulary


def sound_shards(
    folder: Path, num_shards: int, say: Callable[[str], None]
) -> dict[int, ShardFacts]:
    """Returns the shards that are there and whole, by number.

    What a killed process has left unfinished is removed. Every byte is read:
    whoever calls this is about to spend far longer on making what is missing.

    Args:
        folder: Of the records.
        num_shards: How many there should be.
        say: Is told of damage.
    """
    remove_unfinished(folder)
    sound = {}
    for number in range(num_shards):
        path = folder / shard_name(number)
        if not path.exists():
            continue
        try:
            facts = read_facts(path)
            check_shard(path, facts)
        except DamagedShardError as error:
            say(f"warning: damaged, and made again: {error.fault}")
        else:
            sound[number] = facts
    return sound


def make_shards(
    folder: Path,
    making: Making,
    chunks: Iterable[TextChunk],
    vocabulary: SubwordVocabulary,
    *,
    present: dict[int, ShardFacts],
    workers: int,
    report: Callable[["Pace"], None],
) -> list[ShardFacts]:
    """Makes the shards that are missing, and returns the facts of all.

    Args:
        folder: Of the records.
        making: What to make.
        chunks: All of the training text, in order.
        vocabulary: Encodes it.
        present: Shards that need not be made; see `sound_shards`.
        workers: How many processes encode.
        report: Called after each shard.

    Raises:
        UserError: If the text is not as long as `making` says, or a process is
            killed.
    """
    facts = dict(present)
    if len(facts) < making.num_shards:
        counted = _Counted(chunks)
        wanted = (
            piece
            for piece in pieces(counted, making.pairs_per_shard)
            if piece.shard not in present
        )
        pace = Pace(making, sum(each.text_pairs for each in present.values()))
        with Encoders(vocabulary.model_proto, making.max_length, workers) as encoders:
            encoded = encoders.encode(wanted)
            for number, parts in itertools.groupby(encoded, lambda each: each.shard):
                facts[number] = _written(folder, number, list(parts))
                pace.made(facts[number])
                report(pace)
        if counted.pairs != making.text_pairs:
            raise UserError(
                f"The text had {making.text_pairs:,} pairs when it was first read, and "
                f"{counted.pairs:,} when it was encoded. Let it lie still, and run "
                "the command again."
            )
    return [facts[number] for number in range(making.num_shards)]


def pieces(chunks: Iterable[TextChunk], pairs_per_shard: int) -> Iterator[Piece]:
    """Yields text in pieces that lie in one shard each."""
    position = 0
    for source, target in chunks:
        start = 0
        while start < len(source):
            room = pairs_per_shard - position % pairs_per_shard
            end = min(start + room, len(source))
            number = position // pairs_per_shard
            yield Piece(number, source[start:end], target[start:end])
            position += end - start
            start = end


class Pace:
    """How far and how fast the making goes.

    Args:
        making: What is made.
        pairs_present: Pairs of text whose shards were there already.
    """

    def __init__(self, making: Making, pairs_present: int):
        self.shard = ""
        self.pairs_done = pairs_present
        self.text_pairs = making.text_pairs
        self._pairs_present = pairs_present
        self._start_seconds = time.monotonic()

    def made(self, facts: ShardFacts) -> None:
        """Takes note of a shard."""
        self.shard = facts.name
        self.pairs_done += facts.text_pairs

    @property
    def pairs_per_second(self) -> float:
        """Pairs of text encoded and written a second, since the start."""
        seconds = time.monotonic() - self._start_seconds
        return (self.pairs_done - self._pairs_present) / max(seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Seconds until the last shard, at the pace so far."""
        return (self.text_pairs - self.pairs_done) / self.pairs_per_second


class _Counted:
    """Chunks, and how many pairs they had in all when they have been read."""

    def __init__(self, chunks: Iterable[TextChunk]):
        self._chunks = chunks
        self.pairs = 0

    def __iter__(self) -> Iterator[TextChunk]:
        for chunk in self._chunks:
            self.pairs += len(chunk[0])
            yield chunk


def _written(folder: Path, number: int, parts: Sequence[EncodedPiece]) -> ShardFacts:
    text_pairs = sum(part.text_pairs for part in parts)
    return write_shard(folder, number, joined(part.chunk for part in parts), text_pairs)
