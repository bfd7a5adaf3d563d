"""From words to written sentences: blanks, commas, capitals."""

from collections.abc import Sequence

_CLOSING = frozenset({",", ".", "?"})


def written_english(tokens: Sequence[str]) -> str:
    """Returns the sentence of Treebank tokens: `Anna 's book .` → `Anna's book.`

    A possessive and a punctuation mark join the word before them, and "can not" is
    one word.
    """
    text = ""
    for previous, token in zip(["", *tokens], tokens, strict=False):
        joins = token in _CLOSING or token == "'s"
        joins = joins or (token == "not" and previous.lower() == "can")
        text += ("" if joins or not text else " ") + token
    return text


def written_german(words: Sequence[str]) -> str:
    """Returns the sentence of German words, first letter capitalised.

    Embedded clauses come with a comma on either side: two that meet become one,
    and one before the end of the sentence goes.
    """
    kept: list[str] = []
    for word in words:
        if kept and kept[-1] == "," and word in _CLOSING:
            kept.pop()
        kept.append(word)
    text = ""
    for word in kept:
        text += ("" if word in _CLOSING or not text else " ") + word
    return text[0].upper() + text[1:]
