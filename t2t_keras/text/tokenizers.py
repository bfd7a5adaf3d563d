"""Tokenizers of imported models: text to pieces and back, in Python and in the graph.

Pieces are strings. `PieceVocabulary` maps them to ids: the SentencePiece models of such
a model only segment, and its vocabulary has ids of its own.

Shapes: N number of texts, L length.
"""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from t2t_keras.errors import require_package
from t2t_keras.text.sentencepiece_models import load_processor, restrict_pieces
from t2t_keras.typing import Tensor

SPACE = "\u2581"
"""SentencePiece's sign for a space, LOWER ONE EIGHTH BLOCK."""
# White space that separates words: that of ASCII. Other kinds may be part of a piece.
_BLANKS = "[ \\t\\n\\v\\f\\r]+"


class Tokenizer(Protocol):
    """Text to pieces and back."""

    @property
    def kind(self) -> str:
        """Its kind, as the file of a vocabulary names it."""
        ...

    @property
    def graph_resources(self) -> list[Any]:
        """The objects that `split_in_graph` uses; an exported module tracks them."""
        ...

    def to_files(self) -> Mapping[str, bytes]:
        """Returns the files that it is made of, by suffix."""
        ...

    def restrict(self, pieces: Collection[str]) -> "Tokenizer":
        """Returns the tokenizer that splits text into some of its pieces alone."""
        ...

    def split(self, text: str) -> list[str]:
        """Returns the pieces of a text."""
        ...

    def split_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `split` does, [N, (length)] string, for [N] string."""
        ...

    def mark(self, pieces: Sequence[str]) -> list[str]:
        """Returns pieces with "▁" for a space."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces."""
        ...

    def piece_texts(self, pieces: Sequence[str]) -> list[str]:
        """Returns what each piece contributes to the text of several."""
        ...

    def finish_in_graph(self, texts: Tensor) -> Tensor:
        """Returns the texts of contributions end to end, both [N] string."""
        ...


class WordTokenizer:
    """Pieces are words between white space, such as text that was tokenized before."""

    kind = "words"

    @property
    def graph_resources(self) -> list[Any]:
        """None."""
        return []

    def to_files(self) -> Mapping[str, bytes]:
        """Returns none."""
        return {}

    def restrict(self, pieces: Collection[str]) -> "WordTokenizer":
        """Returns the tokenizer itself: a word is not split."""
        return self

    def split(self, text: str) -> list[str]:
        """Returns the words of a text."""
        return [word for word in re.split(_BLANKS, text) if word]

    def split_in_graph(self, texts: Tensor) -> Tensor:
        """Returns the words of texts [N] string, [N, (length)] string."""
        import tensorflow as tf

        return tf.strings.split(tf.strings.regex_replace(texts, _BLANKS, " "))

    def mark(self, pieces: Sequence[str]) -> list[str]:
        """Returns each word after "▁", which stands for a space."""
        return [f"{SPACE}{piece}" for piece in pieces]

    def join(self, pieces: Sequence[str]) -> str:
        """Returns the words with spaces between them."""
        return " ".join(pieces)

    def piece_texts(self, pieces: Sequence[str]) -> list[str]:
        """Returns what each contributes to the text of several: it, after a space."""
        return [f" {piece}" for piece in pieces]

    def finish_in_graph(self, texts: Tensor) -> Tensor:
        """Returns texts [N] string, contributions end to end, without outer spaces."""
        return _strip_in_graph(texts)


class SentencePieceTokenizer:
    """Segmentation by a SentencePiece model, whose own ids are not used.

    Raises:
        UserError: As `load_processor`.
    """

    kind = "sentencepiece"

    def __init__(self, model_proto: bytes, name: str = "These bytes"):
        self._model_proto = model_proto
        self.processor = load_processor(model_proto, name)

    @property
    def graph_resources(self) -> list[Any]:
        """The tokenizer op."""
        return [self._in_graph]

    @functools.cached_property
    def _in_graph(self) -> Any:
        import tensorflow as tf

        with require_package("A tokenizer in the graph", "tensorflow-text"):
            from t2t_keras.text.graph_tokenizer import GraphTokenizer

        with tf.init_scope():  # see `SubwordVocabulary.tokenizer`
            return GraphTokenizer(self._model_proto, out_type=tf.string)

    def to_files(self) -> Mapping[str, bytes]:
        """Returns the model."""
        return {"spm": self._model_proto}

    def restrict(self, pieces: Collection[str]) -> "SentencePieceTokenizer":
        """Returns the tokenizer that splits text into some of its pieces alone."""
        return SentencePieceTokenizer(restrict_pieces(self._model_proto, pieces))

    def split(self, text: str) -> list[str]:
        """Returns the pieces; unknown characters in a row are one piece."""
        return self.processor.encode(text, out_type=str)

    def split_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `split` does, [N, (length)] string, for [N] string."""
        return self._in_graph.tokenize(texts)

    def mark(self, pieces: Sequence[str]) -> list[str]:
        """Returns the pieces, which have the sign already."""
        return list(pieces)

    def join(self, pieces: Sequence[str]) -> str:
        """Returns the text, also of pieces that only the other side's model has."""
        text = self.processor.decode_pieces(list(pieces))
        return text.replace(SPACE, " ").strip(" ")

    def piece_texts(self, pieces: Sequence[str]) -> list[str]:
        """Returns each piece with spaces for "▁"; byte pieces are not replaced."""
        processor = self.processor
        texts = []
        for piece in pieces:
            own_id = processor.piece_to_id(piece)
            is_own = processor.id_to_piece(own_id) == piece
            if is_own and processor.is_control(own_id):
                texts.append("")
            elif is_own and processor.is_unknown(own_id):
                texts.append(processor.decode([own_id]))
            else:
                texts.append(piece.replace(SPACE, " "))
        return texts

    def finish_in_graph(self, texts: Tensor) -> Tensor:
        """Returns the texts without spaces at either end."""
        return _strip_in_graph(texts)


def _strip_in_graph(texts: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.strings.regex_replace(texts, "^ +| +$", "")
