"""What the parts of the search give, each beside the search without it.

    python -m benchmarks.decoding.parts

Attention to the encoder's output with and without a copy for each hypothesis; weights
laid out once for all steps; batches sorted by length, and sentences that leave when
they are done. Rows are counted in the search itself. Times are of one thread of CPU,
and what is compared runs in turn: that can be trusted on a machine that others use.
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
from t2t_keras.settings.config import ExperimentConfig, ModelConfig

SETTINGS = BeamSearchSettings(measured.BEAM, measured.ALPHA)
# Base would take minutes to translate so many sentences in so many ways.
SMALL = ModelConfig(num_layers=2, d_model=256, d_ff=1024, num_heads=4)
SMALL_VOCABULARY = 4_000
# Sentences of a batch; rows of a product, from one sentence's four hypotheses up.
BATCH, ROWS = 32, (4, 32, 128, 256)
# Name, whether sentences are sorted, whether they leave when they are done.
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
    given = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print_row("sentences", "memory once, ms", "for each, ms", "once, MB", "each, MB")
    for batch in (8, 32, 64):
        print_row(batch, *attention_costs(batch, given.rounds))
    print_row("rows", "embedding as it stands, ms", "turned, ms", "turning it, ms")
    for rows in ROWS:
        print_row(rows, *logits_times(rows, given.rounds))
    sentences = measured.sentences(given.sentences, real_lengths=True)
    lengths = [len(sentence) + 1 for sentence in sentences]
    arranged = [batches(lengths, *how) for _, *how in ARRANGEMENTS]
    print_row("batches", "rows x steps", "of them for finished", "ms")
    costs = zip(rows_computed(arranged), search_times(arranged, 1), strict=True)
    for (name, *_), (computed, taken) in zip(ARRANGEMENTS, costs, strict=True):
        print_row(name, computed, computed - rows_needed(lengths), taken)


def print_row(*cells: str | float) -> None:
    """Prints a row of a table: what is counted as it is, times with two decimals."""
    texts = [f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(f"| {' | '.join(texts)} |", flush=True)


def milliseconds(ways: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Returns the median time of each way, all in turn in each round."""
    rows = []
    for _ in range(rounds):
        clock = [time.process_time()]
        for way in ways:
            way()
            clock.append(time.process_time())
        rows.append(1e3 * np.diff(clock))
    return [statistics.median(times) for times in np.transpose(rows).tolist()]


def attention_costs(batch: int, rounds: int) -> list[float]:
    """Returns what attention to the encoder's output costs in all layers at a step.

    Scores, softmax and sums of values, by a layer of width 1: its product with W_O is
    alike in both ways, and next to nothing.

    Returns:
        Milliseconds of a sentence's hypotheses as queries of one memory, and of each
        as the query of its own copy; megabytes of keys and values, of both.
    """
    heads, beam = measured.HEADS, measured.BEAM
    size = measured.WIDTH // heads
    attention = MultiHeadAttention(heads, size, size)
    attention.build((None, None, 1))
    queries, keys, values = (
        [tf.random.normal([batch, heads, n, size]) for _ in range(measured.LAYERS)]
        for n in (beam, measured.LENGTH, measured.LENGTH)
    )
    # Hypotheses before heads, as rows of the batch.
    each = [tf.transpose(x, (0, 2, 1, 3))[..., None, :] for x in queries]
    alone = [tf.reshape(x, (-1, heads, 1, size)) for x in each]
    tiled = [[tf.repeat(x, beam, axis=0) for x in part] for part in (keys, values)]

    @tf.function
    def attended(*layers):
        return [attention.attend(*layer, None) for layer in zip(*layers, strict=True)]

    ways = [lambda: attended(queries, keys, values), lambda: attended(alone, *tiled)]
    held = [4e-6 * tf.size(part).numpy() for part in ([keys, values], tiled)]
    return [*milliseconds(ways, rounds), *held]


def logits_times(rows: int, rounds: int) -> list[float]:
    """Returns milliseconds of logits by the embedding as it stands, by it turned round.

    And of turning it, which a search does once.
    """
    embedding = SharedEmbedding(measured.VOCABULARY, measured.WIDTH)
    embedding.build()
    hidden = tf.random.normal([1, rows, measured.WIDTH])
    logits, turn = tf.function(embedding.logits), tf.function(embedding.output_kernel)
    turned = turn()
    ways = [lambda: logits(hidden), lambda: logits(hidden, turned), turn]
    return milliseconds(ways, rounds)


def batches(lengths: Sequence[int], in_order: bool, leave: bool) -> list[list[int]]:
    """Returns batches of output lengths; all the longest, where none may leave sooner.

    That costs what staying does, and differs in nothing else.
    """
    arranged = sorted(lengths, reverse=True) if in_order else list(lengths)
    found = [arranged[i : i + BATCH] for i in range(0, len(arranged), BATCH)]
    return found if leave else [[max(batch)] * len(batch) for batch in found]


def rows_needed(lengths: Sequence[int]) -> int:
    """Returns the rows of a search of live hypotheses alone, one of them at first."""
    return sum(1 + measured.BEAM * (length - 1) for length in lengths)


def rows_computed(arranged: Sequence[list[list[int]]]) -> list[int]:
    """Returns for how many hypotheses each arrangement's searches ask the model."""
    computed = tf.Variable(0)
    # All words are alike, and no sentence ends before its limit.
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
    for own in arranged:
        for lengths in own:
            search(tf.constant(lengths))
        ends.append(int(computed))
    return np.diff(ends).tolist()


def search_times(arranged: Sequence[list[list[int]]], rounds: int) -> list[float]:
    """Returns milliseconds of searches whose outputs are as long as they are to be."""
    model = write.built(ExperimentConfig(model=SMALL), SMALL_VOCABULARY)
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
        return search(tf.constant(measured.padded(sources))).lengths[:, 0].numpy()

    # Traced once for all, which is not to be timed.
    translate([2])
    ways = [lambda own=own: list(map(translate, own)) for own in arranged]
    return milliseconds(ways, rounds)


if __name__ == "__main__":
    main()
