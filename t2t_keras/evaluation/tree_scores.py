"""Scores of a parser: EVALB's, of bracketed trees against a treebank's symbols."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import check_sentence_pairs
from t2t_keras.parsing.bracket_scores import (
    CUTOFF_LENGTH,
    BracketScores,
    SentenceScore,
    percent,
    sentence_scores,
    summed,
)
from t2t_keras.parsing.evalb_table import evalb_table, summary
from t2t_keras.parsing.linearization import linearized, repaired
from t2t_keras.parsing.trees import Tree, read_trees
from t2t_keras.text.normalization import normalize


@dataclasses.dataclass(frozen=True)
class TreeScores:
    """What a set of trees scored.

    Attributes:
        sentences: Of each sentence, in order.
    """

    sentences: tuple[SentenceScore, ...]

    @property
    def headline(self) -> tuple[str, float]:
        """The F1 of all sentences."""
        return "F1", summed(self.sentences).f1

    @property
    def table(self) -> str:
        """All that EVALB prints."""
        return evalb_table(self.sentences)

    def lines(self) -> list[str]:
        """Returns F1, and then EVALB's two summaries."""
        scores = summed(self.sentences)
        first = (
            f"F1 {scores.f1:.2f}  recall {scores.recall:.2f}, precision "
            f"{scores.precision:.2f}: labelled brackets as EVALB counts them with "
            "COLLINS.prm"
        )
        return [first, *summary(self.sentences).splitlines()]

    def facts(self) -> dict[str, Any]:
        """Returns the figures of all sentences and of those up to 40 words."""
        short = [one for one in self.sentences if one.length <= CUTOFF_LENGTH]
        return {
            **_facts(summed(self.sentences)),
            "brackets": "EVALB, COLLINS.prm",
            f"up_to_{CUTOFF_LENGTH}_words": _facts(summed(short)),
        }


def _facts(scores: BracketScores) -> dict[str, float]:
    return {
        "f1": scores.f1,
        "recall": scores.recall,
        "precision": scores.precision,
        "complete_match": percent(scores.complete, scores.valid),
        "tagging": scores.tagging,
        "valid": scores.valid,
        "errors": scores.errors,
        "skipped": scores.skipped,
    }


def judged_trees(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> TreeScores:
    """Returns the scores of bracketed trees.

    Args:
        sources: Sentences, with blanks between words.
        hypotheses: Trees in brackets, a line each; an empty one is no tree.
        references: The right trees' symbols (`t2t_keras.parsing.linearization`).

    Raises:
        UserError: If there is no sentence, not one reference for each, or one that is
            not the symbols of a tree over its sentence.
    """
    check_sentence_pairs(hypotheses, references)
    gold = _references(sources, references)
    found = (next(read_trees([line], "a parse"), None) for line in hypotheses)
    return TreeScores(tuple(sentence_scores(gold, found, most_errors=None)))


def _references(sources: Sequence[str], references: Sequence[str]) -> Iterator[Tree]:
    pairs = zip(sources, references, strict=True)
    for number, (source, reference) in enumerate(pairs, start=1):
        words = normalize(source).split()
        tree = repaired(reference, words)
        if words and linearized(tree) != " ".join(reference.split()):
            raise UserError(
                f"Reference {number} is no tree over the {len(words)} words of its "
                f"sentence: “{reference[:80]}”. Expected are symbols, as (S (NP DT NN "
                ")NP (VP VBZ )VP )S, with a part of speech for each word."
            )
        yield tree
