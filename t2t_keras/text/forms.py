"""What text looks like outside, and what of it the model sees and writes.

Shapes: B number of texts, N translations of each.
"""

from typing import Protocol

from t2t_keras.typing import Tensor


class TextForm(Protocol):
    """How a line becomes a source, and what a model writes becomes an answer.

    Each in Python and in the graph, agreeing.
    """

    def source(self, line: str | bytes) -> str | bytes:
        """Returns what the model reads of a line."""
        ...

    def answer(self, source: str, target: str) -> str:
        """Returns what the user gets.

        Args:
            source: Normalised, and cut to what is read of a line at most.
            target: What the model wrote, normalised.
        """
        ...

    def source_in_graph(self, lines: Tensor) -> Tensor:
        """Returns what `source` does, of [B] string."""
        ...

    def answer_in_graph(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns what `answer` does, of [B] and [B, N] string, as [B, N]."""
        ...


class PlainText:
    """The form of a translator: text is read and written as it is."""

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
