"""Origins of words: the parts of a derivation that each word expresses.

English and German put the same derivation into words. Each marks its words with the
path of the part that they express, such as `direct/noun`. Words of both languages with
the same path translate each other, which gives the gold alignment.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from grammar_ende.lexicon.entries import Phrase
from grammar_ende.spelling import is_punctuation
from grammar_ende.trees import Tree, read_tree

_Words = TypeVar("_Words", str, Tree)


class Word(str):
    """A word with the paths of the parts that it expresses; none if unaligned."""

    __slots__ = ("origins",)

    origins: frozenset[str]

    def __new__(cls, text: str, origins: Iterable[str] = ()) -> "Word":
        """Returns the word."""
        word = super().__new__(cls, text)
        word.origins = frozenset(origins)
        return word


def origins(word: str) -> frozenset[str]:
    """Returns the paths of a word, which has none before it is marked."""
    return word.origins if isinstance(word, Word) else frozenset()


def within(part: str, words: Iterable[_Words]) -> list[_Words]:
    """Returns words or trees with paths that begin with a part of the derivation.

    A word without a mark expresses the whole part.
    """
    return [_map_words(each, lambda word: _within(part, word)) for each in words]


def in_order(texts: Iterable[_Words]) -> list[_Words]:
    """Returns the words of a fixed expression, which translate each other in order."""
    return [each for i, text in enumerate(texts) for each in within(str(i), [text])]


def phrase_tree(phrase: Phrase) -> Tree:
    """Returns the English tree of a fixed expression."""
    tree = read_tree(phrase.en)
    numbers = itertools.count()
    pairs = _phrase_links(phrase, len(list(tree.leaves())))

    def mark(word: str) -> str:
        number = next(numbers)
        return Word(word, (f"{i}-{j}" for i, j in pairs if i == number))

    return _map_words(tree, mark)


def phrase_words(phrase: Phrase) -> list[str]:
    """Returns the German words of a fixed expression."""
    pairs = _phrase_links(phrase, len(list(read_tree(phrase.en).leaves())))
    return [
        Word(word, (f"{i}-{j}" for i, j in pairs if j == number))
        for number, word in enumerate(phrase.de.split())
    ]


def unaligned(words: Iterable[_Words]) -> list[_Words]:
    """Returns words or trees that the other language does not express."""
    return [_map_words(each, lambda word: Word(word)) for each in words]


def respelled(word: str, text: str) -> str:
    """Returns another spelling of a word, with the word's paths."""
    return Word(text, word.origins) if isinstance(word, Word) else text


def merged(text: str, words: Iterable[str]) -> Word:
    """Returns one word that expresses the parts of several: `im` is `in` and `dem`."""
    return Word(text, (path for word in words for path in origins(word)))


def links(
    source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]
) -> list[tuple[int, int]]:
    """Returns the pairs of positions whose words express a common part, in order.

    Args:
        source: The tokens of each written word: `Anna 's`, `books .`.
        target: Those of the other language.
    """
    source_paths, target_paths = (
        [_paths(tokens) for tokens in side] for side in (source, target)
    )
    return [
        (i, j)
        for i, paths in enumerate(source_paths)
        for j, others in enumerate(target_paths)
        if paths & others
    ]


def _phrase_links(phrase: Phrase, en_words: int) -> list[tuple[int, int]]:
    """Returns the pairs of positions: those given, in order, or each with each."""
    if phrase.links:
        pairs = (link.split("-") for link in phrase.links.split())
        return [(int(i), int(j)) for i, j in pairs]
    de_words = len(phrase.de.split())
    if en_words == de_words:
        return [(i, i) for i in range(en_words)]
    return list(itertools.product(range(en_words), range(de_words)))


def _paths(tokens: Sequence[str]) -> frozenset[str]:
    """Returns the paths of a written word; a mark beside it has none."""
    words = [token for token in tokens if not is_punctuation(token)]
    return frozenset(path for word in words for path in origins(word))


def _within(part: str, word: str) -> str:
    if not isinstance(word, Word):
        return Word(word, [part])
    return Word(word, (f"{part}/{path}" for path in word.origins))


def _map_words(item: _Words, change: Callable[[str], str]) -> _Words:
    if isinstance(item, Tree):
        children = tuple(_map_words(child, change) for child in item.children)
        return Tree(item.label, children, change(item.word) if item.word else "")
    return change(item)
