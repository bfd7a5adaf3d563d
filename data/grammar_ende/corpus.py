"""The corpus: distinct sentence pairs from a seed, cut into splits."""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from grammar_ende.derivation import Sentence
from grammar_ende.english_clauses import sentence_tree
from grammar_ende.german_clauses import sentence_words
from grammar_ende.sample_sentences import draw_sentence
from grammar_ende.spelling import written_english, written_german

MIN_WORDS = 3
MAX_WORDS = 25
# Draws one derivation; another corpus of the same grammar gives its own.
Sampler: TypeAlias = Callable[[random.Random], Sentence]


class SentencePair(NamedTuple):
    """An English sentence, its German translation and its English tree."""

    en: str
    de: str
    tree: str


class Splits(NamedTuple):
    """The three splits; no English sentence is in two of them or twice in one."""

    train: list[SentencePair]
    validation: list[SentencePair]
    test: list[SentencePair]


def sentence_pairs(seed: int, draw: Sampler = draw_sentence) -> Iterator[SentencePair]:
    """Yields sentence pairs without end, each English sentence once.

    The sequence is a function of the seed and the sampler alone.
    """
    seen: set[str] = set()
    for pair in drawn_pairs(seed, draw):
        if pair.en not in seen:
            seen.add(pair.en)
            yield pair


def drawn_pairs(seed: int, draw: Sampler = draw_sentence) -> Iterator[SentencePair]:
    """Yields sentence pairs as they are drawn, repetitions included."""
    rng = random.Random(seed)
    while True:
        sentence = draw(rng)
        tree = sentence_tree(sentence)
        tokens = [leaf.word for leaf in tree.leaves()]
        en = written_english(tokens)
        if MIN_WORDS <= len(en.split()) <= MAX_WORDS:
            de = written_german(sentence_words(sentence))
            yield SentencePair(en, de, str(tree))


def corpus_splits(
    seed: int, train: int, validation: int, test: int, draw: Sampler = draw_sentence
) -> Splits:
    """Returns the first pairs of a seed, dealt out to the three splits.

    Args:
        seed: any integer; the same one gives the same corpus.
        train: number of pairs to train on, at least 0.
        validation: number of pairs to choose a model with, at least 0.
        test: number of pairs to score a model with, at least 0.
        draw: what the sentences say and with which words.

    Returns:
        The splits, of just these sizes.
    """
    pairs = sentence_pairs(seed, draw)
    validation_pairs = [next(pairs) for _ in range(validation)]
    test_pairs = [next(pairs) for _ in range(test)]
    return Splits([next(pairs) for _ in range(train)], validation_pairs, test_pairs)
