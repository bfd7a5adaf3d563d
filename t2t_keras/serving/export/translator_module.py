"""SavedModel of a translator: text in, translations and scores out.

The root is a plain `tf.Module` that holds raw variables, the tokenizer and traced
functions, but no Keras object. A Keras variable that is tracked is saved twice, and a
server restores the copy that is never read (ADR 0014).

Shapes: B batch, S source length, T target length, N translations of each text, L
output length.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.decoding.search_state import IMPOSSIBLE, BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions, length_penalty
from t2t_keras.decoding.terms import BEAMS_WITH_TERMS
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
from t2t_keras.text.term_encoder import TermEncoder
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, Vocabulary
from t2t_keras.typing import Tensor

_LANGUAGE_SPECS = tuple(
    tf.TensorSpec(None, tf.string, name=name)
    for name in (signature.SOURCE_LANGUAGE, signature.TARGET_LANGUAGE)
)


class _Languages(NamedTuple):
    """Codes of the languages of a request, as it has them: scalars or [B] string."""

    source: Tensor
    target: Tensor


class _ReadSources(NamedTuple):
    """Sources of a request, and what their languages determine.

    Attributes:
        text: [B] string, the sources as text.
        read: The same as ids; those of unknown languages are empty.
        options: Options of the search, with the first tokens of translations.
        target_tags: [B] int32, ids that begin targets; None for those of the model.
        is_known: [B] bool, whether the model has both languages of a text.
    """

    text: Tensor
    read: EncodedTexts
    options: RowOptions | None
    target_tags: Tensor | None
    is_known: Tensor


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
        with_terms: Whether there is a signature that takes terms.
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
        with_terms: bool = False,
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
        self.nbest = self._with_languages(self._nbest, text)
        self.translate_with_options = self._build_translate_with_options(text)
        self.score = self._with_languages(self._score, *pair)
        self.attention = self._with_languages(self._attention, *pair)
        self._sampling = sampling
        self.sample = self.translate_with_prefix = self.nbest_with_terms = None
        if sampling is not None:
            seed = tf.TensorSpec([None], tf.int64, name=signature.SEED)
            self.sample = self._with_languages(self._sample, text, seed)
        if with_prefix:
            prefix = tf.TensorSpec([None], tf.string, name=signature.PREFIX)
            self.translate_with_prefix = self._with_languages(
                self._translate_with_prefix, text, prefix
            )
        if with_terms:
            self._term_encoder = TermEncoder(vocabulary)
            terms = tf.TensorSpec([None], tf.string, name=signature.TERMS)
            self.nbest_with_terms = self._with_languages(
                self._nbest_with_terms, text, terms
            )

    def _with_languages(
        self, compute: Callable[..., Outputs], *specs: tf.TensorSpec
    ) -> Any:
        """Returns a traced function that also takes languages, if the model has some.

        Args:
            compute: Function of one or two tensors, then `_Languages` or None.
            specs: Specs of these tensors.
        """
        if self._vocabulary.languages is None:
            return traced(lambda *tensors: compute(*tensors, None), *specs)
        # A default must be a tensor, or the export would not contain it.
        own = tf.constant("")

        def of_one(
            first: Tensor,
            source_language: Tensor = own,
            target_language: Tensor = own,
        ) -> Outputs:
            return compute(first, _Languages(source_language, target_language))

        def of_two(
            first: Tensor,
            second: Tensor,
            source_language: Tensor = own,
            target_language: Tensor = own,
        ) -> Outputs:
            return compute(first, second, _Languages(source_language, target_language))

        function = of_one if len(specs) == 1 else of_two
        return traced(function, *specs, *_LANGUAGE_SPECS)

    def signatures(self) -> dict[str, Any]:
        """Returns the functions to save as signatures, by name."""
        optional = {
            signature.SAMPLE: self.sample,
            signature.TRANSLATE_WITH_PREFIX: self.translate_with_prefix,
            signature.NBEST_WITH_TERMS: self.nbest_with_terms,
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
        sources = self._read(text, None)
        return self._best_outputs(self._best(sources.read.ids), sources)

    def _read(
        self,
        lines: Tensor,
        languages: _Languages | None,
        reader: TextReader | None = None,
        name: str = signature.TEXT,
    ) -> _ReadSources:
        """Returns lines [B] string as sources; `reader` is by default that of texts."""
        reader = self._sources if reader is None else reader
        text = self._text_adapter.source_in_graph(check_texts(lines, name))
        if languages is None:
            known_B = tf.ones_like(text, tf.bool)
            return _ReadSources(text, reader.read_in_graph(text), None, None, known_B)
        each, vocabulary = tf.shape(text), self._vocabulary
        source_tags_B = vocabulary.source.tags_in_graph(
            check_option(languages.source, each, signature.SOURCE_LANGUAGE)
        )
        target_tags_B = vocabulary.tags_in_graph(
            check_option(languages.target, each, signature.TARGET_LANGUAGE)
        )
        known_B = (source_tags_B != PAD_ID) & (target_tags_B != PAD_ID)
        read = reader.read_in_graph(tf.where(known_B, text, ""), source_tags_B)
        options = RowOptions(first_tokens=target_tags_B)
        return _ReadSources(text, read, options, target_tags_B, known_B)

    def _answers(self, text: Tensor, tokens_BNL: Tensor) -> Tensor:
        """Returns N answers to the user for each text, [B, N] string."""
        shape = tf.shape(tokens_BNL)
        rows = tf.reshape(tokens_BNL, [-1, shape[2]])
        targets_BN = tf.reshape(self._vocabulary.decode_in_graph(rows), shape[:2])
        return self._text_adapter.answer_in_graph(
            self._sources.truncate_in_graph(text), targets_BN
        )

    def _best_outputs(self, result: BeamSearchResult, sources: _ReadSources) -> Outputs:
        """Returns the outputs of the signatures that return one translation."""
        # An empty text stays empty; the model would make up a translation.
        empty_B = sources.read.lengths <= 1
        translation_B = self._answers(sources.text, result.tokens[:, :1])[:, 0]
        scores_B = tf.where(empty_B, 0.0, result.scores[:, 0])
        return {
            signature.TRANSLATION: tf.where(empty_B, "", translation_B),
            signature.SCORE: tf.where(sources.is_known, scores_B, IMPOSSIBLE),
            signature.TRUNCATED: sources.read.truncated,
        }

    def _nbest(self, text: Tensor, languages: _Languages | None) -> Outputs:
        sources = self._read(text, languages)
        settings = dataclasses.replace(self._settings, n_best=self._limits.n_best)
        result = self._search(sources, settings)
        return self._several_outputs(result, sources)

    def _search(
        self,
        sources: _ReadSources,
        settings: BeamSearchSettings,
        **options: Tensor,
    ) -> BeamSearchResult:
        """Returns the result of a search with further options of each row, if any."""
        row_options = sources.options
        if options:
            row_options = (row_options or RowOptions())._replace(**options)
        return self._model.search(sources.read.ids, settings, options=row_options)

    def _sample(
        self, text: Tensor, seed: Tensor, languages: _Languages | None
    ) -> Outputs:
        sources = self._read(text, languages)
        seeds_B = check_option(seed, tf.shape(text), signature.SEED)
        n_best = self._limits.n_best
        settings = dataclasses.replace(
            self._settings, beam_size=n_best, n_best=n_best, sampling=self._sampling
        )
        result = self._search(sources, settings, seeds=seeds_B)
        return self._several_outputs(result, sources)

    def _translate_with_prefix(
        self, text: Tensor, prefix: Tensor, languages: _Languages | None
    ) -> Outputs:
        sources = self._read(text, languages)
        prefix = check_texts(prefix, signature.PREFIX)
        prefixes = self._targets.read_in_graph(
            check_option(prefix, tf.shape(text), signature.PREFIX), sources.target_tags
        )
        ids_BP = tf.where(prefixes.ids == EOS_ID, PAD_ID, prefixes.ids)
        result = self._search(sources, self._settings, prefixes=ids_BP)
        read = sources.read
        # At the limit of its length a translation ends, even within its prefix.
        is_short_B = (result.lengths[:, 0] < prefixes.lengths) & (read.lengths > 1)
        truncated_B = read.truncated | prefixes.truncated | is_short_B
        read = read._replace(truncated=truncated_B)
        return self._best_outputs(result, sources._replace(read=read))

    def _nbest_with_terms(
        self, text: Tensor, terms: Tensor, languages: _Languages | None
    ) -> Outputs:
        sources = self._read(text, languages)
        each = tf.shape(text)
        terms_B = check_option(
            check_texts(terms, signature.TERMS), each, signature.TERMS
        )
        terms_BCP = self._term_encoder.encode_in_graph(terms_B)
        has_terms_B = tf.reduce_any(terms_BCP != PAD_ID, axis=[1, 2])
        beam_size = self._settings.beam_size
        widest = BEAMS_WITH_TERMS * beam_size
        settings = dataclasses.replace(
            self._settings, beam_size=widest, n_best=self._limits.n_best
        )
        result = self._search(
            sources,
            settings,
            terms=terms_BCP,
            beam_sizes=tf.where(has_terms_B, widest, beam_size),
        )
        return self._several_outputs(result, sources)

    def _several_outputs(
        self, result: BeamSearchResult, sources: _ReadSources
    ) -> Outputs:
        """Returns the outputs of the signatures that return N translations."""
        n_best = self._limits.n_best
        texts_BN = self._answers(sources.text, result.tokens)
        empty_B1 = sources.read.lengths[:, None] <= 1
        # An empty text has one translation, with probability 1.
        empty_scores_N = tf.constant([0.0] + [IMPOSSIBLE] * (n_best - 1))
        scores_BN = tf.where(empty_B1, empty_scores_N, result.scores)
        return {
            signature.TRANSLATIONS: tf.where(empty_B1, "", texts_BN),
            signature.SCORES: tf.where(
                sources.is_known[:, None], scores_BN, IMPOSSIBLE
            ),
            signature.LENGTHS: tf.where(empty_B1, 0, result.lengths),
            signature.TRUNCATED: sources.read.truncated,
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

        def search(
            text: Tensor,
            options: tuple[Tensor, Tensor, Tensor],
            languages: _Languages | None,
        ) -> Outputs:
            sources = self._read(text, languages)
            each = tf.shape(text)
            names = signature.BEAM_SIZE, signature.ALPHA, signature.MAX_LENGTH
            beams_B, alphas_B, lengths_B = (
                check_option(option, each, name)
                for option, name in zip(options, names, strict=True)
            )
            if languages is not None:
                beams_B = tf.where(beams_B == 0, settings.beam_size, beams_B)
            is_number_B = ~tf.math.is_nan(alphas_B)
            alphas_B = tf.where(is_number_B, alphas_B, settings.alpha)
            result = self._search(
                sources,
                wide,
                beam_sizes=tf.clip_by_value(beams_B, 1, widest),
                alphas=tf.clip_by_value(alphas_B, 0.0, MAX_ALPHA),
                max_lengths=tf.clip_by_value(lengths_B, 1, limits.target_length),
            )
            return self._best_outputs(result, sources)

        def translate_with_options(
            text: Tensor,
            beam_size: Tensor = default_beam_size,
            alpha: Tensor = default_alpha,
            max_length: Tensor = default_length,
        ) -> Outputs:
            return search(text, (beam_size, alpha, max_length), None)

        specs = [
            tf.TensorSpec(None, tf.int32, name=signature.BEAM_SIZE),
            tf.TensorSpec(None, tf.float32, name=signature.ALPHA),
            tf.TensorSpec(None, tf.int32, name=signature.MAX_LENGTH),
        ]
        if self._vocabulary.languages is None:
            return traced(translate_with_options, text_spec, *specs)
        own = tf.constant("")

        def translate_with_languages(
            text: Tensor,
            beam_size: Tensor = default_beam_size,
            alpha: Tensor = default_alpha,
            max_length: Tensor = default_length,
            source_language: Tensor = own,
            target_language: Tensor = own,
        ) -> Outputs:
            languages = _Languages(source_language, target_language)
            return search(text, (beam_size, alpha, max_length), languages)

        return traced(translate_with_languages, text_spec, *specs, *_LANGUAGE_SPECS)

    def _score(
        self, source: Tensor, target: Tensor, languages: _Languages | None
    ) -> Outputs:
        source, target = check_pairs(source, target)
        read = self._read(source, languages, name=signature.SOURCE)
        sources = read.read
        targets = self._targets.read_in_graph(target, read.target_tags)
        log_probs_BT = self._model.target_log_probs(sources.ids, targets.ids)
        log_prob_B = tf.reduce_sum(log_probs_BT, axis=1)
        log_prob_B = tf.where(read.is_known, log_prob_B, IMPOSSIBLE)
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

    def _attention(
        self, source: Tensor, target: Tensor, languages: _Languages | None
    ) -> Outputs:
        source, target = check_pairs(source, target)
        read = self._read(
            source, languages, self._attention_sources, name=signature.SOURCE
        )
        sources = read.read
        targets = self._attention_targets.read_in_graph(target, read.target_tags)
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
