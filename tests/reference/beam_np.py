"""Beam search in plain Python, with the options of the search.

A model has `log_probs(row, history)`, log p [V] of the next token in float64.
"""

import math
from typing import NamedTuple

EOS = 1


class Rules(NamedTuple):
    """Options of a search, off by default."""

    length_penalty: str = "gnmt"
    suppressed: tuple[int, ...] = ()
    min_length: int = 0
    no_repeat_ngram: int = 0
    renormalize: bool = False


DEFAULT_RULES = Rules()


def score(log_prob, length, alpha, kind="gnmt"):
    """Returns the score of Wu et al. 2016, equation 14, without the coverage term.

    The kind "power" is Marian's: log p over a power of the number of tokens.
    """
    if kind == "power":
        return log_prob * float(length) ** -alpha
    return log_prob if kind == "none" else log_prob * (6.0 / (5.0 + length)) ** alpha


def may_follow(history, token, limit, rules, prefix=()):
    """Returns whether rules, prefix and limit allow a token after a history."""
    if len(history) + 1 == limit:
        return token == EOS
    if len(history) < len(prefix):
        return token == prefix[len(history)]
    if token == EOS:
        return len(history) >= rules.min_length
    n, sentence = rules.no_repeat_ngram, (*history, token)
    earlier = [sentence[i : i + n] for i in range(len(sentence) - n)]
    repeats = n > 0 and sentence[-n:] in earlier
    return token not in rules.suppressed and not repeats


def token_log_probs(model, row, history, limit, vocabulary, rules, prefix=()):
    """Returns log p of each token that may follow a history, by token."""
    log_probs = model.log_probs(row, history)
    tokens = [
        token
        for token in range(EOS, vocabulary)
        if may_follow(history, token, limit, rules, prefix)
    ]
    total = sum(math.exp(log_probs[token]) for token in tokens)
    shift = math.log(total) if rules.renormalize and total else 0.0
    return {token: min(log_probs[token] - shift, 0.0) for token in tokens}


def rank(hypotheses, alpha, kind="gnmt"):
    """Returns (tokens, log_prob, score), best score first."""
    scored = [(t, p, score(p, len(t), alpha, kind)) for t, p in hypotheses]
    return sorted(scored, key=lambda hypothesis: -hypothesis[2])


def plain_beam_search(
    model, row, limit, alpha, vocabulary, beam_size, rules=DEFAULT_RULES, prefix=()
):
    """Returns the finished hypotheses of a beam that never stops early."""
    live, finished = [((), 0.0)], []
    for _ in range(limit):
        candidates = [
            ((*history, token), log_prob + token_log_prob)
            for history, log_prob in live
            for token, token_log_prob in token_log_probs(
                model, row, history, limit, vocabulary, rules, prefix
            ).items()
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        candidates = candidates[: 2 * beam_size]
        finished += [c for c in candidates if c[0][-1] == EOS]
        live = [c for c in candidates if c[0][-1] != EOS][:beam_size]
    return rank(finished, alpha, rules.length_penalty)[:beam_size]
