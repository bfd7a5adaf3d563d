"""Writer of record shards: encodes text in several processes, one shard at a time.

Memory holds the ids of one shard, and a few thousand sentences of text for each
process. If a process is killed, finished shards stay and are not written again.
"""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.corpus import TextChunk
from t2t_keras.input_pipeline.records.encoders import (
    EncodedPiece,
    Encoders,
    Pace,
    Piece,
)
from t2t_keras.input_pipeline.records.manifest import RecordSpec
from t2t_keras.input_pipeline.records.shards import (
    DamagedShardError,
    ShardMetadata,
    check_shard,
    read_metadata,
    remove_unfinished,
    shard_name,
    write_shard,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizedChunk, join_chunks
from t2t_keras.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


def find_intact_shards(folder: Path, num_shards: int) -> dict[int, ShardMetadata]:
    """Returns the metadata of the complete and undamaged shards, by number.

    Files that a killed process left unfinished are removed. Every byte is read: that
    takes far less time than writing the missing shards.
    """
    remove_unfinished(folder)
    intact = {}
    for number in range(num_shards):
        path = folder / shard_name(number)
        if not path.exists():
            continue
        try:
            metadata = read_metadata(path)
            check_shard(path, metadata)
        except DamagedShardError as error:
            logger.warning(f"damaged, and made again: {error.fault}")
        else:
            intact[number] = metadata
    return intact


def write_shards(
    folder: Path,
    spec: RecordSpec,
    chunks: Iterable[TextChunk],
    vocabulary: Vocabulary,
    *,
    present: dict[int, ShardMetadata],
    workers: int,
    keep_text: bool = False,
    on_progress: Callable[[str, Pace], None],
) -> list[ShardMetadata]:
    """Writes the shards that are missing, and returns the metadata of all.

    Args:
        folder: Folder of the records.
        spec: Number and size of the shards.
        chunks: All of the training text, in order.
        vocabulary: Encodes the text.
        present: Shards that need not be written; see `find_intact_shards`.
        workers: Number of processes that encode.
        keep_text: Whether shards keep the text of their pairs.
        on_progress: Called after each shard, with its name.

    Raises:
        UserError: If the number of pairs differs from that in `spec`, or a process is
            killed.
    """
    shards = dict(present)
    if len(shards) < spec.num_shards:
        counted = _CountedChunks(chunks)
        missing = (
            piece
            for piece in cut_into_pieces(counted, spec.pairs_per_shard)
            if piece.shard not in present
        )
        present_pairs = sum(each.text_pairs for each in present.values())
        pace = Pace(spec.text_pairs, present_pairs)
        with Encoders(vocabulary.to_bytes(), spec.max_length, workers) as encoders:
            encoded = encoders.encode(missing)
            for number, pieces in itertools.groupby(encoded, lambda each: each.shard):
                shards[number] = _write_pieces(folder, number, pieces, keep_text)
                pace.add(shards[number].text_pairs)
                on_progress(shards[number].name, pace)
        if counted.pairs != spec.text_pairs:
            raise UserError(
                f"The text had {spec.text_pairs:,} pairs when it was first read, and "
                f"{counted.pairs:,} when it was encoded. Do not change it meanwhile, "
                "and run the command again."
            )
    return [shards[number] for number in range(spec.num_shards)]


def cut_into_pieces(
    chunks: Iterable[TextChunk], pairs_per_shard: int
) -> Iterator[Piece]:
    """Yields text in pieces, each of which belongs to one shard."""
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


class _CountedChunks:
    """Chunks of text that count their pairs as they are read."""

    def __init__(self, chunks: Iterable[TextChunk]):
        self._chunks = chunks
        self.pairs = 0

    def __iter__(self) -> Iterator[TextChunk]:
        for chunk in self._chunks:
            self.pairs += len(chunk[0])
            yield chunk


def _write_pieces(
    folder: Path, number: int, pieces: Iterable[EncodedPiece], keep_text: bool
) -> ShardMetadata:
    text_pairs = 0
    chunks: list[TokenizedChunk] = []
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    for piece in pieces:
        text_pairs += piece.text_pairs
        chunks.append(piece.chunk)
        for side, lines in zip(sides, piece.lines() if keep_text else (), strict=False):
            side.append(b"".join(line + b"\n" for line in lines))
    text = (b"".join(sides[0]), b"".join(sides[1])) if keep_text else None
    return write_shard(folder, number, join_chunks(chunks), text_pairs, text)
