"""Beam search compiled by XLA, for servers that are started with XLA.

XLA compiles a program for each shape, which takes seconds to minutes. So sources are
padded to a few lengths, and a server joins requests into batches of a few sizes. Each
combination is one program, compiled while the export is loaded.

Shapes: B batch, S source length.
"""

from collections.abc import Sequence

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.serving.export.ids_module import Search
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import Tensor

# Most sentences have up to 32 tokens, nearly all up to 128.
SHORT_BUCKETS = (32, 128)


def buckets_up_to(max_length: int) -> tuple[int, ...]:
    """Returns the lengths that sources are padded to, ascending."""
    return (*(length for length in SHORT_BUCKETS if length < max_length), max_length)


def compile_search(search: Search, buckets: Sequence[int]) -> Search:
    """Returns a search with the same results that XLA compiles.

    With options for each sentence it is not compiled, because the number of
    hypotheses is then known only at run time.

    Args:
        search: Search for sources of any length.
        buckets: Lengths to pad sources to, ascending. No source exceeds the last.
    """

    def padded_search(
        source: Tensor,
        settings: BeamSearchSettings,
        *,
        options: RowOptions | None = None,
        growing: bool = False,
    ) -> BeamSearchResult:
        if options is not None:
            return search(source, settings, options=options)

        # XLA has no strings: the compiled function takes and returns ids only.
        @tf.function(autograph=False, jit_compile=True)
        def inner(source: Tensor) -> BeamSearchResult:
            return search(source, settings, growing=growing)

        rows, length = tf.unstack(tf.shape(source))
        at_least = tf.searchsorted(tf.constant(buckets), length[None])[0]
        missing = tf.gather(tf.constant(buckets), at_least) - length
        # An empty batch gets one row, or it would need another program.
        missing_rows = tf.maximum(1 - rows, 0)
        padded = tf.pad(
            source, [[0, missing_rows], [0, missing]], constant_values=PAD_ID
        )
        return BeamSearchResult(*(part[:rows] for part in inner(padded)))

    return padded_search
