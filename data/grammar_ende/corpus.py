"""The corpus: distinct sentence pairs from a seed, cut into splits."""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from grammar_ende.derivation import Sentence
from grammar_ende.english_clauses import sentence_tree
from grammar_ende.german_clauses import sentence_words
from grammar_ende.origins import links
from grammar_ende.sample_sentences import draw_sentence
from grammar_ende.spelling import (
    english_groups,
    german_groups,
    written_english,
    written_german,
)

SEED = 2017
# Numbers of pairs to train on, to choose a model with and to score it with.
SIZES = (30_000, 1_000, 1_000)
MIN_WORDS = 3
MAX_WORDS = 25
# Draws one derivation; another corpus of the same grammar gives its own.
Sampler: TypeAlias = Callable[[random.Random], Sentence]
_Pair = TypeVar("_Pair")


class SentencePair(NamedTuple):
    """An English sentence, its German translation and its English tree."""

    en: str
    de: str
    tree: str


class AlignedPair(NamedTuple):
    """A sentence pair and its word alignment.

    Attributes:
        pair: The sentences.
        alignment: Links `0-0 1-2`, an English word and a German one that translate
            each other, counted from 0. Words are what blanks separate; a punctuation
            mark beside a word has no link.
    """

    pair: SentencePair
    alignment: str


class Splits(NamedTuple):
    """The three splits; no English sentence is in two of them or twice in one."""

    train: list[SentencePair]
    validation: list[SentencePair]
    test: list[SentencePair]


class AlignedSplits(NamedTuple):
    """The three splits, with word alignments."""

    train: list[AlignedPair]
    validation: list[AlignedPair]
    test: list[AlignedPair]


def sentence_pairs(seed: int, draw: Sampler = draw_sentence) -> Iterator[SentencePair]:
    """Yields sentence pairs without end, each English sentence once.

    The sequence is a function of the seed and the sampler alone.
    """
    return (drawn.pair for drawn in _distinct(_drawn(seed, draw)))


def aligned_pairs(seed: int, draw: Sampler = draw_sentence) -> Iterator[AlignedPair]:
    """Yields the pairs of `sentence_pairs` with their alignments."""
    return (drawn.aligned() for drawn in _distinct(_drawn(seed, draw)))


def drawn_pairs(seed: int, draw: Sampler = draw_sentence) -> Iterator[SentencePair]:
    """Yields sentence pairs as they are drawn, repetitions included."""
    return (drawn.pair for drawn in _drawn(seed, draw))


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
    return Splits(*_deal(sentence_pairs(seed, draw), train, validation, test))


def aligned_splits(
    seed: int, train: int, validation: int, test: int, draw: Sampler = draw_sentence
) -> AlignedSplits:
    """Returns the same splits as `corpus_splits`, with word alignments."""
    return AlignedSplits(*_deal(aligned_pairs(seed, draw), train, validation, test))


def express(sentence: Sentence) -> AlignedPair:
    """Returns a derivation in both languages, with the links between their words."""
    return _express(sentence).aligned()


class _Drawn(NamedTuple):
    """A pair, and the tokens of each written word."""

    pair: SentencePair
    en: list[list[str]]
    de: list[list[str]]

    def aligned(self) -> AlignedPair:
        pairs = links(self.en, self.de)
        return AlignedPair(self.pair, " ".join(f"{i}-{j}" for i, j in pairs))


def _express(sentence: Sentence) -> _Drawn:
    tree = sentence_tree(sentence)
    tokens, words = [leaf.word for leaf in tree.leaves()], sentence_words(sentence)
    pair = SentencePair(written_english(tokens), written_german(words), str(tree))
    return _Drawn(pair, english_groups(tokens), german_groups(words))


def _drawn(seed: int, draw: Sampler) -> Iterator[_Drawn]:
    rng = random.Random(seed)
    while True:
        drawn = _express(draw(rng))
        if MIN_WORDS <= len(drawn.en) <= MAX_WORDS:
            yield drawn


def _distinct(pairs: Iterator[_Drawn]) -> Iterator[_Drawn]:
    seen: set[str] = set()
    for drawn in pairs:
        if drawn.pair.en not in seen:
            seen.add(drawn.pair.en)
            yield drawn


def _deal(
    pairs: Iterator[_Pair], train: int, validation: int, test: int
) -> tuple[list[_Pair], ...]:
    validation_pairs = [next(pairs) for _ in range(validation)]
    test_pairs = [next(pairs) for _ in range(test)]
    return [next(pairs) for _ in range(train)], validation_pairs, test_pairs
