"""Subword vocabulary that is one SentencePiece model (BPE or unigram).

Shapes: N number of texts, L length.
"""

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError, require_package
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.text.sentencepiece_models import (
    is_unigram,
    load_processor,
    splits_at_spaces,
)
from t2t_keras.text.vocabulary import (
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Vocabulary,
    join_rows,
    read_vocabulary_file,
)
from t2t_keras.text.word_encoder import WordEncoder
from t2t_keras.typing import Tensor

if TYPE_CHECKING:
    from t2t_keras.text.graph_tokenizer import GraphTokenizer
    from t2t_keras.text.piece_table import PieceTable


class SubwordVocabulary(Vocabulary):
    """SentencePiece model, used from Python and in the graph with equal ids.

    `encode` and `decode` work on Python strings, `encode_in_graph` and
    `decode_in_graph` on tensors; the latter use ops that TensorFlow Serving links.
    All properties of the vocabulary, its size included, come from the file.

    Args:
        model_proto: The bytes of a SentencePiece model with padding at id 0,
            end of sentence at 1, unknown at 2, as `learn_subwords` returns it.
        name: What the bytes are, for messages.

    Raises:
        UserError: If they are a path, or not a valid SentencePiece model, its special
            ids are others, or it is a unigram model and the installed SentencePiece
            breaks ties differently from TensorFlow Text.
    """

    def __init__(self, model_proto: bytes, name: str = "These bytes"):
        if isinstance(model_proto, str | Path):
            raise UserError(
                "SubwordVocabulary must get the bytes of a model. Received the path "
                f"{model_proto}. SubwordVocabulary.load takes a path."
            )
        self._model_proto = model_proto
        self._processor = _load(model_proto, name)

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
        return cls(read_vocabulary_file(path), f"The file {path}")

    @property
    def model_proto(self) -> bytes:
        """The model's bytes."""
        return self._model_proto

    def to_bytes(self) -> bytes:
        """Returns the model's bytes."""
        return self._model_proto

    @property
    def size(self) -> int:
        """The number of ids."""
        return self._processor.get_piece_size()

    @functools.cached_property
    def is_unigram(self) -> bool:
        """Whether it is a unigram model; otherwise it is BPE."""
        return is_unigram(self._processor)

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

    @property
    def graph_resources(self) -> list[Any]:
        """The tokenizer."""
        return [self.tokenizer]

    def normalize(self, text: str | bytes) -> str:
        """Returns the text with single spaces; see `t2t_keras.text.normalization`."""
        return normalize(text)

    def normalize_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `normalize` does, for a tensor of strings."""
        return normalize_in_graph(texts)

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the normalized text, EOS_ID last.

        Any text can be encoded: characters without a piece are spelled in bytes.
        """
        return [*self._processor.encode(normalize(text)), EOS_ID]

    def encode_all(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids that `encode` gives, for each of many texts, end to end.

        A BPE vocabulary encodes each different word once, which is about five times as
        fast as SentencePiece. No TensorFlow is needed.
        """
        if self._word_encoder is not None:
            return self._word_encoder.encode_all(texts)
        rows = self._processor.encode([*map(normalize, texts)], num_threads=1)
        for row in rows:
            row.append(EOS_ID)
        return join_rows(rows)

    @functools.cached_property
    def _word_encoder(self) -> WordEncoder | None:
        # Not for unigram: rounding the sum of a text's scores decides its ties.
        if self.is_unigram or not splits_at_spaces(self._model_proto):
            return None
        return WordEncoder(self._processor)

    def _spell(self, ids: list[int]) -> str:
        # Ids that a model predicts may spell a line break or half a character.
        return normalize(self._processor.decode(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns SentencePiece's name of each id."""
        return [self._processor.id_to_piece(token_id) for token_id in map(int, ids)]

    def split_piece(self, piece: str) -> list[int]:
        """Returns the ids into which a piece of another vocabulary is split."""
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
        return _load(self._model_proto + unchanged, "This vocabulary")

    def _tokenize_in_graph(self, texts: Tensor) -> Tensor:
        return self.tokenizer.tokenize(texts)

    def _build_piece_table(self) -> "PieceTable":
        from t2t_keras.text.piece_table import PieceTable

        return PieceTable.from_processor(self._processor)


def _load(model_proto: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """Returns a loaded model, checked for its special ids."""
    processor = load_processor(model_proto, name)
    special_ids = (processor.pad_id(), processor.eos_id(), processor.unk_id())
    if special_ids != (PAD_ID, EOS_ID, UNK_ID):
        raise UserError(
            f"{name} holds a SentencePiece model with pad, eos, unk at ids "
            f"{special_ids}; {(PAD_ID, EOS_ID, UNK_ID)} is needed. Learn the "
            f"vocabulary with this project, or train it with --pad_id={PAD_ID} "
            f"--eos_id={EOS_ID} --unk_id={UNK_ID} --bos_id=-1."
        )
    return processor
