"""Words that pieces belong to, and the layer whose attention aligns them.

The standard library only, so that a client can use it.
"""

from collections.abc import Sequence

# SentencePiece's sign for a space.
_SPACE = "\u2581"
# A decoder of so many layers aligns best in its last one, a deeper one in the last but
# one (ADR 0032).
_SHALLOW = 4


def count_spaces(piece: str) -> tuple[int, int]:
    """Returns the number of spaces at the start of a piece, and of all its spaces."""
    return len(piece) - len(piece.lstrip(_SPACE)), piece.count(_SPACE)


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """Returns the number of the word that each piece belongs to, from 0.

    Args:
        pieces: Pieces of a sentence, with "▁" for a space, without its end. A piece
            of several words counts for the first, a single space for the next; that of
            a language, "", has the number -1.
    """
    # A vocabulary writes a space before the first word, or does not.
    starts_with_space = next(filter(None, pieces), "").startswith(_SPACE)
    number = -1 if starts_with_space else 0
    numbers = []
    for piece in pieces:
        if not piece:
            numbers.append(-1)
            continue
        leading, spaces = count_spaces(piece)
        numbers.append(number + leading)
        number += spaces
    return numbers


def default_layer(layers: int) -> int:
    """Returns the number, from 1, of the decoder layer whose heads align by default."""
    return layers if layers <= _SHALLOW else layers - 1
