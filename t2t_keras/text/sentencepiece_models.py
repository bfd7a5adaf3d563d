"""Loading of SentencePiece models, and their ties.

SentencePiece and TensorFlow Text encode alike except for ties of unigram models. "...."
may be "." and "..." or "..." and ".": both have the same sum of scores, and rounding
decides. SentencePiece 0.2.2 sums in another order than 0.2.1 and TensorFlow Text, so
text would be encoded in one way for training and in another by an export (ADR 0009).
`check_ties` refuses such a release. It encodes a text full of ties instead of comparing
versions, so that it is right about future releases too.
"""

import functools
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import sentencepiece

from t2t_keras.errors import UserError

# The release that pyproject.toml pins.
_AGREEING_VERSION = "0.2.1"
# Piece types of sentencepiece_model.proto.
NORMAL, _UNKNOWN, _CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
# A letter, its score, and the score of the piece of three of it.
_TIED_LETTERS = (
    ("a", -5.562, -3.659),
    ("b", -9.162, -2.797),
    ("c", -7.895, -6.017),
    ("d", -2.627, -7.584),
    ("e", -2.384, -6.871),
    ("f", -2.825, -3.096),
    ("g", -9.107, -12.614),
    ("h", -2.361, -5.302),
)
TIED_TEXT = "".join(5 * letter for letter, _, _ in _TIED_LETTERS)
"""Five of each letter: its pieces have three orders, all of equal score."""
TF_TEXT_PIECES = "▁ aaa a a b b bbb c ccc c d d ddd eee e e f f fff ggg g g h h hhh"
"""Pieces that TensorFlow Text splits `TIED_TEXT` into."""


def load_processor(
    model_proto: bytes, name: str
) -> sentencepiece.SentencePieceProcessor:
    """Returns a loaded SentencePiece model; messages call it `name`.

    Raises:
        UserError: If they are no valid model, or it is a unigram model and the
            installed SentencePiece breaks ties differently from TensorFlow Text.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        # Empty bytes would load as a model without pieces.
        loaded = bool(model_proto) and processor.load_from_serialized_proto(model_proto)
    except RuntimeError:
        loaded = False
    if not loaded:
        raise UserError(
            f"{name} ({len(model_proto)} bytes) cannot be read as a SentencePiece "
            "model. Give a .model file (not the .vocab list beside it), or copy it "
            "again if it was cut short."
        )
    if is_unigram(processor):
        check_ties()
    return processor


def is_unigram(processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Returns whether a model is of the type unigram; no method reports it."""
    try:
        return bool(processor.nbest_encode("a", nbest_size=1))
    except RuntimeError:
        return False


def check_ties() -> None:
    """Checks that SentencePiece and TensorFlow Text encode with unigram models alike.

    Raises:
        UserError: If the installed SentencePiece breaks ties differently.
    """
    if _split_tied_text() == TF_TEXT_PIECES:
        return
    raise UserError(
        f"sentencepiece {sentencepiece.__version__} is installed, which encodes "
        "some text with a unigram vocabulary differently from TensorFlow Text 2.21 "
        "in exports (ties between pieces). Install the version that agrees: "
        f'pip install "sentencepiece=={_AGREEING_VERSION}". Vocabularies of '
        "--subwords=bpe are not affected."
    )


