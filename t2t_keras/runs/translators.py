"""Translators of models of runs, each with a search that is traced once."""

import dataclasses
import functools
import os
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.shortlist import Shortlist
from t2t_keras.decoding.transformer_search import Ensemble, search_translations
from t2t_keras.errors import UserError
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.reading import TextAdapter
from t2t_keras.text.vocabulary import UNK_ID, Vocabulary
from t2t_keras.translation.translator import Search, Translator

# Maximum concurrent searches on CPUs. Each needs its own memory.
_MAX_SEARCHES = 4

# Maximum source length in tokens; longer sources are truncated. Memory of attention
# grows with the square of the length, and a sentence this long is a paragraph.
MAX_SOURCE_LENGTH = 512


def build_translator(  # noqa: PLR0913 - most are optional
    model: Transformer | Ensemble,
    vocabulary: Vocabulary,
    config: DecodingConfig,
    n_best: int = 1,
    text_adapter: TextAdapter | None = None,
    sampling: Any = None,
    with_prefixes: bool = False,
    shortlist: Shortlist | None = None,
    with_terms: bool = False,
    keep: Callable[[Hashable, Callable[[], Search]], Search] = lambda _, make: make(),
) -> Translator:
    """Returns a translator that traces the search once for all shapes.

    Args:
        model: The model.
        vocabulary: Vocabulary of both languages.
        config: Settings of the search.
        n_best: Number of translations of each line.
        text_adapter: Converts lines to sources, and outputs to translations.
        sampling: A `Sampling`, for translations that are drawn.
        with_prefixes: Whether the translator is given prefixes.
        shortlist: Restricts the tokens that the search considers, of a model of one
            pair of languages.
        with_terms: Whether the translator is given terms.
        keep: Returns the search with some settings, made before or by its argument.
            All languages of a model have one. Default: none is kept.
    """
    if sampling is not None:
        config = dataclasses.replace(config, beam_size=n_best)
    settings = dataclasses.replace(search_settings(config, n_best), sampling=sampling)
    has_languages = vocabulary.languages is not None
    search = keep(
        ("search", settings, config.extra_length, with_prefixes, with_terms),
        lambda: _trace_search(
            functools.partial(
                search_translations,
                model,
                settings=settings,
                extra_length=config.extra_length,
                shortlist=shortlist,
            ),
            with_prefixes,
            with_seeds=sampling is not None,
            with_first_tokens=has_languages,
            with_terms=with_terms,
        ),
    )
    # Caches grow with the number of hypotheses; a beam is narrower.
    most_samples = 8
    divisor = max(1, n_best // most_samples) if sampling else 1
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    return Translator(
        search,
        vocabulary,
        max_source_length=longest_source(model),
        extra_length=config.extra_length,
        tokens_per_batch=4096 // divisor,
        max_searches=1 if has_gpu else min(os.cpu_count() or 1, _MAX_SEARCHES),
        text_adapter=text_adapter,
    )


def _trace_search(
    search: Callable[..., BeamSearchResult],
    with_prefixes: bool,
    with_seeds: bool,
    with_first_tokens: bool,
    with_terms: bool,
) -> Search:
    """Returns the search of a `Translator`, a graph for all shapes."""
    specs = {"prefixes": tf.TensorSpec([None, None], tf.int32)} if with_prefixes else {}
    if with_seeds:
        specs["seeds"] = tf.TensorSpec([None], tf.int64)
    if with_first_tokens:
        specs["first_tokens"] = tf.TensorSpec([None], tf.int32)
    if with_terms:
        specs["terms"] = tf.TensorSpec([None, None, None], tf.int32)
    ids = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(
        lambda source, options: search(source, options=RowOptions(**options)),
        input_signature=[ids, specs],
        autograph=False,
    )
    return lambda source, **options: traced(
        source,
        {name: tf.cast(options[name], spec.dtype) for name, spec in specs.items()},
    )


def search_settings(
    config: DecodingConfig, n_best: int | None = None
) -> BeamSearchSettings:
    """Returns the settings of a beam search for translations.

    Args:
        config: The settings of a run, or others.
        n_best: Number of translations. Default: the beam size.
    """
    return BeamSearchSettings(
        beam_size=config.beam_size,
        alpha=config.alpha,
        n_best=n_best,
        length_penalty=config.length_penalty,
        suppressed=(UNK_ID,) if config.suppress_unknown else (),
        min_length=config.min_length,
        no_repeat_ngram=config.no_repeat_ngram,
        renormalize=config.renormalize,
    )


def text_translator(
    trained: TrainedModel,
    decoding: DecodingConfig,
    n_best: int = 1,
    sampling: Any = None,
    with_prefixes: bool = False,
    with_terms: bool = False,
) -> Translator:
    """Returns the translator of raw text that the program `translate` uses.

    The arguments are those of `build_translator`.

    Raises:
        UserError: If `n_best` exceeds the beam size of a search.
    """
    if sampling is None and not 1 <= n_best <= decoding.beam_size:
        raise UserError(
            f"--n_best must be from 1 to --beam_size={decoding.beam_size}. "
            f"Received: {n_best}"
        )
    text_adapter = trained.task.text_adapter(splits_words=True)
    return build_translator(
        trained.search_model,
        trained.vocabulary,
        decoding,
        n_best,
        text_adapter,
        sampling,
        with_prefixes,
        trained.shortlist,
        with_terms,
        keep=trained.keep,
    )


def longest_source(model: Transformer | Ensemble) -> int:
    """Returns the maximum source length in tokens, including EOS; the rest is cut."""
    return min(MAX_SOURCE_LENGTH, model.max_positions or MAX_SOURCE_LENGTH)
