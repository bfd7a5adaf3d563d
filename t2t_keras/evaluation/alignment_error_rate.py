"""Alignment error rate of word alignments against gold ones (Och and Ney 2003)."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.text.word_alignments import WordAlignment


class AlignmentScores(NamedTuple):
    """Counts of links over a corpus, from which the scores follow.

    Attributes:
        sentences: Number of sentence pairs.
        links: Number of links that are scored.
        sure_links: Number of gold links that are sure.
        possible_links: Number of gold links, sure or possible.
        sure_hits: Number of scored links that are sure gold links.
        possible_hits: Number of scored links that are gold links of either kind.
    """

    sentences: int
    links: int
    sure_links: int
    possible_links: int
    sure_hits: int
    possible_hits: int

    @property
    def precision(self) -> float:
        """Percentage of the links that are gold links, sure or possible."""
        return 100 * self.possible_hits / self.links if self.links else 100.0

    @property
    def recall(self) -> float:
        """Percentage of the sure gold links that were found."""
        return 100 * self.sure_hits / self.sure_links if self.sure_links else 100.0

    @property
    def error_rate(self) -> float:
        """Alignment error rate in percent: 0 is perfect, 100 the worst."""
        hits = self.sure_hits + self.possible_hits
        return 100 * (1 - hits / (self.links + self.sure_links))

    def describe(self) -> str:
        """Returns the scores as lines of text."""
        possible = self.possible_links - self.sure_links
        return "\n".join(
            [
                f"{self.sentences:,} sentences, {self.links:,} links, "
                f"{self.sure_links:,} sure gold links, {possible:,} possible",
                f"  AER       {self.error_rate:6.2f}",
                f"  precision {self.precision:6.2f}",
                f"  recall    {self.recall:6.2f}",
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns scores and counts in JSON values."""
        scores = {
            "aer": self.error_rate,
            "precision": self.precision,
            "recall": self.recall,
        }
        return scores | self._asdict()


def score_alignments(
    found: Iterable[WordAlignment], gold: Iterable[WordAlignment]
) -> AlignmentScores:
    """Returns the scores of alignments, over the links of all sentences together.

    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), for the links A that were found, the
    sure gold links S, and the gold links P, sure or possible.

    Args:
        found: Links of each sentence; possible ones count as links.
        gold: Gold links of each sentence.

    Raises:
        UserError: If neither side has a link, so that the rate is not defined.
        ValueError: If the numbers of sentences differ.
    """
    counts = [0] * len(AlignmentScores._fields)
    for system, (sure, only_possible) in zip(found, gold, strict=True):
        links = system.sure | system.possible
        possible = sure | only_possible
        row = 1, len(links), len(sure), len(possible), len(links & sure)
        for i, count in enumerate((*row, len(links & possible))):
            counts[i] += count
    scores = AlignmentScores(*counts)
    if not scores.links + scores.sure_links:
        raise UserError(
            "Neither the alignments nor the gold alignments have a link, so there is "
            "no alignment error rate. Check the files."
        )
    return scores
