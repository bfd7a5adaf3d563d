"""Subword vocabulary of SentencePiece (BPE or unigram): text to ids and back.

Both directions exist in Python and in the graph, and agree. Only methods that work in
the graph import TensorFlow: without it a process that encodes a corpus starts in half a
second and 30 MB, with it in several seconds and half a gigabyte.

They agree except for ties of unigram models. "...." may be "." and "..." or "..." and
".": both have the same sum of scores, and rounding decides. SentencePiece 0.2.2 sums in
another order than 0.2.1 and TensorFlow Text, so text would be encoded in one way for
training and in another by an export (ADR 0009). `check_ties` refuses such a release. It
encodes a text full of ties instead of comparing versions, so that it is right about
future releases too.

Shapes: N number of texts, L length.
"""

import functools
import hashlib
import itertools
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError, require_package
from t2t_keras.files.atomic import write_file
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.typing import Tensor

if TYPE_CHECKING:
    from t2t_keras.text.graph_tokenizer import GraphTokenizer
    from t2t_keras.text.piece_table import PieceTable

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2

# The release that pyproject.toml pins.
_AGREEING_VERSION = "0.2.1"
_UNKNOWN, _NORMAL = 2, 1  # piece types of sentencepiece_model.proto
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


class SubwordVocabulary:
    """SentencePiece model, used from Python and in the graph with equal ids.

    `encode` and `decode` work on Python strings, `encode_in_graph` and
    `decode_in_graph` on tensors; the latter use ops that TensorFlow Serving links.
    All properties of the vocabulary, its size included, come from the file.

    Args:
        model_proto: The bytes of a SentencePiece model with padding at id 0,
            end of sentence at 1, unknown at 2, as `learn_subwords` returns it.

    Raises:
        UserError: If they are a path, or not a valid SentencePiece model, its special
            ids are others, or it is a unigram model and the installed SentencePiece
            breaks ties differently from TensorFlow Text.
    """

    def __init__(self, model_proto: bytes):
        if isinstance(model_proto, str | Path):
            raise UserError(
                "SubwordVocabulary must get the bytes of a model. Received the path "
                f"{model_proto}. SubwordVocabulary.load takes a path."
            )
        self._model_proto = model_proto
        self._processor = _load_processor(model_proto, "These bytes")

    def __reduce__(self):
        # The tokenizer and tables in the graph belong to this process.
        return type(self), (self._model_proto,)

    @classmethod
    def load(cls, path: str | Path) -> "SubwordVocabulary":
        """Returns the vocabulary in a file.

        Raises:
            UserError: If the file cannot be read, is not a valid SentencePiece model,
                or has other special ids.
        """
        try:
            model_proto = Path(path).read_bytes()
        except OSError as error:
            raise UserError(
                f"Cannot read the vocabulary file {path}: {error.strerror}. Give the "
                "path of a SentencePiece model learned by this project, or leave the "
                "vocabulary to be learned from the training text."
            ) from error
        _load_processor(model_proto, f"The file {path}")
        return cls(model_proto)

    def save(self, path: str | Path) -> None:
        """Writes the file atomically.

        Raises:
            UserError: If it cannot be written; an older file is then untouched.
        """
        try:
            write_file(Path(path), self._model_proto)
        except OSError as error:
            raise UserError(
                f"Cannot write {path}: {error.strerror}. Check that the folder exists, "
                "may be written to and has free space; an older file of that name is "
                "unchanged."
            ) from error

    @property
    def model_proto(self) -> bytes:
        """The model's bytes, to construct the vocabulary in another process."""
        return self._model_proto

    @property
    def size(self) -> int:
        """The number of ids: valid ones are 0 to `size - 1`."""
        return self._processor.get_piece_size()

    @functools.cached_property
    def is_unigram(self) -> bool:
        """Whether it is a unigram model; otherwise it is BPE."""
        return _is_unigram(self._processor)

    @functools.cached_property
    def longest_piece(self) -> int:
        """Number of characters of the longest piece."""
        return max(map(len, self.pieces(range(self.size))))

    @property
    def sha256(self) -> str:
        """Hash of the model's bytes in hexadecimal; it ties a run to its vocabulary."""
        return hashlib.sha256(self._model_proto).hexdigest()

    @functools.cached_property
    def tokenizer(self) -> "GraphTokenizer":
        """The only tokenizer op over this model; an exported module tracks it.

        Never construct a second one over the same bytes, and never pass add_bos,
        add_eos or reverse: two would share one resource, and each would change the
        other's options between two calls.
        """
        import tensorflow as tf

        with require_package("A tokenizer in the graph", "tensorflow-text"):
            from t2t_keras.text.graph_tokenizer import GraphTokenizer

        # A resource made inside a traced function would die with its graph.
        with tf.init_scope():
            return GraphTokenizer(self._model_proto)

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the normalized text, EOS_ID last.

        Any text can be encoded: characters without a piece are spelled in bytes.
        """
        return [*self._processor.encode(normalize(text)), EOS_ID]

    def encode_all(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids that `encode` gives, for each of many texts, end to end.

        For large corpora: on one core it is twice as fast as the graph, and it needs no
        TensorFlow.

        Args:
            texts: N texts, of any bytes.

        Returns:
            [all tokens] int32 ids, and [N] int64 number of tokens of each text, EOS_ID
            included.
        """
        rows = self._processor.encode([*map(normalize, texts)], num_threads=1)
        for row in rows:
            row.append(EOS_ID)
        return join_rows(rows)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS_ID, without padding.

        The result is normalized again: ids that a model predicts may spell a line
        break or half a character, and one line must stay one line.

        Args:
            ids: Integers in [0, size).

        Raises:
            ValueError: If an id before the first EOS_ID is outside [0, size).
        """
        token_ids = []
        for token_id in map(int, ids):
            if token_id == EOS_ID:
                break
            if not 0 <= token_id < self.size:
                raise ValueError(
                    f"ids must be in [0, {self.size}). Received: {token_id}"
                )
            if token_id != PAD_ID:
                token_ids.append(token_id)
        return normalize(self._processor.decode(token_ids))

    def symbol_ids(self, symbol: str, flag: str) -> list[int]:
        """Returns the ids of a symbol before a text: its piece, perhaps after a space.

        Args:
            symbol: Text without white space, such as a tag.
            flag: Flag that names the symbol, for the message.

        Raises:
            UserError: If it has white space, or the vocabulary splits it into several
                pieces.
        """
        if symbol.split() != [symbol]:
            raise UserError(f"--{flag} must have no space. Received: {symbol!r}")
        ids = self.encode(symbol)[:-1]
        pieces = self.pieces(ids)
        if "".join(pieces[-1:]).removeprefix("\u2581") != symbol:
            raise UserError(
                f"The vocabulary splits {symbol!r} (--{flag}) into "
                f"{' '.join(pieces)}. It must be one piece: learn the vocabulary with "
                f"--user_symbols={symbol}, or use one that has it (--vocabulary_file)."
            )
        return ids

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id: subword text, with "▁" for a space.

        Args:
            ids: Integers in [0, size).
        """
        return [self._processor.id_to_piece(token_id) for token_id in map(int, ids)]

    def split_piece(self, piece: str) -> list[int]:
        """Returns the ids into which a piece of another vocabulary is split.

        Args:
            piece: Subword text with "▁" for a space, as `pieces` returns it. Unlike
                a text, it does not begin with a space unless it says so.
        """
        return list(self.piece_processor.encode(piece)) or [UNK_ID]

    @property
    def processor(self) -> sentencepiece.SentencePieceProcessor:
        """The loaded SentencePiece model, which encodes normalized text."""
        return self._processor

    @functools.cached_property
    def piece_processor(self) -> sentencepiece.SentencePieceProcessor:
        """The same model for text with "▁" for spaces, without one at the beginning."""
        # Fields 3 and 4 of the normalizer, add_dummy_prefix and
        # remove_extra_whitespaces, set to false: messages merge by concatenation.
        unchanged = b"\x1a\x04\x18\x00\x20\x00"
        return _load_processor(self._model_proto + unchanged, "This vocabulary")

    def encode_in_graph(self, texts: Tensor) -> Tensor:
        """Returns the ids that `encode` gives, for each of a batch of texts.

        Args:
            texts: [N] string, of any bytes.

        Returns:
            [N, (length)] int32 RaggedTensor, EOS_ID last in every row.

        Raises:
            UserError: If it is one text, not a batch.
        """
        import tensorflow as tf

        texts = tf.convert_to_tensor(texts)
        if texts.shape.rank == 0:
            raise UserError(
                "texts must be a list or a tensor [N] of texts. Received one text; "
                "put it in a list, or use `encode`."
            )
        pieces = self.tokenizer.tokenize(normalize_in_graph(texts))
        # Appended here, not by the tokenizer: see `tokenizer`.
        eos = tf.fill([pieces.nrows(), 1], tf.constant(EOS_ID, tf.int32))
        return tf.concat([pieces, tf.RaggedTensor.from_tensor(eos)], axis=1)

    def decode_in_graph(self, ids: Tensor) -> Tensor:
        """Returns the texts that `decode` gives, for each row of a batch.

        Uses core TensorFlow ops only, and no tokenizer.

        Args:
            ids: [N, L] int32, each in [0, size).

        Returns:
            [N] string, normalized.
        """
        import tensorflow as tf

        is_end_NL = tf.cast(tf.equal(ids, EOS_ID), tf.int32)
        before_end_NL = tf.equal(tf.cumsum(is_end_NL, axis=1), 0)
        is_text_NL = tf.logical_and(before_end_NL, tf.not_equal(ids, PAD_ID))
        # Without gaps: padding between the bytes of a character must not split it.
        text_ids = tf.ragged.boolean_mask(ids, is_text_NL).to_tensor(PAD_ID)
        return self._piece_table.spell(text_ids)

    def pieces_in_graph(self, ids: Tensor) -> Tensor:
        """Returns what `pieces` does for each row of a batch; "" for padding.

        Uses core TensorFlow ops only.

        Args:
            ids: [N, L] int32, each in [0, size).

        Returns:
            [N, L] string.
        """
        import tensorflow as tf

        return tf.where(ids == PAD_ID, "", self._piece_table.names(ids))

    @functools.cached_property
    def _piece_table(self) -> "PieceTable":
        from t2t_keras.text.piece_table import PieceTable

        return PieceTable.from_processor(self._processor)


