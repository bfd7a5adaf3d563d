"""Beam search over any step function.

Shapes: B sentences, W live hypotheses of each, N hypotheses returned, L longest
output, V width of the logits.
"""

import tensorflow as tf

from t2t_keras.decoding.cache_growth import GROWTH, GrowFn, run_growing_search
from t2t_keras.decoding.constrained_step import ConstrainedStep
from t2t_keras.decoding.search_state import (
    BeamSearchResult,
    Cache,
    SentenceSettings,
    initial_state,
    sentence_settings,
)
from t2t_keras.decoding.search_step import SearchStep, StepFn
from t2t_keras.decoding.settings import (
    PAD_ID,
    BeamSearchSettings,
    RowOptions,
    is_given,
)
from t2t_keras.decoding.terms import fitting_terms, no_progress
from t2t_keras.typing import Tensor


def beam_search(
    step_fn: StepFn,
    cache: Cache,
    *,
    max_lengths: Tensor,
    max_decode_length: int | Tensor,
    vocabulary_size: int,
    settings: BeamSearchSettings,
    options: RowOptions | None = None,
    grow_fn: GrowFn | None = None,
) -> BeamSearchResult:
    """Returns the best-scoring outputs of `step_fn` that a beam finds.

    Live hypotheses are ranked by log probability; finished ones, kept apart,
    by log probability over length penalty. At a sentence's length limit only
    EOS may follow, so every hypothesis finishes and every score is that of a
    whole sentence. A sentence's result depends on its own row only.

    Runs eagerly, in a `tf.function` and under XLA. B and L may be unknown when a
    graph is traced, so that one graph serves all sizes. XLA needs them known, and
    takes neither `options` nor `grow_fn`.

    Args:
        step_fn: The model; see `StepFn`.
        cache: The model's state before position 0: a nest of tensors, each
            [B, ...] of any dtype. It includes values that differ between sentences but
            not between steps. `{}` is a cache without a tensor.
        max_lengths: [B] int, maximum number of tokens of each output, the EOS
            counted; clipped to 1 (an EOS alone) and `max_decode_length`.
        max_decode_length: L, at least 1: maximum number of tokens of any output. An
            int, or an int32 scalar.
        vocabulary_size: Ids from here on are never generated, even if logits are
            wider. They keep their probability, as padding does: log
            probabilities are the model's own.
        settings: Beam size, length penalty and number of results.
        options: Settings and inputs of each sentence.
        grow_fn: If given, `cache` has no slot yet and grows by some positions at a
            time, and sentences that are done leave the batch; see `cache_growth`.
            Without it, `cache` has L W slots, and shapes are constant.

    Returns:
        A `BeamSearchResult`, N = `settings.results` and best first; samples are in
        the order of their numbers.

    Raises:
        ValueError: If an argument's range or static shape is wrong.

    Source: section 6.1 of "Attention Is All You Need"; ADR 0008 for the length
    penalty and the early stop, ADR 0020 for the cache.
    """
    cache = tf.nest.map_structure(tf.convert_to_tensor, cache)
    max_lengths = tf.cast(max_lengths, tf.int32)
    _check_sizes(max_decode_length, vocabulary_size, settings)
    _check_shapes(cache, max_lengths)
    options = RowOptions() if options is None else options
    _check_sampling(settings, options)
    sentences = sentence_settings(max_lengths, max_decode_length, settings, options)
    if is_given(options.terms):
        sentences = _add_terms(sentences, options)
    beams = settings.beam_size
    own_beams = is_given(options.beam_sizes)
    if own_beams:
        # As wide as the widest beam of the batch: usually less than the maximum.
        beams = tf.reduce_max(tf.concat([sentences.beam_sizes, [1]], axis=0))
    make_step = SearchStep
    if settings.sampling:
        make_step = settings.sampling.make_step
    elif is_given(options.terms):
        make_step = ConstrainedStep
    step = make_step(step_fn, settings, beams, own_beams, vocabulary_size)
    slots = max_decode_length * beams
    if grow_fn is not None:
        slots = tf.constant(GROWTH) * beams
        batch = tf.shape(max_lengths)[0]
        cache = grow_fn(cache, tf.zeros([batch, 0], tf.int32), slots)
    state = initial_state(
        cache, sentences, beams=beams, slots=slots, max_decode_length=max_decode_length
    )
    if is_given(sentences.terms):
        state = state._replace(progress=no_progress(sentences.terms))
    # At first there is only the empty hypothesis. Loops keep its shapes where they are
    # known, and begin after it. In a growing graph it is in the loop: the model is
    # traced once, not twice. A first token that is given makes the first step another.
    has_constant_shapes = grow_fn is None or tf.executing_eagerly()
    if has_constant_shapes or is_given(options.first_tokens):
        state = step(state)
    if grow_fn is None:
        finished = step.run(state).finished
    else:
        finished = run_growing_search(step, state, grow_fn)
    return BeamSearchResult(*[field[:, : settings.results] for field in finished])


def _add_terms(sentences: SentenceSettings, options: RowOptions) -> SentenceSettings:
    """Returns the settings with those terms for which a sentence has room."""
    room_B = sentences.limits - 1  # for EOS
    if is_given(sentences.prefixes):
        is_token_BP = sentences.prefixes != PAD_ID
        room_B -= tf.reduce_sum(tf.cast(is_token_BP, tf.int32), axis=1)
    if is_given(options.first_tokens):
        room_B -= 1
    terms_BCP = tf.cast(options.terms, tf.int32)
    return sentences._replace(terms=fitting_terms(terms_BCP, room_B))


def _check_sizes(
    max_decode_length: int | Tensor, vocabulary_size: int, settings: BeamSearchSettings
) -> None:
    """Raises ValueError if a number is out of range."""
    if isinstance(max_decode_length, int) and max_decode_length < 1:
        raise ValueError(
            "max_decode_length must be at least 1. "
            f"Received: max_decode_length={max_decode_length}"
        )
    if vocabulary_size <= settings.eos_id:
        raise ValueError(
            f"vocabulary_size must be more than eos_id={settings.eos_id}. "
            f"Received: vocabulary_size={vocabulary_size}"
        )


def _check_sampling(settings: BeamSearchSettings, options: RowOptions) -> None:
    """Raises ValueError if sampling has no seeds, or has options that it cannot use."""
    if is_given(options.seeds) != (settings.sampling is not None):
        raise ValueError(
            "Sampling needs seeds, and a search takes none. Received: "
            f"sampling={settings.sampling}, seeds={options.seeds}"
        )
    if settings.sampling is not None and is_given(options.beam_sizes):
        raise ValueError(
            f"Sampling takes no beam sizes. Received: beam_sizes={options.beam_sizes}"
        )
    if settings.sampling is not None and is_given(options.terms):
        raise ValueError(f"Sampling takes no terms. Received: terms={options.terms}")


def _check_shapes(cache: Cache, max_lengths: Tensor) -> None:
    """Raises ValueError if a tensor's static shape does not match."""
    if max_lengths.shape.rank != 1:
        raise ValueError(
            "max_lengths must have shape [B]. "
            f"Received: max_lengths.shape={max_lengths.shape}"
        )
    for tensor in tf.nest.flatten(cache):
        shape = tensor.shape
        if shape.rank == 0 or not max_lengths.shape[:1].is_compatible_with(shape[:1]):
            raise ValueError(
                "Every tensor of the cache must have shape [B, ...], with as many rows "
                f"as max_lengths: {max_lengths.shape[0]}. Received: {shape}"
            )
