"""Streaming: parallel text into length buckets by tf.data, if too large to plan.

Training programs plan their epochs instead, since a stream cannot resume exactly where
it stopped (ADR 0025).
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError, check_at_least
from t2t_keras.files.lines import chunks
from t2t_keras.input_pipeline.batches.batching import (
    map_in_parallel,
    padded_batch,
    prefetch_batches,
)
from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes
from t2t_keras.input_pipeline.corpora.parallel_text import (
    absolute_paths,
    read_parallel_text,
)
from t2t_keras.input_pipeline.records.tokenized import filter_pairs
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.typing import Batch, Tensor

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# One call of Python from the graph costs more than reading a line.
_LINES_PER_CALL = 1024


def text_dataset(  # noqa: PLR0913 - one for each choice that a stream leaves
    files: Iterable[Paths] | str | os.PathLike[str],
    vocabulary: Vocabulary | str | os.PathLike[str],
    *,
    tokens_per_batch: int = 4096,
    max_length: int = 256,
    max_shapes: int = 8,
    sample_lines: int = 10_000,
    shuffle_buffer: int = 100_000,
    seed: int = 0,
    row_multiple: int = 1,
    languages: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> tf.data.Dataset:
    """Returns batches of parallel text, read and tokenized on demand.

        dataset = text_dataset([("train.en", "train.de"), "more.tsv.gz"], vocabulary)
        for batch in dataset.repeat(10):
            logits = model(batch)

    Args:
        files: For each corpus a source and a target path, or one path of a file with
            both sides, such as .tsv; plain or compressed, glob patterns too. Also a
            lone path of that kind.
        vocabulary: Joint vocabulary of both languages, or its file.
        tokens_per_batch: Maximum positions of one side of a batch, padding included.
        max_length: Maximum tokens of a side, EOS included; longer pairs are dropped.
        max_shapes: Maximum number of batch shapes, each filled up with rows of padding.
        sample_lines: Number of lines from which bucket boundaries are chosen.
        shuffle_buffer: Size of the shuffle buffer in pairs; 0 keeps their order.
        seed: Seed of the order. After `repeat()`, each pass has another order.
        row_multiple: Divisor of the rows of every batch: the number of devices under
            `MirroredStrategy`, where `fit` needs equal shares.
        languages: Codes of source and target language, which choose the texts in .tmx
            and .zip files, and the columns in .jsonl and .parquet files.
        columns: Names of both columns, instead. Default: those of the languages, or
            else source and target.

    Returns:
        The four features of ADR 0002 by name; both sides have the same length.

    Raises:
        UserError: If a number is out of range, a file is missing, or no pair of the
            sample can be used; also for files of different numbers of lines, if the
            sample shows it. Later, they raise `tf.errors.InvalidArgumentError`.
    """
    check_at_least(1, sample_lines=sample_lines, max_shapes=max_shapes)
    check_at_least(1, row_multiple=row_multiple)
    check_at_least(0, shuffle_buffer=shuffle_buffer)
    if not 2 <= max_length <= tokens_per_batch // row_multiple:
        raise UserError(
            "max_length must be from 2 to tokens_per_batch / row_multiple. Received: "
            f"{max_length=}, {tokens_per_batch=}, {row_multiple=}"
        )
    sides = absolute_paths(files)
    subwords = _open_vocabulary(vocabulary)
    encoders = subwords.source, subwords

    def lines() -> Iterator[tuple[bytes, bytes]]:
        corpora = [
            read_parallel_text(*paths, languages=languages, columns=columns)
            for paths in sides
        ]
        return itertools.chain.from_iterable(corpora)

    sample = list(itertools.islice(lines(), sample_lines))
    bounds = _bounds(sample, subwords, tokens_per_batch, max_length, max_shapes)

    def encode(texts_N2: Tensor) -> tuple[Tensor, ...]:
        rows = [encoders[i].encode_in_graph(texts_N2[:, i]) for i in (0, 1)]
        lengths = tf.stack([side.row_lengths() for side in rows])
        keep_N = tf.reduce_all((lengths > 1) & (lengths <= max_length), axis=0)
        return tuple(tf.ragged.boolean_mask(side, keep_N) for side in rows)

    def rows_of(length: Tensor | int) -> Any:
        return tokens_per_batch // (length * row_multiple) * row_multiple

    def fill_rows(source_BL: Tensor, target_BL: Tensor) -> Batch:
        rows, length = tf.unstack(tf.shape(source_BL))
        missing = [[0, rows_of(length) - rows], [0, 0]]
        return padded_batch(tf.pad(source_BL, missing), tf.pad(target_BL, missing))

    texts = tf.data.Dataset.from_generator(
        lambda: chunks(lines(), _LINES_PER_CALL),
        output_signature=tf.TensorSpec([None, 2], tf.string),
    )
    pairs = map_in_parallel(texts, encode).unbatch()
    pairs = pairs.map(lambda *sides: tuple(map(tf.identity, sides)))  # not ragged
    if shuffle_buffer:
        pairs = pairs.shuffle(shuffle_buffer, seed=seed)
    batches = pairs.bucket_by_sequence_length(
        lambda source, target: tf.maximum(tf.size(source), tf.size(target)),
        bucket_boundaries=[bound + 1 for bound in bounds],
        bucket_batch_sizes=[*map(rows_of, bounds), 1],
        pad_to_bucket_boundary=True,
    )
    return prefetch_batches(map_in_parallel(batches, fill_rows))


def _open_vocabulary(vocabulary: Vocabulary | str | os.PathLike[str]) -> Vocabulary:
    if isinstance(vocabulary, Vocabulary):
        return vocabulary
    return load_vocabulary(Path(vocabulary))


def _bounds(sample, vocabulary, tokens_per_batch, max_length, max_shapes) -> list[int]:
    """Returns the longest side of each bucket, ascending, `max_length` last."""
    source = vocabulary.source.encode_all([pair[0] for pair in sample])
    target = vocabulary.encode_all([pair[1] for pair in sample])
    chunk = filter_pairs(source, target, max_length, vocabulary.largest_size)
    chunk.report.check_any_left(max_length)
    longest_n = np.append(chunk.lengths.max(axis=1), max_length)
    squares = np.stack([longest_n, longest_n], axis=1)
    limits = {"max_shapes": max_shapes, "tokens_per_batch": tokens_per_batch}
    return sorted({max(shape[1:]) for shape in bucket_shapes(squares, **limits)})
