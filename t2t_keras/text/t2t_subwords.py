r"""Subwords of Tensor2Tensor, in Python and in the graph.

Text is split into tokens, runs of letters and digits and runs of other characters; a
single space between two tokens is left out. A character that no subword has becomes
`\CODE;`, "_" becomes `\u`, and a token ends in "_". Then the longest subword that
matches is taken from the left, again and again.

Source: tensor2tensor 1.15, data_generators/tokenizer.py and text_encoder.py
(SubwordTextEncoder).

Shapes: N number of texts, L length.
"""

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from t2t_keras.errors import UserError, require_package
from t2t_keras.typing import Tensor

# They begin the list of subwords there: padding and the end of a sentence.
RESERVED = ("<pad>", "<EOS>")
_ESCAPE_CHARACTERS = "\\_u;0123456789"
_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")
# For a code that is no character: GETA MARK.
_NO_CHARACTER = "\u3013"
_GRAPH_ESCAPE = r"(?s)^(.*?)\\(u|\\|[0-9]+;)(.*)$"
_MOST_DIGITS = 7  # of the code of a character
_NO_LIMIT = 1 << 30


@functools.cache
def _is_alphanumeric(character: str) -> bool:
    """Returns whether it is a letter or a number in Unicode."""
    return unicodedata.category(character)[0] in "LN"


@functools.cache
def _alphanumeric_class() -> str:
    """Returns a character class of RE2 with what `_is_alphanumeric` accepts."""
    codes = (i for i in range(sys.maxunicode + 1) if _is_alphanumeric(chr(i)))
    ranges = []
    for _, group in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        run = [code for _, code in group]
        ranges.append(f"\\x{{{run[0]:X}}}-\\x{{{run[-1]:X}}}")
    return f"[{''.join(ranges)}]"