@functools.cache
def _split_tied_text() -> str:
    """Returns SentencePiece's pieces of `TIED_TEXT`, with a blank between them."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=make_tied_model())
    return " ".join(processor.encode(TIED_TEXT, out_type=str))


def make_tied_model() -> bytes:
    """Returns a unigram model under which the segmentations of `TIED_TEXT` tie."""
    pieces = [_encode_piece("<unk>", 0.0, _UNKNOWN), _encode_piece("\u2581", -3.3)]
    for letter, one, three in _TIED_LETTERS:
        pieces += [_encode_piece(letter, one), _encode_piece(3 * letter, three)]
    return b"".join(pieces)


def make_bpe_model(pieces: Sequence[str], charsmap: bytes) -> bytes:
    """Returns a BPE model that merges to earlier pieces first.

    Args:
        pieces: Learned pieces, the first merge first, without special ones.
        charsmap: Rules of normalization, `precompiled_charsmap`; b"" for none.
    """
    special = (("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL))
    parts = [_encode_piece(piece, 0.0, kind) for piece, kind in special]
    parts += [_encode_piece(piece, -float(i)) for i, piece in enumerate(pieces)]
    # TrainerSpec.model_type, and NormalizerSpec.precompiled_charsmap; by default spaces
    # are as NLLB has them.
    trainer = b"\x18\x02"
    normalizer = b"\x12" + _encode_varint(len(charsmap)) + charsmap
    for number, message in ((b"\x12", trainer), (b"\x1a", normalizer)):
        parts.append(number + _encode_varint(len(message)) + message)
    return b"".join(parts)


def _encode_piece(text: str, score: float, kind: int = NORMAL) -> bytes:
    """Returns `ModelProto.pieces` with one piece, in the protocol buffers' format.

    Encoded by hand: SentencePiece's own protobuf messages need a protobuf release at
    least as new as they are.
    """
    encoded = text.encode()
    message = b"\x0a" + _encode_varint(len(encoded)) + encoded
    message += b"\x15" + struct.pack("<f", score) + bytes([0x18, kind])
    return b"\x0a" + _encode_varint(len(message)) + message


class _Field(NamedTuple):
    """A field of a protocol buffer message."""

    number: int
    value: int | bytes
    begin: int
    """Place of its first byte in the message."""
    end: int


def read_piece_types(model_proto: bytes) -> list[int]:
    """Returns the type of each piece of a SentencePiece model, by id.

    `ModelProto.pieces` is read from the protocol buffers' format: SentencePiece's
    methods do not tell a user symbol from a learned piece.
    """
    types = []
    for piece in _messages(model_proto, 1):
        kinds = [field.value for field in _read_fields(piece) if field.number == 3]
        types.append(kinds[-1] if kinds else NORMAL)
    return types


def splits_at_spaces(model_proto: bytes) -> bool:
    """Returns whether a BPE model encodes a text as its words one by one.

    So it is if no piece goes beyond a space, each word begins with one, and characters
    are neither changed nor joined.
    """
    types = read_piece_types(model_proto)
    pieces = [
        field.value
        for piece in _messages(model_proto, 1)
        for field in _read_fields(piece)
        if field.number == 1 and isinstance(field.value, bytes)
    ]
    # NormalizerSpec: precompiled_charsmap, add_dummy_prefix and escape_whitespaces.
    normalizer = {
        field.number: field.value
        for spec in _messages(model_proto, 3)
        for field in _read_fields(spec)
    }
    # TrainerSpec: treat_whitespace_as_suffix.
    trainer = {
        field.number: field.value
        for spec in _messages(model_proto, 2)
        for field in _read_fields(spec)
    }
    space = "\u2581".encode()
    return (
        # Unknown characters are joined unless they are spelled in bytes.
        BYTE in types
        and not any(space in piece[1:] for piece in pieces)
        and not normalizer.get(2)
        and normalizer.get(3, 1) == normalizer.get(5, 1) == 1
        and not trainer.get(24)
    )


def without_input_format(model_proto: bytes) -> bytes:
    """Returns a model that does not tell the format of what it was learned from."""
    for spec in _read_fields(model_proto):
        if spec.number != 2 or not isinstance(spec.value, bytes):
            continue
        for field in _read_fields(spec.value):
            if field.number == 7:
                rest = spec.value[: field.begin] + spec.value[field.end :]
                message = b"\x12" + _encode_varint(len(rest)) + rest
                return model_proto[: spec.begin] + message + model_proto[spec.end :]
    return model_proto


def restrict_pieces(model_proto: bytes, kept: Collection[str]) -> bytes:
    """Returns a model that splits text into some of its learned pieces alone.

    The others are marked as unused. Text that the model splits into kept pieces is
    split in the same way.
    """
    kept_texts = {piece.encode() for piece in kept}
    parts = []
    for field in _read_fields(model_proto):
        whole = model_proto[field.begin : field.end]
        if field.number == 1 and isinstance(field.value, bytes):
            values = {each.number: each.value for each in _read_fields(field.value)}
            if values.get(3, NORMAL) == NORMAL and values.get(1) not in kept_texts:
                # Of a field that is there twice, the last counts.
                message = field.value + bytes([0x18, UNUSED])
                whole = b"\x0a" + _encode_varint(len(message)) + message
        parts.append(whole)
    return b"".join(parts)


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    """Yields the messages, or texts, that are fields of this number."""
    for field in _read_fields(message):
        if field.number == number and isinstance(field.value, bytes):
            yield field.value


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _read_fields(message: bytes) -> Iterator[_Field]:
    """Yields the fields of a message."""
    place = 0

    def read_varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        begin = place
        number, wire_type = divmod(read_varint(), 8)
        if wire_type == 0:
            yield _Field(number, read_varint(), begin, place)
            continue
        size = {1: 8, 5: 4}.get(wire_type)
        if size is None:
            size = read_varint()
        place += size
        yield _Field(number, message[place - size : place], begin, place)
