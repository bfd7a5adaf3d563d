"""Penn Treebank word tokenizer, the same in Python and in the graph.

A light version of the Treebank's rules, for English. Text that is split already stays
as it is, with one exception: a final word that ends in a period ("… of Acme Inc.")
loses it.
"""

import re

from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.typing import Tensor

# These match the characters on both sides, which the next match cannot use again. So
# each is among the rules several times.
_COMMAS = (
    (r"([,:])([^0-9 ])", r"\1 \2"),
    (r"([^0-9 ])([,:])", r"\1 \2"),
)
_SUFFIXES = (
    (r"([^ ])'([sS]|[mM]|[dD]|ll|LL|re|RE|ve|VE)([^A-Za-z]|$)", r"\1 '\2\3"),
    (r"([^ ])([nN]'[tT])([^A-Za-z]|$)", r"\1 \2\3"),
)
_PER_CENT = ((r"%([^-A-Za-z0-9]|$)", r" % \1"),)

# Patterns and replacements, applied in order. They mean the same to Python's `re` and
# to RE2, which has no look-around; text is singly spaced.
_RULES: tuple[tuple[str, str], ...] = (
    # Quotation marks as the Treebank writes them, and its names for brackets.
    ("[\u2018\u201a\u201b]", " ` "),
    ("\u2019", "'"),
    ("[\u201c\u201e\u201f]", " `` "),
    ("\u201d", " '' "),
    ("``", " `` "),
    ("''", " '' "),
    (r'(^|[ (\[{<-])"', r"\1 `` "),
    ('"', " '' "),
    (r"\(", " -LRB- "),
    (r"\)", " -RRB- "),
    (r"\[", " -LSB- "),
    (r"\]", " -RSB- "),
    (r"\{", " -LCB- "),
    (r"\}", " -RCB- "),
    # Marks that are words of their own everywhere.
    ("…", " ... "),
    (r"(\.\.\.+|--+|[;?!])", r" \1 "),
    ("—", " -- "),
    # The period that ends the sentence, before quotation marks and brackets.
    ("  +", " "),
    (r"([^ .])\.((?: ?(?:''|-RRB-|-RSB-|-RCB-)|')*) ?$", r"\1 .\2"),
    # Commas and colons, but not those of 1,000 and 10:30.
    *(2 * _COMMAS),
    (r"([0-9])([,:])( |$)", r"\1 \2\3"),
    (r" ([,:])([0-9])", r" \1 \2"),
    (r"^([,:])([0-9])", r"\1 \2"),
    # Contractions and possessives: do n't, it 's, the dogs '.
    *(4 * _SUFFIXES),
    # Per cent, but for 5%-owned. Currencies before their amounts: US$ 5.
    *(2 * _PER_CENT),
    (r"([$£€¥#])([0-9.])", r"\1 \2"),
    (r"([^ '])'( |$)", r"\1 '\2"),
    (r"(^| )([cC]an)(not)( |$)", r"\1\2 \3\4"),
    (r"(^| )([cC]an)(not)( |$)", r"\1\2 \3\4"),
    ("  +", " "),
)
_COMPILED = tuple((re.compile(pattern), made) for pattern, made in _RULES)


def split_words(text: str | bytes) -> str:
    """Returns a text with a single blank between any two words.

    >>> split_words('"The dog (a pug) doesn\\'t sleep," he said.')
    "`` The dog -LRB- a pug -RRB- does n't sleep , '' he said ."
    """
    split = normalize(text)
    for pattern, made in _COMPILED:
        split = pattern.sub(made, split)
    return split.strip(" ")


def split_words_in_graph(texts: Tensor) -> Tensor:
    """Returns `split_words` of strings of any shape, by core TensorFlow ops."""
    import tensorflow as tf

    split = normalize_in_graph(texts)
    for pattern, made in _RULES:
        split = tf.strings.regex_replace(split, pattern, made)
    return tf.strings.strip(split)