class T2TSubwordTokenizer:
    """Tokenizer of Tensor2Tensor's `SubwordTextEncoder`.

    Args:
        subwords: Its subwords, without those that are reserved.
    """

    kind = "t2t_subwords"

    def __init__(self, subwords: Sequence[str]):
        self._subwords = frozenset(subwords)
        self._longest = max(map(len, subwords), default=1)
        self._alphabet = frozenset(
            "".join([*subwords, *RESERVED, _ESCAPE_CHARACTERS])
        ) - {"\n"}

    def to_files(self) -> Mapping[str, bytes]:
        """Returns none: the pieces are all that it is made of."""
        return {}

    def restrict(self, pieces: Collection[str]) -> "T2TSubwordTokenizer":
        """Raises `NotImplementedError`: every subword may be a part of any word."""
        raise NotImplementedError

    def split(self, text: str) -> list[str]:
        """Returns the subwords of a text."""
        return [
            subword for token in self._tokens(text) for subword in self._match(token)
        ]

    def _tokens(self, text: str) -> list[str]:
        """Returns the tokens of a text, escaped."""
        tokens = ["".join(run) for _, run in itertools.groupby(text, _is_alphanumeric)]
        kept = [
            token
            for i, token in enumerate(tokens)
            if token != " " or i in (0, len(tokens) - 1)
        ]
        return [self._escape(token) for token in kept]

    def _escape(self, token: str) -> str:
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        characters = (c if c in self._alphabet else f"\\{ord(c)};" for c in token)
        return "".join(characters) + "_"

    def _match(self, token: str) -> list[str]:
        """Returns the subwords of an escaped token; the token if there are none."""
        subwords, start = [], 0
        while start < len(token):
            ends = range(min(len(token), start + self._longest), start, -1)
            end = next((e for e in ends if token[start:e] in self._subwords), None)
            if end is None:
                return [token]
            subwords.append(token[start:end])
            start = end
        return subwords

    def join(self, pieces: Sequence[str]) -> str:
        """Returns the text of subwords."""
        escaped = (token for token in "".join(pieces).split("_") if token)
        tokens = [token for token in map(_unescape, escaped) if token]
        text = "".join(tokens[:1])
        for before, token in itertools.pairwise(tokens):
            spaced = _is_alphanumeric(before[0]) and _is_alphanumeric(token[0])
            text += f" {token}" if spaced else token
        return text

    def mark(self, pieces: Sequence[str]) -> list[str]:
        """Raises `UserError`: spaces belong to no subword."""
        raise UserError(
            "Words cannot be counted in subwords of Tensor2Tensor, so there are no "
            "word alignments. Leave them out."
        )

    def piece_texts(self, pieces: Sequence[str]) -> list[str]:
        """Returns the subwords."""
        return list(pieces)

    @property
    def graph_resources(self) -> list[Any]:
        """The table of subwords, and that of characters."""
        return [*self._tables]

    @functools.cached_property
    def _tables(self) -> tuple[Any, Any]:
        import tensorflow as tf

        def make(keys: Sequence[str]) -> Any:
            values = list(range(len(keys)))
            content = tf.lookup.KeyValueTensorInitializer(
                keys, values, tf.string, tf.int64
            )
            return tf.lookup.StaticHashTable(content, -1)

        with tf.init_scope():  # see `SubwordVocabulary.tokenizer`
            return make(sorted(self._subwords)), make(sorted(self._alphabet))

    def split_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `split` does, [N, (length)] string, for [N] string."""
        import tensorflow as tf

        with require_package("A tokenizer in the graph", "tensorflow-text"):
            import tensorflow_text

        matcher = tensorflow_text.WordpieceTokenizer(
            self._tables[0],
            suffix_indicator="",
            max_bytes_per_word=_NO_LIMIT,
            max_chars_per_token=self._longest,
            token_out_type=tf.string,
            unknown_token=None,
        )
        return matcher.tokenize(self._tokens_in_graph(texts)).merge_dims(1, 2)

    def _tokens_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `_tokens` does, [N, (tokens)] string."""
        import tensorflow as tf

        characters = tf.strings.unicode_split(texts, "UTF-8")
        flat_X, rows_X = characters.flat_values, characters.value_rowids()
        codes_X = tf.strings.unicode_decode(texts, "UTF-8").flat_values
        is_alphanumeric_X = tf.strings.regex_full_match(flat_X, _alphanumeric_class())
        # Places before the first character and after the last begin tokens, too.
        is_first_X = _differs_from_previous(rows_X)
        starts_X = is_first_X | _differs_from_previous(
            tf.cast(is_alphanumeric_X, tf.int64)
        )
        number = tf.strings.join(["\\", tf.strings.as_string(codes_X), ";"])
        is_known_X = self._tables[1].lookup(flat_X) >= 0
        escaped_X = tf.where(is_known_X, flat_X, number)
        escaped_X = tf.where(flat_X == "\\", "\\\\", escaped_X)
        escaped_X = tf.where(flat_X == "_", "\\u", escaped_X)
        token_X = tf.cumsum(tf.cast(starts_X, tf.int64)) - 1
        places_K = tf.where(starts_X)[:, 0]
        count = tf.size(places_K, tf.int64)
        by_token = tf.RaggedTensor.from_value_rowids(escaped_X, token_X, count)
        tokens_K = tf.strings.reduce_join(by_token, axis=1) + "_"
        rows_K = tf.gather(rows_X, places_K)
        is_first_K = tf.gather(is_first_X, places_K)
        is_last_K = tf.concat([is_first_K[1:], [True]], axis=0)[:count]
        kept_K = (tokens_K != " _") | is_first_K | is_last_K
        return tf.RaggedTensor.from_value_rowids(
            tf.boolean_mask(tokens_K, kept_K),
            tf.boolean_mask(rows_K, kept_K),
            characters.nrows(),
        )

    def finish_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `join` does, for subwords end to end, [N] string."""
        import tensorflow as tf

        def drop_empty(tokens: Tensor) -> Tensor:
            return tf.ragged.boolean_mask(
                tokens, tokens.with_flat_values(tokens.flat_values != "")
            )

        tokens = drop_empty(tf.strings.split(texts, "_"))
        unescaped = tokens.with_flat_values(_unescape_in_graph(tokens.flat_values))
        tokens = drop_empty(unescaped)
        flat_X = tokens.flat_values
        beginnings_X = tf.strings.substr(flat_X, 0, 1, unit="UTF8_CHAR")
        is_word_X = tf.strings.regex_full_match(beginnings_X, _alphanumeric_class())
        previous_X = tf.concat([[False], is_word_X], axis=0)[: tf.size(flat_X)]
        is_first_X = _differs_from_previous(tokens.value_rowids())
        spaced_X = is_word_X & previous_X & ~is_first_X
        spaced = tokens.with_flat_values(tf.where(spaced_X, " ", "") + flat_X)
        return tf.strings.reduce_join(spaced, axis=1)


def _unescape(token: str) -> str:
    """Returns the text of a token without its "_"."""

    def character(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        return _character(match[1])

    return _ESCAPE.sub(character, token)


def _character(digits: str) -> str:
    code = int(digits) if len(digits) <= _MOST_DIGITS else sys.maxunicode + 1
    is_surrogate = 0xD800 <= code < 0xE000
    return chr(code) if code <= sys.maxunicode and not is_surrogate else _NO_CHARACTER


def _unescape_in_graph(tokens: Tensor) -> Tensor:
    """Returns what `_unescape` does, for [X] string: the leftmost escape each time."""
    import tensorflow as tf

    def has_escape(_: Tensor, rest: Tensor) -> Tensor:
        return tf.reduce_any(tf.strings.regex_full_match(rest, _GRAPH_ESCAPE))

    def unescape_first(done: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        found = tf.strings.regex_full_match(rest, _GRAPH_ESCAPE)
        before, escape, after = (
            tf.strings.regex_replace(rest, _GRAPH_ESCAPE, f"\\{group}")
            for group in (1, 2, 3)
        )
        is_number = found & (escape != "u") & (escape != "\\")
        digits = tf.strings.regex_replace(escape, ";$", "")
        is_short = is_number & (tf.strings.length(digits) <= _MOST_DIGITS)
        code = tf.strings.to_number(tf.where(is_short, digits, "1114112"), tf.int32)
        is_code = (code < 0x110000) & ~((code >= 0xD800) & (code < 0xE000))
        character = tf.strings.unicode_encode(
            tf.where(is_code, code, ord(_NO_CHARACTER))[:, None], "UTF-8"
        )
        character = tf.where(escape == "u", "_", character)
        character = tf.where(escape == "\\", "\\", character)
        changed = tf.strings.join([done, before, character])
        return tf.where(found, changed, done), tf.where(found, after, rest)

    done, rest = tf.while_loop(
        has_escape,
        unescape_first,
        (tf.zeros_like(tokens), tokens),
        shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None])),
    )
    return done + rest


def _differs_from_previous(values: Tensor) -> Tensor:
    """Returns whether each of [X] differs from the one before; True for the first."""
    import tensorflow as tf

    differs = values[1:] != values[:-1]
    return tf.concat([[True], differs], axis=0)[: tf.size(values)]
