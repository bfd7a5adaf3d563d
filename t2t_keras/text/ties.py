"""A probe for how SentencePiece breaks ties between segmentations of equal score.

"...." may be "." and "..." or "..." and ".": under a unigram model both sum up to the
same score, and rounding decides. SentencePiece 0.2.2 sums up otherwise than 0.2.1 and
TensorFlow Text, so that text would be encoded in one way for training and in another
by an export (ADR 0009). The probe looks at the result instead of the version: it is
right about releases that are yet to come.
"""

import functools
import struct

import sentencepiece

from t2t_keras.errors import UserError

# The release that pyproject.toml pins.
_AGREEING_VERSION = "0.2.1"
_UNKNOWN, _NORMAL = 2, 1  # piece types of sentencepiece_model.proto
# A letter, and the scores of it and of three of it.
_PIECES = (
    ("a", -5.562, -3.659),
    ("b", -9.162, -2.797),
    ("c", -7.895, -6.017),
    ("d", -2.627, -7.584),
    ("e", -2.384, -6.871),
    ("f", -2.825, -3.096),
    ("g", -9.107, -12.614),
    ("h", -2.361, -5.302),
)
TIED_TEXT = "".join(5 * letter for letter, _, _ in _PIECES)
"""Five of each letter: one of three orders of pieces for each, all of equal score."""
TF_TEXT_PIECES = "▁ aaa a a b b bbb c ccc c d d ddd eee e e f f fff ggg g g h h hhh"
"""How TensorFlow Text splits `TIED_TEXT`."""


def check_ties() -> None:
    """Checks that unigram models mean the same to SentencePiece and TensorFlow Text.

    Raises:
        UserError: If the installed SentencePiece breaks ties in another way.
    """
    found = _tied_pieces()
    if found == TF_TEXT_PIECES:
        return
    raise UserError(
        f"sentencepiece {sentencepiece.__version__} is installed, which encodes "
        "some text with a unigram vocabulary otherwise than TensorFlow Text 2.21 does "
        "in exports (ties between pieces). Install the version that agrees: "
        f'pip install "sentencepiece=={_AGREEING_VERSION}". Vocabularies of '
        "--subwords=bpe are not affected."
    )


@functools.cache
def _tied_pieces() -> str:
    """Returns how SentencePiece splits `TIED_TEXT`, with a blank between pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tied_model())
    return " ".join(processor.encode(TIED_TEXT, out_type=str))


def tied_model() -> bytes:
    """Returns a unigram model under which the segmentations of `TIED_TEXT` tie."""
    pieces = [_piece("<unk>", 0.0, _UNKNOWN), _piece("\u2581", -3.3)]
    for letter, one, three in _PIECES:
        pieces += [_piece(letter, one), _piece(3 * letter, three)]
    return b"".join(pieces)


def _piece(text: str, score: float, kind: int = _NORMAL) -> bytes:
    """Returns `ModelProto.pieces` with one piece, in the protocol buffers' format.

    Written by hand: the messages that come with SentencePiece need a protobuf that is
    as new as they are.
    """
    encoded = text.encode()
    message = bytes([0x0A, len(encoded)]) + encoded
    message += b"\x15" + struct.pack("<f", score) + bytes([0x18, kind])
    return bytes([0x0A, len(message)]) + message
