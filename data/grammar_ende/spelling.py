"""From words to written sentences: blanks, commas, capitals."""

from collections.abc import Sequence

_CLOSING = frozenset({",", ".", "?"})


def is_punctuation(token: str) -> bool:
    """Returns whether a token is a punctuation mark."""
    return token in _CLOSING


def written_english(tokens: Sequence[str]) -> str:
    """Returns the sentence of Treebank tokens: `Anna 's book .` → `Anna's book.`"""
    return " ".join("".join(group) for group in english_groups(tokens))


def english_groups(tokens: Sequence[str]) -> list[list[str]]:
    """Returns the tokens of each written word.

    A possessive and a punctuation mark join the word before them, and "can not" is
    one word.
    """
    groups: list[list[str]] = []
    for previous, token in zip(["", *tokens], tokens, strict=False):
        joins = is_punctuation(token) or token == "'s"
        joins = joins or (token == "not" and previous.lower() == "can")
        if joins and groups:
            groups[-1].append(token)
        else:
            groups.append([token])
    return groups


def written_german(words: Sequence[str]) -> str:
    """Returns the sentence of German words, first letter capitalised."""
    text = " ".join("".join(group) for group in german_groups(words))
    return text[0].upper() + text[1:]


def german_groups(words: Sequence[str]) -> list[list[str]]:
    """Returns the words and punctuation marks of each written word.

    Embedded clauses come with a comma on either side: two that meet become one,
    and one before the end of the sentence goes.
    """
    groups: list[list[str]] = []
    for word in words:
        if not is_punctuation(word) or not groups:
            groups.append([word])
            continue
        if groups[-1][-1] == ",":
            groups[-1].pop()
        groups[-1].append(word)
    return groups
