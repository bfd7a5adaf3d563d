"""Alignment of parts of speech with words, where their numbers differ.

Both are compared by their kinds, which are indices into `OWN_TAGS`: a word by itself
only shows whether it is punctuation, recognized by its form, and which mark.

Shapes of the version in the graph: B sentences, T parts of speech and W words of the
longest, D diagonals.
"""

import re
from collections.abc import Iterable, Sequence

from t2t_keras.typing import Tensor

# The part of speech of a word without one: the most frequent.
DEFAULT_TAG = "NN"

# Punctuation's parts of speech in the Penn Treebank, each with a pattern of the words
# that have it, which Python's `re` and RE2 read alike. A single ' is no mark: mostly
# it is a possessive. EVALB's usual parameters take these words out …
_DELETED = (
    (".", r"[.?!]"),
    (",", r","),
    (":", r"[:;]|-+|\.\.+"),
    ("``", r"``?"),
    ("''", r"''"),
)
# … and keep the brackets, for which the Treebank has names.
_BRACKETS = (("-LRB-", r"-L[RCS]B-"), ("-RRB-", r"-R[RCS]B-"))

DELETED_MARKS = tuple(tag for tag, _ in _DELETED)
OWN_TAGS = (DEFAULT_TAG, *DELETED_MARKS, *(tag for tag, _ in _BRACKETS))
# Patterns of the kinds from 1 on; 0 is all other words.
_FORMS = tuple(form for _, form in _DELETED + _BRACKETS)
_COMPILED = tuple(re.compile(form) for form in _FORMS)

# Give a word a part of speech; skip a part of speech; skip a word.
_PAIR, _DROP, _LEAVE = 0, 1, 2
# More changes than there can be.
_NEVER = 1 << 30


def word_kind(word: str) -> int:
    """Returns the kind of a word, whose brackets are written as in the Treebank.

    >>> OWN_TAGS[word_kind("?")], OWN_TAGS[word_kind("dog")]
    ('.', 'NN')
    """
    kinds = enumerate(_COMPILED, start=1)
    return next((kind for kind, form in kinds if form.fullmatch(word)), 0)


def tag_kind(tag: str) -> int:
    """Returns the kind of the words with a part of speech."""
    return OWN_TAGS.index(tag) if tag in OWN_TAGS else 0


def word_kinds_in_graph(words: Tensor) -> Tensor:
    """Returns the kinds of words as `word_kind` does, int32, for any shape."""
    import tensorflow as tf

    return _kinds(tf.strings.regex_full_match(words, form) for form in _FORMS)


def tag_kinds_in_graph(tags: Tensor) -> Tensor:
    """Returns the kinds of tags as `tag_kind` does, int32, for any shape."""
    return _kinds(tags == tag for tag in OWN_TAGS[1:])


def _kinds(matches: Iterable[Tensor]) -> Tensor:
    """Returns which kind matches, if one does: never two."""
    import tensorflow as tf

    kinds = enumerate(matches, start=1)
    return tf.add_n([kind * tf.cast(match, tf.int32) for kind, match in kinds])


def align_tags(tags: Sequence[int], words: Sequence[int]) -> list[int | None]:
    """Returns the index of each word's part of speech; None for a word without one.

    If they are equally many, the first belongs to the first, and so on. If not, they
    are aligned with the fewest changes: a part of speech too many, a word without one,
    or one that belongs to a word of another kind count 1 each. Among several such
    alignments the result is the one that, from the left, gives a word the next part of
    speech where it can, and otherwise skips a part of speech, not a word.

    >>> align_tags([0, 0, 1], [0, 0, 0, 1])
    [0, 1, None, 2]
    """
    if len(tags) == len(words):
        return list(range(len(words)))
    tag_indices: list[int | None] = [None] * len(words)
    changes = _changes(tags, words)
    tag = word = 0
    while tag < len(tags) and word < len(words):
        least = changes[tag][word]
        if least == changes[tag + 1][word + 1] + (tags[tag] != words[word]):
            tag_indices[word] = tag
            tag, word = tag + 1, word + 1
        elif least == changes[tag + 1][word] + 1:
            tag += 1
        else:
            word += 1
    return tag_indices


def _changes(tags: Sequence[int], words: Sequence[int]) -> list[list[int]]:
    """Returns the fewest changes for the rest after each part of speech and word."""
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


