"""Punctuation marks, recognized by their form, and the kind of all other words.

A kind is an index into `OWN_TAGS`.
"""

import re
from collections.abc import Iterable

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
