"""Gain from each part of the beam search, compared with the search without it.

    python -m benchmarks.decoding.parts

Compares cross-attention with and without a copy of keys and values for each hypothesis,
an output embedding transposed once for all steps, batches sorted by length, and
removing finished sentences from a batch. Rows are counted in the search itself. Times
are CPU times of one thread, and variants run alternately, so the figures hold on a
shared machine.
"""

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from benchmarks.decoding import measured, write
from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.embedding import SharedEmbedding
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig

SETTINGS = BeamSearchSettings(measured.BEAM, measured.ALPHA)
# The base model would take minutes to translate the sentences in all arrangements.
SMALL = ModelConfig(num_layers=2, d_model=256, d_ff=1024, num_heads=4)
SMALL_VOCABULARY = 4_000
# Sentences per batch; rows of a product, from the four hypotheses of one sentence up.
BATCH, ROWS = 32, (4, 32, 128, 256)
# Name, whether sentences are sorted, whether finished ones leave their batch.
ARRANGEMENTS = (
    ("as they come, all stay", False, False),
    ("as they come, the finished leave", False, True),
    ("sorted, all stay", True, False),
    ("sorted, the finished leave", True, True),
)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sentences", type=int, default=measured.SENTENCES)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print_row("sentences", "memory once, ms", "for each, ms", "once, MB", "each, MB")
    for batch in (8, 32, 64):
        print_row(batch, *attention_costs(batch, args.rounds))
    print_row("rows", "embedding as it stands, ms", "turned, ms", "turning it, ms")
    for rows in ROWS:
        print_row(rows, *logits_times(rows, args.rounds))
    sentences = measured.sentences(args.sentences, real_lengths=True)
    lengths = [len(sentence) + 1 for sentence in sentences]
    arranged = [make_batches(lengths, *how) for _, *how in ARRANGEMENTS]
    print_row("batches", "rows x steps", "of them for finished", "ms")
    costs = zip(count_computed_rows(arranged), search_times(arranged, 1), strict=True)
    for (name, *_), (computed, milliseconds_taken) in zip(
        ARRANGEMENTS, costs, strict=True
    ):
        print_row(
            name, computed, computed - count_needed_rows(lengths), milliseconds_taken
        )