def align_tags_in_graph(
    tags_BT: Tensor, words_BW: Tensor, num_tags_B: Tensor, num_words_B: Tensor
) -> Tensor:
    """Returns the alignments of `align_tags` for all sentences at once.

    Cells are counted from the end: the cell of the last t parts of speech and the last
    w words holds the first step to take. Cells of equal t + w are a
    diagonal, on which none needs another. So the table is filled diagonal by diagonal,
    and then every sentence takes its path through it. Neither loop runs over sentences
    with as many parts of speech as words, which need no table.

    Args:
        tags_BT: int32, kinds of the parts of speech.
        words_BW: int32, kinds of the words.
        num_tags_B: int32, number of parts of speech that are not padding.
        num_words_B: int32, number of words that are not padding.

    Returns:
        [B, W] int32, index of the part of speech; -1 if none.
    """
    import tensorflow as tf

    equal_B = num_tags_B == num_words_B
    tags_left_B = tf.where(equal_B, 0, num_tags_B)
    words_left_B = tf.where(equal_B, 0, num_words_B)
    # The greatest of no sentences would be below 0.
    diagonals = tf.maximum(tf.reduce_max(tags_left_B + words_left_B), 0)
    choices_DBT = _choices(
        tf.reverse_sequence(tags_BT, tags_left_B, seq_axis=1),
        tf.reverse_sequence(words_BW, words_left_B, seq_axis=1),
        diagonals,
    )
    columns_W = tf.range(tf.shape(words_BW)[1])

    def follow(
        diagonal: Tensor, tags_B: Tensor, words_B: Tensor, tag_indices_BW: Tensor
    ) -> tuple[Tensor, ...]:
        choice_B = tf.gather(choices_DBT[diagonal], tags_B, axis=1, batch_dims=1)
        here_B = tags_B + words_B == diagonal
        takes_tag_B = here_B & (choice_B != _LEAVE)
        takes_word_B = here_B & (choice_B != _DROP)
        is_word_BW = columns_W == (num_words_B - words_B)[:, None]
        gets_it_BW = (takes_tag_B & takes_word_B)[:, None] & is_word_BW
        return (
            diagonal - 1,
            tags_B - tf.cast(takes_tag_B, tf.int32),
            words_B - tf.cast(takes_word_B, tf.int32),
            tf.where(gets_it_BW, (num_tags_B - tags_B)[:, None], tag_indices_BW),
        )

    *_, tag_indices_BW = tf.while_loop(
        lambda diagonal, *_: diagonal > 0,
        follow,
        (diagonals, tags_left_B, words_left_B, -tf.ones_like(words_BW)),
    )
    in_order_BW = tf.where(columns_W < num_words_B[:, None], columns_W, -1)
    return tf.where(equal_B[:, None], in_order_BW, tag_indices_BW)


def _choices(tags_BT: Tensor, words_BW: Tensor, diagonals: Tensor) -> Tensor:
    """Returns the first step of each cell, [D + 1, B, T + 1] int8.

    Cell [d, :, t] is that of the last t parts of speech and the last d - t words.
    Both arguments, int32, have the last one first; `diagonals` is D.
    """
    import tensorflow as tf

    num_words = tf.shape(words_BW)[1]
    # Column t is the first of the last t parts of speech. Padding is never looked up.
    tags_BT = tf.pad(tags_BT, [[0, 0], [1, 0]])
    words_BW = tf.pad(words_BW, [[0, 0], [0, 1]])
    columns_T = tf.range(tf.shape(tags_BT)[1])

    def shift_tags(changes_BT: Tensor) -> Tensor:
        padding = [[0, 0], [1, 0]]
        return tf.pad(changes_BT[:, :-1], padding, constant_values=_NEVER)

    def fill(
        diagonal: Tensor, choices: tf.TensorArray, earlier_BT: Tensor, last_BT: Tensor
    ) -> tuple[Tensor | tf.TensorArray, ...]:
        word_T = tf.clip_by_value(diagonal - 1 - columns_T, 0, num_words)
        misfits_BT = tags_BT != tf.gather(words_BW, word_T, axis=1)
        pair_BT = shift_tags(earlier_BT) + tf.cast(misfits_BT, tf.int32)
        drop_BT = shift_tags(last_BT) + 1
        least_BT = tf.minimum(tf.minimum(pair_BT, drop_BT), last_BT + 1)
        choice_BT = tf.where(drop_BT == least_BT, _DROP, _LEAVE)
        choice_BT = tf.where(pair_BT == least_BT, _PAIR, choice_BT)
        choices = choices.write(diagonal, tf.cast(choice_BT, tf.int8))
        return diagonal + 1, choices, last_BT, least_BT

    # Nothing costs nothing, and no cell has fewer words than none.
    never_BT = tf.fill(tf.shape(tags_BT), _NEVER)
    nothing_BT = tf.where(columns_T == 0, 0, never_BT)
    choices = tf.TensorArray(tf.int8, size=diagonals + 1, element_shape=[None, None])
    choices = choices.write(0, tf.zeros(tf.shape(tags_BT), tf.int8))
    _, choices, _, _ = tf.while_loop(
        lambda diagonal, *_: diagonal <= diagonals,
        fill,
        (tf.constant(1), choices, never_BT, nothing_BT),
    )
    return choices.stack()
