"""Encoding of text with truncation to limits, and text adapters.

A text of a megabyte, sent to a server by mistake or by malice, must not cost more
than one of a page. A text adapter converts between a task's text outside the model and
the model's source and target.

Shapes: N number of texts, or of translations of each of B texts; L length.
"""

from typing import NamedTuple, Protocol

from t2t_keras.text.vocabulary import EOS_ID, Vocabulary
from t2t_keras.typing import Tensor


class EncodedTexts(NamedTuple):
    """Ids of a batch of texts.

    Attributes:
        ids: [N, L] int32, EOS_ID at the end of each row, then PAD_ID; L is at least 1,
            even if N is 0.
        lengths: [N] int32, tokens of each text, EOS_ID included.
        truncated: [N] bool, whether the end of a text was cut off.
    """

    ids: Tensor
    lengths: Tensor
    truncated: Tensor


class TextReader:
    """Encoder of text with truncation to a number of tokens and of characters.

    Args:
        vocabulary: Vocabulary that encodes the texts.
        max_tokens: Maximum number of ids, EOS_ID included. A truncated text ends in
            EOS_ID too.
        max_characters: Maximum code points of a normalized text. Default: the number of
            characters of `max_tokens` longest pieces, which saves time but does not
            change the ids, since a longer text has too many tokens anyway.

    Raises:
        ValueError: If a limit is below 1.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        max_tokens: int,
        max_characters: int | None = None,
    ):
        if max_characters is None:
            max_characters = max_tokens * vocabulary.longest_piece
        if min(max_tokens, max_characters) < 1:
            raise ValueError(
                "max_tokens and max_characters must be at least 1. "
                f"Received: {max_tokens} and {max_characters}"
            )
        self.max_tokens = max_tokens
        self.max_characters = max_characters
        self._vocabulary = vocabulary

    def truncate(self, text: str | bytes) -> str:
        """Returns the normalized text, cut to `max_characters`."""
        return self._vocabulary.normalize(text)[: self.max_characters]

    def truncate_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `truncate` does, for texts [N] string."""
        import tensorflow as tf

        whole = self._vocabulary.normalize_in_graph(texts)
        return tf.strings.substr(whole, 0, self.max_characters, unit="UTF8_CHAR")

    def read(self, text: str | bytes) -> tuple[list[int], bool]:
        """Returns the ids of a text, and whether its end was cut off."""
        whole = self._vocabulary.normalize(text)
        # Encoding normalizes again, because truncation may leave a space at the end.
        ids = self._vocabulary.encode(whole[: self.max_characters])
        truncated = max(len(whole) - self.max_characters, len(ids) - self.max_tokens)
        return [*ids[:-1][: self.max_tokens - 1], EOS_ID], truncated > 0

    def read_in_graph(self, texts: Tensor, tags: Tensor | None = None) -> EncodedTexts:
        """Returns what `read` does, for texts [N] string.

        Args:
            texts: The texts.
            tags: As in `Vocabulary.encode_in_graph`.
        """
        import tensorflow as tf

        from t2t_keras.text.padding import pad_rows

        whole = self._vocabulary.normalize_in_graph(texts)
        characters = tf.strings.length(whole, unit="UTF8_CHAR")
        beginnings = tf.strings.substr(whole, 0, self.max_characters, unit="UTF8_CHAR")
        tokens = self._vocabulary.encode_in_graph(beginnings, tags)
        too_many = tokens.row_lengths() > self.max_tokens
        words = tokens[:, :-1][:, : self.max_tokens - 1]
        ends = tf.fill([tokens.nrows(out_type=tf.int32), 1], EOS_ID)
        rows = tf.concat([words, tf.RaggedTensor.from_tensor(ends)], axis=1)
        ids = pad_rows(rows)
        # Without texts there is no longest one, and a model needs one position.
        missing = tf.maximum(1 - tf.shape(ids)[1], 0)
        return EncodedTexts(
            tf.pad(ids, [[0, 0], [0, missing]]),
            tf.cast(rows.row_lengths(), tf.int32),
            (characters > self.max_characters) | too_many,
        )


class TextAdapter(Protocol):
    """Conversion of a user's line to a source, and of a target to an answer.

    Each exists in Python and in the graph, and both give the same text.
    """

    def source(self, line: str | bytes) -> str | bytes:
        """Returns the source text of a line, which the model reads."""
        ...

    def answer(self, source: str, target: str) -> str:
        """Returns the text for the user.

        Args:
            source: Source text, normalized and truncated.
            target: Output of the model, normalized.
        """
        ...

    def source_in_graph(self, lines: Tensor) -> Tensor:
        """Returns what `source` does, for [B] string."""
        ...

    def answer_in_graph(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns what `answer` does, for [B] and [B, N] string, as [B, N]."""
        ...


class PlainTextAdapter:
    """Adapter of a translator: text is not changed."""

    def source(self, line: str | bytes) -> str | bytes:
        """Returns the line."""
        return line

    def answer(self, source: str, target: str) -> str:
        """Returns the target."""
        return target

    def source_in_graph(self, lines: Tensor) -> Tensor:
        """Returns the lines."""
        return lines

    def answer_in_graph(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns the targets."""
        return targets
