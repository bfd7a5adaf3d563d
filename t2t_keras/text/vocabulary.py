"""The subword vocabulary: text to ids and back, in Python and in the graph.

TensorFlow is imported by what works in the graph alone: a process that encodes a
corpus starts in half a second and in 30 MB without it, in several seconds and
half a gigabyte with it.

Shapes: N number of texts, L length.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError, needed_for
from t2t_keras.files.atomic import write_file
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.text.ties import check_ties
from t2t_keras.typing import Tensor

if TYPE_CHECKING:
    from t2t_keras.text.graph_tokenizer import GraphTokenizer
    from t2t_keras.text.piece_table import PieceTable

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2


class SubwordVocabulary:
    """A SentencePiece model read in two ways that agree, id by id.

    `encode` and `decode` work on Python strings, `encode_in_graph` and
    `decode_in_graph` on tensors; the latter are made of ops that TensorFlow
    Serving links. Everything that is known about the vocabulary, its size
    included, comes from the file.

    Args:
        model_proto: The bytes of a SentencePiece model with padding at id 0,
            end of sentence at 1, unknown at 2: what `learn_subwords` returns.

    Raises:
        UserError: If the bytes are no SentencePiece model, or its special ids
            are others, or it is a unigram model that the installed SentencePiece
            reads otherwise than TensorFlow Text.
    """

    def __init__(self, model_proto: bytes):
        self._model_proto = model_proto
        self._processor = _processor_of(model_proto, "These bytes")

    @classmethod
    def load(cls, path: str | Path) -> "SubwordVocabulary":
        """Returns the vocabulary in a file.

        Raises:
            UserError: If the file cannot be read, is no SentencePiece model, or
                has other special ids.
        """
        try:
            model_proto = Path(path).read_bytes()
        except OSError as error:
            raise UserError(
                f"Cannot read the vocabulary file {path}: {error.strerror}. Give the "
                "path of a SentencePiece model learned by this project, or leave the "
                "vocabulary to be learned from the training text."
            ) from error
        _processor_of(model_proto, f"The file {path}")
        return cls(model_proto)

    def save(self, path: str | Path) -> None:
        """Writes the file atomically.

        Raises:
            UserError: If it cannot be written; an older file is then untouched.
        """
        _write_atomically(Path(path), self._model_proto)

    @property
    def model_proto(self) -> bytes:
        """The bytes it was made of, to make it again in another process."""
        return self._model_proto

    @property
    def size(self) -> int:
        """The number of ids: valid ones are 0 to `size - 1`."""
        return self._processor.get_piece_size()

    @functools.cached_property
    def longest_piece(self) -> int:
        """Characters of the longest piece: what one id may stand for."""
        return max(map(len, self.pieces(range(self.size))))

    @property
    def sha256(self) -> str:
        """The hash that ties a model to its vocabulary, in hexadecimal."""
        return hashlib.sha256(self._model_proto).hexdigest()

    @functools.cached_property
    def tokenizer(self) -> "GraphTokenizer":
        """The one tokenizer op over this model; an exported module tracks it.

        Never make a second one over the same bytes, and never give it add_bos,
        add_eos or reverse: they would share one resource, and each would
        change the other's options between two calls.
        """
        import tensorflow as tf

        with needed_for("A tokenizer in the graph", "tensorflow-text"):
            from t2t_keras.text.graph_tokenizer import GraphTokenizer

        # A resource made inside a traced function would die with its graph.
        with tf.init_scope():
            return GraphTokenizer(self._model_proto)

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the normalized text, EOS_ID last.

        Any text can be encoded: what no piece covers is spelled in bytes.
        """
        return [*self._processor.encode(normalize(text)), EOS_ID]

    def encode_all(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids that `encode` gives, for each of many texts, end to end.

        On one core twice as fast as the graph, and without TensorFlow: what
        prepares a large corpus.

        Args:
            texts: N of them, of any bytes.

        Returns:
            [all tokens] int32 ids, and [N] int64 how many of them are each text's,
            its EOS_ID counted.
        """
        rows = self._processor.encode([*map(normalize, texts)], num_threads=1)
        for row in rows:
            row.append(EOS_ID)
        return (
            np.fromiter(itertools.chain.from_iterable(rows), np.int32),
            np.fromiter(map(len, rows), np.int64, len(rows)),
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS_ID, padding left out.

        The result is normalized again: ids that a model made up may spell a
        line break or half a character, and one line must stay one line.

        Args:
            ids: Integers in [0, size).

        Raises:
            ValueError: If an id before the first EOS_ID is outside [0, size).
        """
        kept = []
        for token_id in map(int, ids):
            if token_id == EOS_ID:
                break
            if not 0 <= token_id < self.size:
                raise ValueError(
                    f"ids must be in [0, {self.size}). Received: {token_id}"
                )
            if token_id != PAD_ID:
                kept.append(token_id)
        return normalize(self._processor.decode(kept))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns what each id is called: a piece of text, "▁" for a space.

        Args:
            ids: Integers in [0, size).
        """
        return [self._processor.id_to_piece(token_id) for token_id in map(int, ids)]

    def encode_in_graph(self, texts: Tensor) -> Tensor:
        """Returns the ids that `encode` gives, for each of a batch of texts.

        Args:
            texts: [N] string, of any bytes.

        Returns:
            [N, (length)] int32 RaggedTensor, EOS_ID last in every row.
        """
        import tensorflow as tf

        pieces = self.tokenizer.tokenize(normalize_in_graph(texts))
        # Appended here, not by the tokenizer: see `tokenizer`.
        eos = tf.fill([pieces.nrows(), 1], tf.constant(EOS_ID, tf.int32))
        return tf.concat([pieces, tf.RaggedTensor.from_tensor(eos)], axis=1)

    def decode_in_graph(self, ids: Tensor) -> Tensor:
        """Returns the texts that `decode` gives, for each row of a batch.

        Made of core TensorFlow ops: whoever has ids needs no tokenizer.

        Args:
            ids: [N, L] int32, each in [0, size).

        Returns:
            [N] string, normalized.
        """
        import tensorflow as tf

        is_end_NL = tf.cast(tf.equal(ids, EOS_ID), tf.int32)
        before_end_NL = tf.equal(tf.cumsum(is_end_NL, axis=1), 0)
        kept_NL = tf.logical_and(before_end_NL, tf.not_equal(ids, PAD_ID))
        # Close together, for padding that is left out parts no character.
        pieces = tf.ragged.boolean_mask(ids, kept_NL).to_tensor(PAD_ID)
        return self._piece_table.spell(pieces)

    def pieces_in_graph(self, ids: Tensor) -> Tensor:
        """Returns what `pieces` does for each row of a batch; "" for padding.

        Made of core TensorFlow ops.

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

        processor = self._processor
        names = self.pieces(range(self.size))
        texts = [name.replace("\u2581", " ").encode() for name in names]
        byte_values = [-1] * self.size
        for token_id in range(self.size):
            if processor.is_byte(token_id):
                byte_values[token_id] = int(names[token_id][3:-1], 16)  # <0x41>
                texts[token_id] = bytes([byte_values[token_id]])
            elif processor.is_control(token_id):
                texts[token_id] = b""
        texts[UNK_ID] = self._processor.decode([UNK_ID]).encode()
        return PieceTable(names, texts, byte_values)


def _processor_of(
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
    found = (processor.pad_id(), processor.eos_id(), processor.unk_id())
    if found != (PAD_ID, EOS_ID, UNK_ID):
        raise UserError(
            f"{name} holds a SentencePiece model with pad, eos, unk at ids "
            f"{found}; {(PAD_ID, EOS_ID, UNK_ID)} is needed. Learn the vocabulary "
            f"with this project, or train it with --pad_id={PAD_ID} "
            f"--eos_id={EOS_ID} --unk_id={UNK_ID} --bos_id=-1."
        )
    if _is_unigram(processor):
        check_ties()
    return processor


def _is_unigram(processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Returns whether a model is of the type unigram, which no method tells."""
    try:
        return bool(processor.nbest_encode("a", nbest_size=1))
    except RuntimeError:
        return False


def _write_atomically(path: Path, content: bytes) -> None:
    try:
        write_file(path, content)
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror}. Check that the folder exists, "
            "may be written to and has free space; an older file of that name is "
            "unchanged."
        ) from error
