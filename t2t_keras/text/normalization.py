"""Text normalization, the same in Python and in the graph.

It is minimal: bytes become well-formed UTF-8, and white space becomes single spaces.
Nothing else changes. There is no case folding, no NFC or NFKC, so `fi` ligatures,
full-width letters and combining accents survive a round trip (ADR 0009).

Shapes: N number of texts.
"""

from t2t_keras.errors import check_text
from t2t_keras.typing import Tensor

# First and last code point of every range that counts as white space.
WHITE_SPACE_RANGES: tuple[tuple[int, int], ...] = (
    (0x0009, 0x000D),  # TAB, LF, VT, FF, CR
    (0x001C, 0x0020),  # FS, GS, RS, US (Python and Java break lines there), space
    (0x0085, 0x0085),  # NEXT LINE
    (0x00A0, 0x00A0),  # NO-BREAK SPACE
    (0x1680, 0x1680),  # OGHAM SPACE MARK
    (0x2000, 0x200A),  # EN QUAD to HAIR SPACE
    (0x2028, 0x2029),  # LINE SEPARATOR, PARAGRAPH SEPARATOR
    (0x202F, 0x202F),  # NARROW NO-BREAK SPACE
    (0x205F, 0x205F),  # MEDIUM MATHEMATICAL SPACE
    (0x2581, 0x2581),  # LOWER ONE EIGHTH BLOCK: SentencePiece's own sign for a space
    (0x3000, 0x3000),  # IDEOGRAPHIC SPACE
)

# What `str.split` does not take for white space. A test compares all characters.
_SPACE_SIGN = "\u2581"
_GRAPH_RUN = (
    "["
    + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in WHITE_SPACE_RANGES)
    + "]+"
)


def normalize(text: str | bytes) -> str:
    """Returns the text as well-formed Unicode with single spaces.

    Ill-formed UTF-8 becomes U+FFFD, one for each maximal ill-formed part, as
    the Unicode standard recommends. A run of white space or line separators
    becomes one ASCII space, and none is left at either end, so one line in is
    always one line out. NUL is a character like any other and stays.

    Args:
        text: Any string or any bytes. A `str` is treated as its UTF-8 bytes; a lone
            surrogate in it has none and becomes U+FFFD three times, once for each byte
            that would have encoded it.

    Returns:
        The normalized text. Normalizing it again changes nothing.

    >>> normalize(b"  a\\r\\n\\xc2\\xa0b\\xff ")
    'a b\ufffd'
    """
    return " ".join(split_words(text))


def split_words(text: str | bytes) -> list[str]:
    """Returns what is between the spaces of a normalized text; none for an empty one.

    Args:
        text: As for `normalize`.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", errors="surrogatepass")
    check_text("A line", text)
    return text.decode("utf-8", errors="replace").replace(_SPACE_SIGN, " ").split()


def is_blank(line: bytes) -> bool:
    """Returns whether nothing is left of a line when it is normalized."""
    # Most lines begin with a letter or digit; only the others need normalization.
    return not line[:1].isalnum() and not normalize(line)


def normalize_in_graph(texts: Tensor) -> Tensor:
    """Returns what `normalize` returns, for a tensor of strings.

    Uses core TensorFlow ops only, so that it can be exported and served.

    Args:
        texts: String tensor of any shape, usually [N], of any bytes.

    Returns:
        String tensor of the same shape, well-formed UTF-8.
    """
    # Imported here: processes that only encode need no TensorFlow.
    import tensorflow as tf

    well_formed = tf.strings.unicode_transcode(
        texts,
        input_encoding="UTF-8",
        output_encoding="UTF-8",
        errors="replace",
        replacement_char=0xFFFD,
    )
    spaced = tf.strings.regex_replace(well_formed, _GRAPH_RUN, " ")
    return tf.strings.strip(spaced)
