"""Exhaustive search and greedy search in NumPy.

A hypothesis is a tuple of ids that ends in EOS, which counts as a token. A model
is a function from the tokens so far to the log probabilities [V] of the next one.
"""

import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tests.reference import transformer_np
from tests.reference.weights_np import Array, Weights

EOS_ID = 1
NEVER_GENERATED = frozenset({transformer_np.PAD_ID})

StepLogProbs = Callable[[tuple[int, ...]], Array]


@dataclass(frozen=True)
class Hypothesis:
    """Finished translation: its tokens with EOS, log p, and log p / penalty."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


def length_penalty(length: int, alpha: float) -> float:
    """Equation 14 of Wu et al. 2016 (GNMT): ((5 + n) / 6) ** alpha, a divisor."""
    return ((5 + length) / 6) ** alpha


def score_tokens(
    tokens: tuple[int, ...], step_log_probs: StepLogProbs, alpha: float
) -> Hypothesis:
    """Scores the tokens one by one, each given the tokens before it."""
    log_prob = 0.0
    for position, token in enumerate(tokens):
        log_prob += float(step_log_probs(tokens[:position])[token])
    return Hypothesis(tokens, log_prob, log_prob / length_penalty(len(tokens), alpha))


def exhaustive_search(
    step_log_probs: StepLogProbs,
    vocabulary_size: int,
    max_length: int,
    alpha: float,
    eos: int = EOS_ID,
    never: Collection[int] = NEVER_GENERATED,
) -> list[Hypothesis]:
    """All hypotheses of at most `max_length` tokens, best score first.

    The last position is EOS or unused. Hypotheses of probability 0 are omitted;
    those with equal scores are in the order of their tokens.
    """
    known_log_probs = functools.cache(step_log_probs)
    words = [id_ for id_ in range(vocabulary_size) if id_ != eos and id_ not in never]
    found = []
    for length in range(1, max_length + 1):
        for sentence in itertools.product(words, repeat=length - 1):
            hypothesis = score_tokens((*sentence, eos), known_log_probs, alpha)
            if hypothesis.log_prob > -np.inf:
                found.append(hypothesis)
    return sorted(found, key=lambda one: (-one.score, one.tokens))


def greedy_decode(
    step_log_probs: StepLogProbs,
    max_length: int,
    alpha: float = 0.0,
    eos: int = EOS_ID,
    never: Collection[int] = NEVER_GENERATED,
) -> Hypothesis:
    """Hypothesis of the likeliest token at each position, until EOS.

    The last position is always EOS. Among equally likely tokens, the lowest id wins.
    """
    tokens: tuple[int, ...] = ()
    while len(tokens) < max_length - 1 and eos not in tokens:
        log_probs_V = step_log_probs(tokens).copy()
        log_probs_V[list(never)] = -np.inf
        tokens = (*tokens, int(np.argmax(log_probs_V)))
    if eos not in tokens:
        tokens = (*tokens, eos)
    return score_tokens(tokens, step_log_probs, alpha)


def model_log_probs(source: Sequence[int], weights: Weights) -> StepLogProbs:
    """Transformer as such a function, for one source, which may have padding.

    The whole decoder runs again for every token, without a cache.
    """
    memory_SD = transformer_np.encode_padded(source, weights)

    def step_log_probs(prefix: tuple[int, ...]) -> Array:
        decoder_input = (transformer_np.PAD_ID, *prefix)
        hidden_TD = transformer_np.decode(decoder_input, memory_SD, weights, source)
        logits_TV = transformer_np.logits(hidden_TD, weights)
        return transformer_np.log_softmax(logits_TV)[-1]

    return step_log_probs
