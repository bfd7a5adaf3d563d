"""Text to ids, cut to limits, in Python and in the graph; and adapters of the text.

A text of a megabyte, sent to a server by mistake or by malice, must not cost more
than one of a page. A text adapter says what a task's text looks like outside the model.

Shapes: N number of texts, or of translations of each of B texts; L length.
"""

from typing import NamedTuple, Protocol

from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.text.vocabulary import EOS_ID, SubwordVocabulary
from t2t_keras.typing import Tensor


class ReadTexts(NamedTuple):
    """Ids of a batch of texts.

    Attributes:
        ids: [N, L] int32, EOS_ID at the end of each row, then PAD_ID; L is 1 at
            least, even of no texts.
        lengths: [N] int32, tokens of each, EOS_ID counted.
        truncated: [N] bool, whether the end of a text was left out.
    """

    ids: Tensor
    lengths: Tensor
    truncated: Tensor


class TextReader:
    """A vocabulary's `encode`, of texts of bounded length.

    Args:
        vocabulary: Of the texts.
        max_tokens: Most ids, EOS_ID counted. What is cut ends in EOS_ID too.
        max_characters: Most code points of a normalized text, or None for as many as
            `max_tokens` of the longest piece have: then it changes nothing but the
            time, for a text that long has too many tokens anyway.

    Raises:
        ValueError: If a limit is below 1.
    """

    def __init__(
        self,
        vocabulary: SubwordVocabulary,
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

    def kept(self, text: str | bytes) -> str:
        """Returns the normalized text up to the most characters that are looked at."""
        return normalize(text)[: self.max_characters]

    def kept_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `kept` does, of texts [N] string."""
        import tensorflow as tf

        whole = normalize_in_graph(texts)
        return tf.strings.substr(whole, 0, self.max_characters, unit="UTF8_CHAR")

    def read(self, text: str | bytes) -> tuple[list[int], bool]:
        """Returns the ids of a text, and whether its end was left out."""
        whole = normalize(text)
        # Encoding normalizes again, for a cut may leave a space at the end.
        ids = self._vocabulary.encode(whole[: self.max_characters])
        truncated = max(len(whole) - self.max_characters, len(ids) - self.max_tokens)
        return [*ids[:-1][: self.max_tokens - 1], EOS_ID], truncated > 0

    def read_in_graph(self, texts: Tensor) -> ReadTexts:
        """Returns what `read` does, of texts [N] string."""
        import tensorflow as tf

        from t2t_keras.text.padding import pad_rows

        whole = normalize_in_graph(texts)
        characters = tf.strings.length(whole, unit="UTF8_CHAR")
        kept = tf.strings.substr(whole, 0, self.max_characters, unit="UTF8_CHAR")
        tokens = self._vocabulary.encode_in_graph(kept)
        too_many = tokens.row_lengths() > self.max_tokens
        words = tokens[:, :-1][:, : self.max_tokens - 1]
        ends = tf.fill([tokens.nrows(out_type=tf.int32), 1], EOS_ID)
        rows = tf.concat([words, tf.RaggedTensor.from_tensor(ends)], axis=1)
        ids = pad_rows(rows)
        # Of no texts there is no longest, and a model needs one position.
        missing = tf.maximum(1 - tf.shape(ids)[1], 0)
        return ReadTexts(
            tf.pad(ids, [[0, 0], [0, missing]]),
            tf.cast(rows.row_lengths(), tf.int32),
            (characters > self.max_characters) | too_many,
        )


class TextAdapter(Protocol):
    """How a line becomes a source, and what a model writes becomes an answer.

    Each in Python and in the graph, agreeing.
    """

    def source(self, line: str | bytes) -> str | bytes:
        """Returns what the model reads of a line."""
        ...

    def answer(self, source: str, target: str) -> str:
        """Returns what the user gets.

        Args:
            source: Normalized, and cut to what is read of a line at most.
            target: What the model wrote, normalized.
        """
        ...

    def source_in_graph(self, lines: Tensor) -> Tensor:
        """Returns what `source` does, of [B] string."""
        ...

    def answer_in_graph(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns what `answer` does, of [B] and [B, N] string, as [B, N]."""
        ...


class PlainTextAdapter:
    """The adapter of a translator: text is read and written as it is."""

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
