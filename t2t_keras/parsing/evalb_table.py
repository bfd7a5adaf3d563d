"""Bracket scores as EVALB prints them, to the character."""

from collections.abc import Sequence

from t2t_keras.parsing.bracket_scores import (
    CUTOFF_LENGTH,
    BracketScores,
    SentenceScore,
    percent,
    summed,
)

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
        sentences: In the order of the file; the first has number 1.
        cutoff_length: Words, punctuation counted, up to which a sentence is in the
            second summary.
    """
    scores = summed(sentences)
    rows = [_row(number, score) for number, score in enumerate(sentences, start=1)]
    return "".join(
        [_HEAD, _RULE, *rows, _RULE, _sums(scores), summary(sentences, cutoff_length)]
    )


def summary(
    sentences: Sequence[SentenceScore], cutoff_length: int = CUTOFF_LENGTH
) -> str:
    """Returns the summaries of all sentences, and of those up to a length."""
    short = summed(score for score in sentences if score.length <= cutoff_length)
    return (
        f"=== Summary ===\n\n-- All --\n{_described(summed(sentences))}"
        f"\n-- len<={cutoff_length} --\n{_described(short)}"
    )


def _row(number: int, score: SentenceScore) -> str:
    recall = percent(score.matched, score.gold)
    precision = percent(score.matched, score.test)
    tagging = percent(score.tags, score.words)
    brackets = f"{score.matched:3d}    {score.gold:3d}  {score.test:3d}"
    return (
        f"{number:4d}  {score.length:3d}    {score.status}  {recall:6.2f} "
        f"{precision:6.2f}   {brackets}    {score.crossing:3d}   {score.words:4d}  "
        f"{score.tags:4d}   {tagging:6.2f}\n"
    )


def _sums(scores: BracketScores) -> str:
    # Without brackets on one side there are no figures of brackets, not even blanks.
    brackets = (
        f"                {scores.recall:6.2f} {scores.precision:6.2f} "
        f"{scores.matched:6d} {scores.gold:5d} {scores.test:5d}  {scores.crossing:5d}"
        if scores.gold and scores.test
        else ""
    )
    return f"{brackets}  {scores.words:5d} {scores.tags:5d}   {scores.tagging:6.2f}\n"


def _described(scores: BracketScores) -> str:
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
