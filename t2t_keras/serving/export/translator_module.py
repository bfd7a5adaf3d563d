"""SavedModel of a translator: text in, translations and scores out.

The root is a plain `tf.Module` that holds raw variables, the tokenizer and traced
functions, but no Keras object. A Keras variable that is tracked is saved twice, and a
server restores the copy that is never read (ADR 0014).

Shapes: B batch, S source length, T target length, N translations of each text, L
output length.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions, length_penalty
from t2t_keras.serving import signature
from t2t_keras.serving.export.ids_module import (
    IdsModule,
    Outputs,
    ServedModel,
    traced,
)
from t2t_keras.serving.export.limits import (
    MAX_ALPHA,
    ServingLimits,
    check_option,
    check_pairs,
    check_texts,
)
from t2t_keras.text.padding import shift_right
from t2t_keras.text.reading import (
    EncodedTexts,
    PlainTextAdapter,
    TextAdapter,
    TextReader,
)
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, Vocabulary
from t2t_keras.typing import Tensor


class TranslatorModule(IdsModule):
    """Variables, tokenizer, and a function for each signature.

    Args:
        model: Model to export.
        vocabulary: Vocabulary of both languages.
        settings: Default settings of the search.
        limits: Limits of a request.
        text_adapter: Converts lines to sources, and outputs to answers. The target in a
            request must be text as the model would write it.
        sampling: If given, signature sample draws from the model.
        with_prefix: Whether there is a signature that takes prefixes.
    """

    def __init__(
        self,
        model: ServedModel,
        vocabulary: Vocabulary,
        settings: BeamSearchSettings,
        limits: ServingLimits,
        text_adapter: TextAdapter | None = None,
        sampling: Any = None,
        with_prefix: bool = False,
    ):
        super().__init__(model, vocabulary, settings, limits)
        self.tokenizers = vocabulary.graph_resources
        self._text_adapter = text_adapter or PlainTextAdapter()
        self._sources = TextReader(
            vocabulary.source, limits.source_length, limits.characters
        )
        self._targets = TextReader(vocabulary, limits.target_length)
        length = limits.attention_length
        self._attention_sources = TextReader(vocabulary.source, length)
        self._attention_targets = TextReader(vocabulary, length)
        text = tf.TensorSpec([None], tf.string, name=signature.TEXT)
        pair = [
            tf.TensorSpec([None], tf.string, name=name)
            for name in (signature.SOURCE, signature.TARGET)
        ]
        self.translate = traced(self._translate, text)
        self.nbest = traced(self._nbest, text)
        self.translate_with_options = self._build_translate_with_options(text)
        self.score = traced(self._score, *pair)
        self.attention = traced(self._attention, *pair)
        self._sampling = sampling
        self.sample = self.translate_with_prefix = None
        if sampling is not None:
            seed = tf.TensorSpec([None], tf.int64, name=signature.SEED)
            self.sample = traced(self._sample, text, seed)
        if with_prefix:
            prefix = tf.TensorSpec([None], tf.string, name=signature.PREFIX)
            self.translate_with_prefix = traced(
                self._translate_with_prefix, text, prefix
            )

    def signatures(self) -> dict[str, Any]:
        """Returns the functions to save as signatures, by name."""
        optional = {
            signature.SAMPLE: self.sample,
            signature.TRANSLATE_WITH_PREFIX: self.translate_with_prefix,
        }
        return {
            signature.TRANSLATE: self.translate,
            signature.NBEST: self.nbest,
            signature.TRANSLATE_WITH_OPTIONS: self.translate_with_options,
            signature.SCORE_TARGET: self.score,
            signature.ATTENTION: self.attention,
            signature.TRANSLATE_IDS: self.translate_ids,
            **{name: function for name, function in optional.items() if function},
        }

    def _translate(self, text: Tensor) -> Outputs:
        text = self._source(check_texts(text, signature.TEXT))
        read = self._sources.read_in_graph(text)
        return self._best_outputs(self._best(read.ids), read, text)

    def _source(self, lines: Tensor) -> Tensor:
        return self._text_adapter.source_in_graph(lines)

    def _answers(self, text: Tensor, tokens_BNL: Tensor) -> Tensor:
        """Returns N answers to the user for each text, [B, N] string."""
        shape = tf.shape(tokens_BNL)
        rows = tf.reshape(tokens_BNL, [-1, shape[2]])
        targets_BN = tf.reshape(self._vocabulary.decode_in_graph(rows), shape[:2])
        return self._text_adapter.answer_in_graph(
            self._sources.truncate_in_graph(text), targets_BN
        )

    def _best_outputs(
        self, result: BeamSearchResult, read: EncodedTexts, text: Tensor
    ) -> Outputs:
        """Returns the outputs of the signatures that return one translation."""
        # An empty text stays empty; the model would make up a translation.
        empty_B = read.lengths <= 1
        translation_B = self._answers(text, result.tokens[:, :1])[:, 0]
        return {
            signature.TRANSLATION: tf.where(empty_B, "", translation_B),
            signature.SCORE: tf.where(empty_B, 0.0, result.scores[:, 0]),
            signature.TRUNCATED: read.truncated,
        }

    def _nbest(self, text: Tensor) -> Outputs:
        text = self._source(check_texts(text, signature.TEXT))
        read = self._sources.read_in_graph(text)
        settings = dataclasses.replace(self._settings, n_best=self._limits.n_best)
        result = self._model.search(read.ids, settings)
        return self._several_outputs(result, read, text)

    def _sample(self, text: Tensor, seed: Tensor) -> Outputs:
        text = self._source(check_texts(text, signature.TEXT))
        read = self._sources.read_in_graph(text)
        seeds_B = check_option(seed, tf.shape(text), signature.SEED)
        n_best = self._limits.n_best
        settings = dataclasses.replace(
            self._settings, beam_size=n_best, n_best=n_best, sampling=self._sampling
        )
        options = RowOptions(seeds=seeds_B)
        result = self._model.search(read.ids, settings, options=options)
        return self._several_outputs(result, read, text)

    def _translate_with_prefix(self, text: Tensor, prefix: Tensor) -> Outputs:
        text = self._source(check_texts(text, signature.TEXT))
        read = self._sources.read_in_graph(text)
        prefix = check_texts(prefix, signature.PREFIX)
        prefixes = self._targets.read_in_graph(
            check_option(prefix, tf.shape(text), signature.PREFIX)
        )
        ids_BP = tf.where(prefixes.ids == EOS_ID, PAD_ID, prefixes.ids)
        options = RowOptions(prefixes=ids_BP)
        result = self._model.search(read.ids, self._settings, options=options)
        # At the limit of its length a translation ends, even within its prefix.
        is_short_B = (result.lengths[:, 0] < prefixes.lengths) & (read.lengths > 1)
        truncated_B = read.truncated | prefixes.truncated | is_short_B
        return self._best_outputs(result, read._replace(truncated=truncated_B), text)

    def _several_outputs(
        self, result: BeamSearchResult, read: EncodedTexts, text: Tensor
    ) -> Outputs:
        """Returns the outputs of the signatures that return N translations."""
        n_best = self._limits.n_best
        texts_BN = self._answers(text, result.tokens)
        empty_B1 = read.lengths[:, None] <= 1
        # An empty text has one translation, with probability 1.
        empty_scores_N = tf.constant([0.0] + [float("-inf")] * (n_best - 1))
        return {
            signature.TRANSLATIONS: tf.where(empty_B1, "", texts_BN),
            signature.SCORES: tf.where(empty_B1, empty_scores_N, result.scores),
            signature.LENGTHS: tf.where(empty_B1, 0, result.lengths),
            signature.TRUNCATED: read.truncated,
        }

    def _build_translate_with_options(self, text_spec: tf.TensorSpec) -> Any:
        """Returns the signature whose options have defaults.

        The defaults are tensors, because the export would not contain defaults that
        are Python numbers.
        """
        limits, settings = self._limits, self._settings
        default_beam_size = tf.constant(settings.beam_size)
        default_alpha = tf.constant(settings.alpha, tf.float32)
        default_length = tf.constant(limits.target_length)
        widest = max(limits.beam_size, settings.beam_size)
        wide = dataclasses.replace(settings, beam_size=widest)

        def translate_with_options(
            text: Tensor,
            beam_size: Tensor = default_beam_size,
            alpha: Tensor = default_alpha,
            max_length: Tensor = default_length,
        ) -> Outputs:
            text = self._source(check_texts(text, signature.TEXT))
            read = self._sources.read_in_graph(text)
            each = tf.shape(text)
            beams_B = check_option(beam_size, each, signature.BEAM_SIZE)
            alphas_B = check_option(alpha, each, signature.ALPHA)
            lengths_B = check_option(max_length, each, signature.MAX_LENGTH)
            is_number_B = ~tf.math.is_nan(alphas_B)
            alphas_B = tf.where(is_number_B, alphas_B, settings.alpha)
            options = RowOptions(
                beam_sizes=tf.clip_by_value(beams_B, 1, widest),
                alphas=tf.clip_by_value(alphas_B, 0.0, MAX_ALPHA),
                max_lengths=tf.clip_by_value(lengths_B, 1, limits.target_length),
            )
            result = self._model.search(read.ids, wide, options=options)
            return self._best_outputs(result, read, text)

        any_shape = tf.TensorShape(None)
        specs = [
            tf.TensorSpec(any_shape, tf.int32, name=signature.BEAM_SIZE),
            tf.TensorSpec(any_shape, tf.float32, name=signature.ALPHA),
            tf.TensorSpec(any_shape, tf.int32, name=signature.MAX_LENGTH),
        ]
        return traced(translate_with_options, text_spec, *specs)

    def _score(self, source: Tensor, target: Tensor) -> Outputs:
        source, target = check_pairs(source, target)
        sources = self._sources.read_in_graph(self._source(source))
        targets = self._targets.read_in_graph(target)
        log_probs_BT = self._model.target_log_probs(sources.ids, targets.ids)
        log_prob_B = tf.reduce_sum(log_probs_BT, axis=1)
        lengths_B = tf.cast(targets.lengths, tf.float64)
        kind = self._settings.length_penalty
        penalty_B = length_penalty(lengths_B, self._settings.alpha, kind)
        return {
            signature.LOG_PROB: log_prob_B,
            signature.SCORE: log_prob_B / tf.cast(penalty_B, tf.float32),
            signature.TOKEN_LOG_PROBS: log_probs_BT,
            signature.TARGET_TOKENS: self._vocabulary.pieces_in_graph(targets.ids),
            signature.TARGET_LENGTH: targets.lengths,
            signature.TRUNCATED: sources.truncated | targets.truncated,
        }

    def _attention(self, source: Tensor, target: Tensor) -> Outputs:
        source, target = check_pairs(source, target)
        sources = self._attention_sources.read_in_graph(self._source(source))
        targets = self._attention_targets.read_in_graph(target)
        shifted_BT = shift_right(targets.ids)
        encoder, decoder, memory = self._model.attention(sources.ids, shifted_BT)
        return {
            signature.ENCODER_ATTENTION: encoder,
            signature.DECODER_ATTENTION: decoder,
            signature.MEMORY_ATTENTION: memory,
            signature.SOURCE_TOKENS: self._vocabulary.source.pieces_in_graph(
                sources.ids
            ),
            signature.TARGET_TOKENS: self._vocabulary.pieces_in_graph(targets.ids),
            signature.SOURCE_LENGTH: sources.lengths,
            signature.TARGET_LENGTH: targets.lengths,
            signature.TRUNCATED: sources.truncated | targets.truncated,
        }