def join_rows(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all rows end to end, int32, and the length of each, int64."""
    return (
        np.fromiter(itertools.chain.from_iterable(rows), np.int32),
        np.fromiter(map(len, rows), np.int64, len(rows)),
    )


def _load_processor(
    model_proto: bytes, name: str
) -> sentencepiece.SentencePieceProcessor:
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
    special_ids = (processor.pad_id(), processor.eos_id(), processor.unk_id())
    if special_ids != (PAD_ID, EOS_ID, UNK_ID):
        raise UserError(
            f"{name} holds a SentencePiece model with pad, eos, unk at ids "
            f"{special_ids}; {(PAD_ID, EOS_ID, UNK_ID)} is needed. Learn the "
            f"vocabulary with this project, or train it with --pad_id={PAD_ID} "
            f"--eos_id={EOS_ID} --unk_id={UNK_ID} --bos_id=-1."
        )
    if _is_unigram(processor):
        check_ties()
    return processor


def _is_unigram(processor: sentencepiece.SentencePieceProcessor) -> bool:
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


def _encode_piece(text: str, score: float, kind: int = _NORMAL) -> bytes:
    """Returns `ModelProto.pieces` with one piece, in the protocol buffers' format.

    Encoded by hand: SentencePiece's own protobuf messages need a protobuf release at
    least as new as they are.
    """
    encoded = text.encode()
    message = bytes([0x0A, len(encoded)]) + encoded
    message += b"\x15" + struct.pack("<f", score) + bytes([0x18, kind])
    return bytes([0x0A, len(message)]) + message
