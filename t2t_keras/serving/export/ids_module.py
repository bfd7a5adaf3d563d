"""SavedModel with token ids in and out, for clients that tokenize: core ops only.

It loads in any TensorFlow, without TensorFlow Text. A process that loads a SavedModel
must know the ops of all its signatures, including those that it does not call.

For servers that are started with XLA, the search is compiled. XLA compiles a program
for each shape, which takes seconds to minutes. So sources are padded to a few lengths,
and a server joins requests into batches of a few sizes. Each combination is one
program, compiled while the export is loaded.

Shapes: B batch, S source length, T target length, N translations of each, L output
length.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.serving import signature
from t2t_keras.serving.export.limits import ServingLimits, check_ids
from t2t_keras.text.vocabulary import PAD_ID, Vocabulary
from t2t_keras.typing import Tensor

# Most sentences have up to 32 tokens, nearly all up to 128.
SHORT_BUCKETS = (32, 128)


class Search(Protocol):
    """A search for translations."""

    def __call__(
        self,
        source: Tensor,
        settings: BeamSearchSettings,
        *,
        options: RowOptions | None = None,
        growing: bool = True,
    ) -> BeamSearchResult:
        """Returns the N best translations of source ids [B, S] int32.

        Args:
            source: Each row ended by EOS and padded with 0.
            settings: Settings of the beam search.
            options: Options of each row, which replace the settings.
            growing: Whether shapes may change during the search; False under XLA.
        """
        ...


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


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model as functions that can be traced.

    Source and target are ids [B, S] and [B, T] int32, each row ended by EOS and
    padded with 0.

    Attributes:
        search: Search for translations.
        target_log_probs: Function of source and target that returns the log
            probability of each target token, [B, T] float32; 0 at padding.
        attention: Function of source and decoder input that returns the weights of
            encoder, decoder, and from decoder to encoder, shaped as in `signature`.
        weights: All variables that these functions read.
    """

    search: Search
    target_log_probs: Callable[[Tensor, Tensor], Tensor]
    attention: Callable[[Tensor, Tensor], Sequence[Any]]
    weights: Sequence[tf.Variable]


Outputs = Mapping[str, Tensor]


def traced(compute: Callable[..., Any], *specs: tf.TensorSpec) -> Any:
    """Returns a function of such tensors that is traced, without AutoGraph."""
    return tf.function(compute, autograph=False, input_signature=specs)


class IdsModule(tf.Module):
    """Variables, and the signatures that take ids.

    Args:
        model: Model to export.
        vocabulary: Vocabulary of both languages.
        settings: Default settings of the search.
        limits: Limits of a request.
    """

    def __init__(
        self,
        model: ServedModel,
        vocabulary: Vocabulary,
        settings: BeamSearchSettings,
        limits: ServingLimits,
    ):
        super().__init__()
        self.weights = list(model.weights)
        self._model = model
        self._vocabulary = vocabulary
        self._settings = dataclasses.replace(settings, n_best=1)
        self._limits = limits
        # Several signatures search for one translation: it is traced and saved once.
        self._best = traced(
            lambda ids: model.search(ids, self._settings),
            tf.TensorSpec([None, None], tf.int32),
        )
        ids = tf.TensorSpec([None, None], tf.int32, name=signature.INPUT_IDS)
        self.translate_ids = traced(self._translate_ids, ids)
        output_ids = tf.TensorSpec([None, None], tf.int32, name=signature.OUTPUT_IDS)
        self.detokenize = traced(self._detokenize, output_ids)

    def signatures(self) -> dict[str, Any]:
        """Returns the functions to save as signatures, by name."""
        return {
            signature.TRANSLATE: self.translate_ids,
            signature.TRANSLATE_IDS: self.translate_ids,
            signature.DETOKENIZE: self.detokenize,
        }

    def _translate_ids(self, input_ids: Tensor) -> Outputs:
        ids_BS, truncated_B = check_ids(
            input_ids, self._vocabulary.source.size, self._limits.source_length
        )
        result = self._best(ids_BS)
        return {
            signature.OUTPUT_IDS: result.tokens[:, 0],
            signature.OUTPUT_LENGTH: result.lengths[:, 0],
            signature.SCORE: result.scores[:, 0],
            signature.TRUNCATED: truncated_B,
        }

    def _detokenize(self, output_ids: Tensor) -> Outputs:
        ids_BL, _ = check_ids(
            output_ids, self._vocabulary.size, self._limits.target_length
        )
        return {signature.TRANSLATION: self._vocabulary.decode_in_graph(ids_BL)}
