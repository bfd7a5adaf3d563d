"""EVALB scores of a parser: bracketed trees against a treebank's symbols.

EVALB removes punctuation by its part of speech, on each side by the side's own. So a
comma that a parser calls a noun makes the lengths differ, and the whole sentence an
error, which is not counted: a bad tagger loses its hardest sentences. EVALB's figures
are therefore reported beside the F1 of all sentences, with the right parts of speech in
the parser's trees. Where no sentence is in error, they are the same. `evalb_table`
returns EVALB's output, character for character.
"""

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
    sum_scores,
)
from t2t_keras.parsing.linearization import linearize, repair_tree, tree_words
from t2t_keras.parsing.trees import (
    Tree,
    build_trees,
    escape_brackets,
    read_trees,
    walk,
)
from t2t_keras.text.normalization import normalize

_HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
"""
_RULE = "=" * 76 + "\n"


def evalb_table(
    sentences: Sequence[SentenceScore], cutoff_length: int = CUTOFF_LENGTH
) -> str:
    """Returns a line for each sentence, their sums, and the two summaries.

    Args:
        sentences: Scores in the order of the file; the first has number 1.
        cutoff_length: Words, punctuation counted, up to which a sentence is in the
            second summary.
    """
    scores = sum_scores(sentences)
    rows = [
        _format_row(number, score) for number, score in enumerate(sentences, start=1)
    ]
    return "".join(
        [
            _HEAD,
            _RULE,
            *rows,
            _RULE,
            _format_sums(scores),
            summary(sentences, cutoff_length),
        ]
    )


def summary(
    sentences: Sequence[SentenceScore], cutoff_length: int = CUTOFF_LENGTH
) -> str:
    """Returns the summaries of all sentences, and of those up to a length."""
    short = sum_scores(score for score in sentences if score.length <= cutoff_length)
    return (
        f"=== Summary ===\n\n-- All --\n{_format_summary(sum_scores(sentences))}"
        f"\n-- len<={cutoff_length} --\n{_format_summary(short)}"
    )


def _format_row(number: int, score: SentenceScore) -> str:
    recall = percent(score.matched, score.gold)
    precision = percent(score.matched, score.test)
    tagging = percent(score.tags, score.words)
    brackets = f"{score.matched:3d}    {score.gold:3d}  {score.test:3d}"
    return (
        f"{number:4d}  {score.length:3d}    {score.status}  {recall:6.2f} "
        f"{precision:6.2f}   {brackets}    {score.crossing:3d}   {score.words:4d}  "
        f"{score.tags:4d}   {tagging:6.2f}\n"
    )


def _format_sums(scores: BracketScores) -> str:
    # Without brackets on one side there are no figures of brackets, not even blanks.
    brackets = (
        f"                {scores.recall:6.2f} {scores.precision:6.2f} "
        f"{scores.matched:6d} {scores.gold:5d} {scores.test:5d}  {scores.crossing:5d}"
        if scores.gold and scores.test
        else ""
    )
    return f"{brackets}  {scores.words:5d} {scores.tags:5d}   {scores.tagging:6.2f}\n"


def _format_summary(scores: BracketScores) -> str:
    # Nothing right gives 0 / 0.
    f1 = scores.f1 if scores.matched else float("nan")
    crossings = scores.crossing / scores.valid if scores.valid else 0.0
    lines = [
        f"Number of sentence        = {scores.sentences:6d}",
        f"Number of Error sentence  = {scores.errors:6d}",
        f"Number of Skip  sentence  = {scores.skipped:6d}",
        f"Number of Valid sentence  = {scores.valid:6d}",
        f"Bracketing Recall         = {scores.recall:6.2f}",
        f"Bracketing Precision      = {scores.precision:6.2f}",
        f"Bracketing FMeasure       = {f1:6.2f}",
        f"Complete match            = {percent(scores.complete, scores.valid):6.2f}",
        f"Average crossing          = {crossings:6.2f}",
        f"No crossing               = "
        f"{percent(scores.without_crossing, scores.valid):6.2f}",
        f"2 or less crossing        = "
        f"{percent(scores.few_crossings, scores.valid):6.2f}",
        f"Tagging accuracy          = {scores.tagging:6.2f}",
    ]
    return "".join(f"{line}\n" for line in lines)


@dataclasses.dataclass(frozen=True)
class TreeScores:
    """Scores of a set of trees.

    Attributes:
        sentences: Scores of each sentence, in order.
        retagged: The same, with the right parts of speech in the trees.
        cutoff_length: Words up to which a sentence is in the second summary.
    """

    sentences: tuple[SentenceScore, ...]
    retagged: tuple[SentenceScore, ...]
    cutoff_length: int = CUTOFF_LENGTH

    @property
    def headline(self) -> tuple[str, float]:
        """F1 of all sentences, without regard to their parts of speech."""
        return "F1", sum_scores(self.retagged).f1

    @property
    def table(self) -> str:
        """The whole output of EVALB."""
        return evalb_table(self.sentences, self.cutoff_length)

    def lines(self) -> list[str]:
        """Returns both F1s, and then EVALB's two summaries."""
        scores = sum_scores(self.sentences)
        return [
            f"F1 {scores.f1:.2f}  labeled brackets as EVALB counts them with "
            f"COLLINS.prm, without {scores.errors} sentences in error",
            f"F1 {self.headline[1]:.2f}  of all sentences, with the right parts of "
            "speech in the trees",
            *summary(self.sentences, self.cutoff_length).splitlines(),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures of all sentences and of those up to a length."""
        short = [one for one in self.sentences if one.length <= self.cutoff_length]
        return {
            **_facts(sum_scores(self.sentences)),
            "f1_with_right_tags": self.headline[1],
            "brackets": "EVALB, COLLINS.prm",
            f"up_to_{self.cutoff_length}_words": _facts(sum_scores(short)),
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


def score_trees(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    cutoff_length: int = CUTOFF_LENGTH,
) -> TreeScores:
    """Returns the scores of bracketed trees.

    Args:
        sources: Sentences, with blanks between words.
        hypotheses: Trees in brackets, a line each; an empty line is a missing tree.
        references: The right trees' symbols (`t2t_keras.parsing.linearization`).
        cutoff_length: As for `evalb_table`.

    Raises:
        UserError: If there is no sentence, if their numbers differ, or if a reference
            is not the symbols of a tree over its sentence.
    """
    check_sentence_pairs(hypotheses, references)
    gold = list(_references(sources, references))
    trees = [next(read_trees([line], "a parse"), None) for line in hypotheses]
    retagged = map(_retag, trees, gold)
    return TreeScores(
        tuple(sentence_scores(gold, trees, most_errors=None)),
        tuple(sentence_scores(gold, retagged, most_errors=None)),
        cutoff_length,
    )


def _retag(tree: Tree | None, gold: Tree | None) -> Tree | None:
    """Returns a tree with another's parts of speech, if it has as many words."""
    if tree is None or gold is None or len(tree_words(tree)) != len(tree_words(gold)):
        return tree
    tags = (leaf.label for leaf in gold.leaves())
    steps = (
        Tree(next(tags), word=step.word) if isinstance(step, Tree) else step
        for step in walk(tree)
    )
    return next(iter(build_trees(steps)), None)


def _references(
    sources: Sequence[str], references: Sequence[str]
) -> Iterator[Tree | None]:
    """Yields the right trees; None, which is an error, for a line without symbols."""
    pairs = zip(sources, references, strict=True)
    for number, (source, reference) in enumerate(pairs, start=1):
        if not reference.split():
            yield None
            continue
        # As the trees that are scored have them, for EVALB compares words.
        words = [escape_brackets(word) for word in normalize(source).split()]
        tree = repair_tree(reference, words)
        if words and linearize(tree) != " ".join(reference.split()):
            raise UserError(
                f"Reference {number} is not a tree over the {len(words)} words of its "
                f"sentence: “{reference[:80]}”. Expected are symbols, as (S (NP DT NN "
                ")NP (VP VBZ )VP )S, with a part of speech for each word."
            )
        yield tree
