"""Corpus BLEU in simple code, from Papineni et al. (2002), sections 2.1 to 2.3.

One reference per candidate, n-grams up to 4, uniform weights, no smoothing. Takes
lists of tokens, so it does not depend on tokenization.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

Sentence = Sequence[str]


def ngram_counts(tokens: Sentence, order: int) -> Counter[tuple[str, ...]]:
    """Returns how often each run of `order` tokens occurs."""
    counts: Counter[tuple[str, ...]] = Counter()
    for start in range(len(tokens)):
        ngram = tuple(tokens[start : start + order])
        if len(ngram) == order:
            counts[ngram] += 1
    return counts


def modified_precision(
    candidates: Sequence[Sentence], references: Sequence[Sentence], order: int
) -> Fraction:
    """Returns p_n: clipped matches over all candidate n-grams, corpus-wide.

    0 where the candidates hold no n-gram of that length at all.
    """
    matched = total = 0
    for candidate, reference in zip(candidates, references, strict=True):
        allowed = ngram_counts(reference, order)
        for ngram, count in ngram_counts(candidate, order).items():
            matched += min(count, allowed[ngram])
            total += count
    return Fraction(matched, total) if total else Fraction(0)


def brevity_penalty(
    candidates: Sequence[Sentence], references: Sequence[Sentence]
) -> float:
    """Returns BP of lengths summed over the corpus: exp(1 - r/c) where c <= r."""
    c, r = sum(map(len, candidates)), sum(map(len, references))
    if c > r:
        return 1.0
    return math.exp(1 - r / c) if c else 0.0


def corpus_bleu(
    candidates: Sequence[Sentence], references: Sequence[Sentence]
) -> float:
    """Returns BLEU from 0 to 100: BP times the geometric mean of p_1 to p_4."""
    precisions = [modified_precision(candidates, references, n) for n in (1, 2, 3, 4)]
    if min(precisions) == 0:
        return 0.0
    mean_log = sum(math.log(precision) for precision in precisions) / 4
    return 100 * brevity_penalty(candidates, references) * math.exp(mean_log)