def print_row(*cells: str | float) -> None:
    """Prints a row of a table: counts as they are, times with two decimals."""
    texts = [f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(f"| {' | '.join(texts)} |", flush=True)


def measure_milliseconds(
    variants: Sequence[Callable[[], object]], rounds: int
) -> list[float]:
    """Returns the median CPU time of each function; all run in turn in each round."""
    rows = []
    for _ in range(rounds):
        clock = [time.process_time()]
        for variant in variants:
            variant()
            clock.append(time.process_time())
        rows.append(1e3 * np.diff(clock))
    return [statistics.median(times) for times in np.transpose(rows).tolist()]


def attention_costs(batch: int, rounds: int) -> list[float]:
    """Returns the cost of cross-attention in all layers at one step of the search.

    Measures scores, softmax and sums of values. The layer has width 1, so that its
    product with W_O, which is the same in both variants, takes almost no time.

    Returns:
        Milliseconds with one copy of keys and values per sentence, milliseconds with a
        copy per hypothesis, then the megabytes of keys and values in both.
    """
    heads, beam = measured.HEADS, measured.BEAM
    size = measured.WIDTH // heads
    attention = MultiHeadAttention(heads, size, size)
    attention.build((None, None, 1))
    queries, keys, values = (
        [tf.random.normal([batch, heads, n, size]) for _ in range(measured.LAYERS)]
        for n in (beam, measured.LENGTH, measured.LENGTH)
    )
    # Hypotheses move before heads, to become rows of the batch.
    queries_by_row = [tf.transpose(x, (0, 2, 1, 3))[..., None, :] for x in queries]
    single_queries = [tf.reshape(x, (-1, heads, 1, size)) for x in queries_by_row]
    tiled = [[tf.repeat(x, beam, axis=0) for x in part] for part in (keys, values)]

    @tf.function
    def attend(*layers):
        return [attention.attend(*layer, None) for layer in zip(*layers, strict=True)]

    variants = [
        lambda: attend(queries, keys, values),
        lambda: attend(single_queries, *tiled),
    ]
    megabytes = [4e-6 * tf.size(part).numpy() for part in ([keys, values], tiled)]
    return [*measure_milliseconds(variants, rounds), *megabytes]


def logits_times(rows: int, rounds: int) -> list[float]:
    """Returns the milliseconds of logits from embedding and transposed embedding.

    The third value is the time of the transposition, which a search does once.
    """
    embedding = SharedEmbedding(measured.VOCABULARY, measured.WIDTH)
    embedding.build()
    hidden = tf.random.normal([1, rows, measured.WIDTH])
    logits, transpose = (
        tf.function(embedding.logits),
        tf.function(embedding.output_kernel),
    )
    transposed = transpose()
    variants = [lambda: logits(hidden), lambda: logits(hidden, transposed), transpose]
    return measure_milliseconds(variants, rounds)


def make_batches(
    lengths: Sequence[int], sort: bool, remove_finished: bool
) -> list[list[int]]:
    """Returns batches of output lengths.

    Unless `remove_finished`, each length is the longest of its batch: this costs the
    same as keeping finished sentences, and changes nothing else.
    """
    arranged = sorted(lengths, reverse=True) if sort else list(lengths)
    batches = [arranged[i : i + BATCH] for i in range(0, len(arranged), BATCH)]
    return (
        batches if remove_finished else [[max(batch)] * len(batch) for batch in batches]
    )


def count_needed_rows(lengths: Sequence[int]) -> int:
    """Returns the number of rows for live hypotheses: one at first, then a beam."""
    return sum(1 + measured.BEAM * (length - 1) for length in lengths)


def count_computed_rows(arranged: Sequence[list[list[int]]]) -> list[int]:
    """Returns the number of hypotheses that each arrangement passes to the model."""
    computed = tf.Variable(0)
    # All subwords are equally likely, and no sentence ends before its limit.
    logits_V = tf.where(tf.range(40) == measured.EOS, -1e4, 0.0)

    def step(tokens, _position, _first_slot, _visible_slots, cache):
        computed.assign_add(tf.size(tokens))
        return tf.zeros_like(tokens, tf.float32)[..., None] + logits_V, cache

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def search(limits):
        return beam_search(
            step,
            {},
            max_lengths=limits,
            max_decode_length=tf.reduce_max(limits),
            vocabulary_size=40,
            settings=SETTINGS,
            grow_fn=lambda cache, _kept_slots, _new_slots: cache,
        )

    ends = [0]
    for arrangement in arranged:
        for lengths in arrangement:
            search(tf.constant(lengths))
        ends.append(int(computed))
    return np.diff(ends).tolist()


def search_times(arranged: Sequence[list[list[int]]], rounds: int) -> list[float]:
    """Returns the milliseconds of searches whose outputs have the given lengths."""
    model = write.build_model(ExperimentConfig(model=SMALL), SMALL_VOCABULARY)
    search = tf.function(
        functools.partial(
            search_translations, model, settings=SETTINGS, extra_length=0
        ),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )

    def translate(lengths: list[int]) -> list[int]:
        random = np.random.default_rng(0)
        sources = [
            random.integers(3, SMALL_VOCABULARY, n - 1).tolist() for n in lengths
        ]
        return search(tf.constant(measured.pad_batch(sources))).lengths[:, 0].numpy()

    # Tracing is not timed.
    translate([2])
    variants = [lambda own=own: list(map(translate, own)) for own in arranged]
    return measure_milliseconds(variants, rounds)


if __name__ == "__main__":
    main()
