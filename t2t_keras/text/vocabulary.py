"""Vocabulary: text to token ids and back, in Python and in the graph, with equal ids.

Only methods that work in the graph import TensorFlow: without it a process that encodes
a corpus starts in half a second and 30 MB, with it in several seconds and half a
gigabyte.

Shapes: N number of texts, L length.
"""

import abc
import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_file
from t2t_keras.files.paths import expand
from t2t_keras.typing import Tensor

if TYPE_CHECKING:
    from t2t_keras.text.language_tags import LanguageTags
    from t2t_keras.text.piece_table import PieceTable

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2


class Vocabulary(abc.ABC):
    """Pieces of text and their ids: padding 0, end of sentence 1, unknown 2.

    A vocabulary encodes and decodes targets. `source` encodes sources; it is the same
    object unless the two sides differ, as in some models of other programs.
    """

    @property
    def source(self) -> "Vocabulary":
        """The vocabulary of sources."""
        return self

    @property
    def languages(self) -> "LanguageTags | None":
        """Languages of a multilingual model, and the pair of its texts; else None."""
        return None

    @property
    def tag_id(self) -> int | None:
        """Id of the piece of the language that begins texts; None without languages."""
        return None

    def with_languages(self, source: str | None, target: str | None) -> "Vocabulary":
        """Returns the vocabulary of texts of another pair of languages.

        Without languages it is this vocabulary, whatever the pair.

        Args:
            source: Code of the language of sources. Default: that of this vocabulary.
            target: The same of targets.

        Raises:
            UserError: If a multilingual model has no such language.
        """
        return self

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of ids: valid ones are 0 to `size - 1`."""

    @property
    def largest_size(self) -> int:
        """The larger number of ids of the two sides."""
        return max(self.size, self.source.size)

    @functools.cached_property
    def longest_piece(self) -> int:
        """Number of characters of the longest piece."""
        return max(map(len, self.pieces(range(self.size))))

    @abc.abstractmethod
    def to_bytes(self) -> bytes:
        """Returns the content of its file, also to open it in another process.

        `t2t_keras.text.stored_vocabulary` opens it.
        """

    @property
    def sha256(self) -> str:
        """Hash of `to_bytes` in hexadecimal; it ties a run to its vocabulary."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Writes the file atomically.

        Raises:
            UserError: If it cannot be written; an older file is then untouched.
        """
        try:
            write_file(expand(path), self.to_bytes())
        except OSError as error:
            raise UserError(
                f"Cannot write {path}: {error.strerror}. Check that the folder exists, "
                "may be written to and has free space; an older file of that name is "
                "unchanged."
            ) from error

    @abc.abstractmethod
    def normalize(self, text: str | bytes) -> str:
        """Returns the text as well-formed Unicode, normalized before it is truncated.

        Args:
            text: Any string or any bytes.
        """

    @abc.abstractmethod
    def normalize_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `normalize` does, for a tensor of strings."""

    @abc.abstractmethod
    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the normalized text, EOS_ID last.

        Any text can be encoded; what has no piece becomes bytes or UNK_ID.
        """

    def encode_all(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids that `encode` gives, for each of many texts, end to end.

        For large corpora: it needs no TensorFlow.

        Args:
            texts: N texts, of any bytes.

        Returns:
            [all tokens] int32 ids, and [N] int64 number of tokens of each text, EOS_ID
            included.
        """
        return join_rows([self.encode(text) for text in texts])

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS_ID, without padding.

        It has no line break, even if the ids that a model predicts spell one.

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
        return self._spell(token_ids)

    @abc.abstractmethod
    def _spell(self, ids: list[int]) -> str:
        """Returns the text of ids without EOS_ID and padding, on one line."""

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

    @abc.abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the name of each id, mostly subword text with "▁" for a space.

        Args:
            ids: Integers in [0, size).
        """

    def marked_pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id with "▁" for a space, to count words.

        The piece of a language is "".

        Args:
            ids: Integers in [0, size).
        """
        return self.pieces(ids)

    @abc.abstractmethod
    def split_piece(self, piece: str) -> list[int]:
        """Returns the ids into which a piece of another vocabulary is split.

        Args:
            piece: Subword text with "▁" for a space, as `pieces` returns it. Unlike
                a text, it does not begin with a space unless it says so.
        """

    @property
    @abc.abstractmethod
    def graph_resources(self) -> list[Any]:
        """The objects that `encode_in_graph` uses; an exported module tracks them."""

    @abc.abstractmethod
    def _tokenize_in_graph(self, texts: Tensor) -> Tensor:
        """Returns ids without EOS_ID, [N, (length)] int32, of normalized [N] string.

        The pieces of languages are not among them.
        """

    @abc.abstractmethod
    def _build_piece_table(self) -> "PieceTable":
        """Returns names and texts of all ids, for the graph."""

    @functools.cached_property
    def _piece_table(self) -> "PieceTable":
        return self._build_piece_table()

    def tags_in_graph(self, codes: Tensor) -> Tensor:
        """Returns the ids of the pieces of languages, for a multilingual model.

        Args:
            codes: [N] string, codes of languages; "" for that of the vocabulary.

        Returns:
            [N] int32; PAD_ID where the model does not have the language.
        """
        raise NotImplementedError("A vocabulary without languages has no tags.")

    def encode_in_graph(self, texts: Tensor, tags: Tensor | None = None) -> Tensor:
        """Returns the ids that `encode` gives, for each of a batch of texts.

        Args:
            texts: [N] string, of any bytes.
            tags: [N] int32, the id with which each text begins, unless it is empty;
                from `tags_in_graph`. Default: `tag_id`.

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
        pieces = self._tokenize_in_graph(self.normalize_in_graph(texts))
        if tags is None and self.tag_id is not None:
            tags = tf.fill(tf.shape(texts), self.tag_id)
        if tags is not None:
            is_text_N1 = pieces.row_lengths()[:, None] > 0
            tags = tf.ragged.boolean_mask(tags[:, None], is_text_N1)
            pieces = tf.concat([tags, pieces], axis=1)
        # Appended here, not by a tokenizer: see `SubwordVocabulary.tokenizer`.
        eos = tf.fill([pieces.nrows(), 1], tf.constant(EOS_ID, tf.int32))
        return tf.concat([pieces, tf.RaggedTensor.from_tensor(eos)], axis=1)

    def decode_in_graph(self, ids: Tensor) -> Tensor:
        """Returns the texts that `decode` gives, [N] string, for each row of a batch.

        Uses core TensorFlow ops only, and no tokenizer.

        Args:
            ids: [N, L] int32, each in [0, size).
        """
        import tensorflow as tf

        is_end_NL = tf.cast(tf.equal(ids, EOS_ID), tf.int32)
        before_end_NL = tf.equal(tf.cumsum(is_end_NL, axis=1), 0)
        is_text_NL = tf.logical_and(before_end_NL, tf.not_equal(ids, PAD_ID))
        # Without gaps: padding between the bytes of a character must not split it.
        text_ids = tf.ragged.boolean_mask(ids, is_text_NL).to_tensor(PAD_ID)
        return self._piece_table.spell(text_ids)

    def pieces_in_graph(self, ids: Tensor) -> Tensor:
        """Returns what `pieces` does for each row, [N, L] string.

        The name of padding, and that of a language, is "".

        Uses core TensorFlow ops only.

        Args:
            ids: [N, L] int32, each in [0, size).
        """
        import tensorflow as tf

        return tf.where(ids == PAD_ID, "", self._piece_table.names(ids))


def join_rows(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all rows end to end, int32, and the length of each, int64."""
    return (
        np.fromiter(itertools.chain.from_iterable(rows), np.int32),
        np.fromiter(map(len, rows), np.int64, len(rows)),
    )


def read_vocabulary_file(path: str | Path) -> bytes:
    """Returns the content of a vocabulary file.

    Raises:
        UserError: If it cannot be read.
    """
    try:
        return expand(path).read_bytes()
    except OSError as error:
        raise UserError(
            f"Cannot read the vocabulary file {path}: {error.strerror}. Give the "
            "path of a model directory's vocabulary.model, or leave the vocabulary to "
            "be learned from the training text."
        ) from error
