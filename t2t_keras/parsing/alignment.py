"""Alignment of parts of speech with words, where their numbers differ.

Both are compared by their kinds (`t2t_keras.parsing.punctuation`): all that can be told
of a word by itself is whether it is punctuation, and which.
"""

from collections.abc import Sequence


def aligned(tags: Sequence[int], words: Sequence[int]) -> list[int | None]:
    """Returns for each word which part of speech belongs to it; None if none does.

    If they are equally many, the first belongs to the first, and so on. If not, they
    are aligned with the fewest changes: a part of speech too many, a word without one,
    or one that belongs to a word of another kind count 1 each. Of several such
    alignments it is the one that, read from the left, gives a word the next part of
    speech where it can, and else passes over a part of speech rather than a word.

    Args:
        tags: Kinds of the parts of speech, in order.
        words: Kinds of the words.

    >>> aligned([0, 0, 1], [0, 0, 0, 1])
    [0, 1, None, 2]
    """
    if len(tags) == len(words):
        return list(range(len(words)))
    found: list[int | None] = [None] * len(words)
    changes = _changes(tags, words)
    tag = word = 0
    while tag < len(tags) and word < len(words):
        least = changes[tag][word]
        if least == changes[tag + 1][word + 1] + (tags[tag] != words[word]):
            found[word] = tag
            tag, word = tag + 1, word + 1
        elif least == changes[tag + 1][word] + 1:
            tag += 1
        else:
            word += 1
    return found


def _changes(tags: Sequence[int], words: Sequence[int]) -> list[list[int]]:
    """Returns the fewest changes from each part of speech and each word on."""
    last = list(range(len(words), -1, -1))
    rows = [last]
    for count, tag in enumerate(reversed(tags), start=1):
        row = [count]
        # From right to left; `below` is of the next part of speech.
        for place in range(len(words) - 1, -1, -1):
            below, diagonal = last[place], last[place + 1]
            row.append(min(row[-1] + 1, below + 1, diagonal + (tag != words[place])))
        last = row[::-1]
        rows.append(last)
    return rows[::-1]
