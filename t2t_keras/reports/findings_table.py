"""Table of the paper's findings that an ablation shows."""

import math

from t2t_keras.reports.ablation.results import Ablation
from t2t_keras.reports.blocks import Block, Cell, Missing, Paragraph, Row, Table
from t2t_keras.reports.findings import (
    CLAIMS,
    UNSAID,
    Claim,
    Verdict,
    bleu_verdict,
    perplexity_verdict,
)
from t2t_keras.reports.paper_figures import variation

_RULE = (
    "Each difference is that of two means over seeds, with Welch's 95 % interval; "
    "perplexities are compared by their logarithms and shown as a ratio. A finding is "
    "seen if the whole interval lies on the paper's side of zero, reversed if it lies "
    "on the other, open if zero is in it. Two rows are equal if the whole interval "
    "lies within 2 % of perplexity, or half a point of BLEU. With one seed there is no "
    "spread, and nothing is concluded."
)


def findings_blocks(ablation: Ablation) -> list[Block]:
    """Returns a table of the findings whose rows an ablation has, and the rule.

    Nothing if it has no two of them.
    """
    names = {row.name for row in ablation.rows}
    rows = [
        _claim(ablation, claim) for claim in CLAIMS if {claim.row, claim.than} <= names
    ]
    if not rows:
        return []
    header = (
        *("finding of section 6.2", "rows", "PPL", "PPL ratio", "BLEU", "difference"),
        "paper",
    )
    caption = "Which of the paper's findings can be seen here"
    return [Table(caption, header, tuple(rows), 3), Paragraph(_RULE, quiet=True)]


def _claim(ablation: Ablation, claim: Claim) -> Row:
    sides = [ablation.of(claim.row), ablation.of(claim.than)]
    perplexity = perplexity_verdict(
        claim, *([run.perplexity for run in side] for side in sides)
    )
    bleu = bleu_verdict(claim, *([run.bleu for run in side] for side in sides))
    row, than = variation(claim.row), variation(claim.than)
    paper = "—"
    if row and than:
        ratio = row.perplexity / than.perplexity
        paper = f"{ratio:.3f}, {row.bleu - than.bleu:+.1f}"
    return Row(
        (
            claim.text,
            f"{claim.row} / {claim.than}",
            _word(perplexity),
            _interval(perplexity, ratio=True),
            _word(bleu),
            _interval(bleu, ratio=False),
            paper,
        )
    )


def _word(verdict: Verdict) -> Cell:
    return Missing() if verdict.word == UNSAID else verdict.word


def _interval(verdict: Verdict, *, ratio: bool) -> Cell:
    """Returns a difference with its interval, or a ratio where it is of logarithms."""
    found = verdict.difference
    if found is None:
        return Missing()
    values = [
        (f"{_exp(value):.3f}" if ratio else f"{value:+.2f}")
        for value in found
        if value is not None
    ]
    return values[0] if len(values) == 1 else f"{values[0]} ({values[1]} … {values[2]})"


def _exp(value: float) -> float:
    """Returns the exponential; inf where it is no float any more."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
