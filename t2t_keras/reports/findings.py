"""The paper's findings from Table 3, and whether runs of this project show them.

Rule: a difference is that of two rows' means over seeds, with Welch's 95 %
interval; perplexities are compared by their logarithms. Where the paper says that a
row is worse or better, its finding is *seen* if the whole interval lies on that side of
zero, *reversed* if it lies on the other, and *open* if zero is in it. Where the paper
says that two rows are equal, it is seen if the whole interval lies within the margin
of `EQUAL_PERPLEXITY` or `EQUAL_BLEU`, reversed if it lies outside, and open
otherwise. With a single seed there is no spread, and no verdict; nor is there one where
a figure is not finite.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from t2t_keras.reports.ablation.results import Ablation
from t2t_keras.reports.blocks import Block, Cell, Missing, Paragraph, Row, Table
from t2t_keras.reports.paper_figures import variation
from t2t_keras.reports.seed_statistics import Difference, difference

# Margins of equality: 2 % of perplexity and half a point of BLEU, a few times the
# difference of the paper's own row E.
EQUAL_PERPLEXITY = math.log(1.02)
EQUAL_BLEU = 0.5

_RULE = (
    "Each difference is that of two means over seeds, with Welch's 95 % interval; "
    "perplexities are compared by their logarithms and shown as a ratio. A finding is "
    "seen if the whole interval lies on the paper's side of zero, reversed if it lies "
    "on the other, open if zero is in it. Two rows are equal if the whole interval "
    "lies within 2 % of perplexity, or half a point of BLEU. With one seed there is no "
    "spread, and nothing is concluded."
)

SEEN, REVERSED, OPEN, NOT_RUN = "seen", "reversed", "open", "not run"
ONE_SEED, NOT_FINITE = "one seed", "not finite"


class Claim(NamedTuple):
    """A claim of the paper about two rows.

    Attributes:
        text: The claim in words.
        row: Name of the row.
        than: Name of the row to compare with.
        perplexity: 1 if `row` has the higher one, -1 the lower, 0 the same.
        bleu: 1, -1 or 0 likewise.
    """

    text: str
    row: str
    than: str
    perplexity: int
    bleu: int


# Section 6.2, each with the signs of the paper's own differences.
CLAIMS = (
    Claim("One head is worse than eight", "a1", "base", 1, -1),
    Claim("Too many heads are worse", "a4", "base", 1, -1),
    Claim("A quarter of d_k is worse", "b1", "base", 1, -1),
    Claim("Half of d_k is worse", "b2", "base", 1, -1),
    Claim("A third of the layers is worse", "c1", "base", 1, -1),
    Claim("Two thirds of the layers are worse", "c2", "base", 1, -1),
    Claim("Half the width is worse", "c4", "base", 1, -1),
    Claim("Twice the width is better", "c5", "base", -1, 1),
    Claim("Half the feed-forward width is worse", "c6", "base", 1, -1),
    Claim("Twice the feed-forward width is better", "c7", "base", -1, 1),
    Claim("Without dropout it is worse", "d1", "base", 1, -1),
    Claim(
        "Without label smoothing perplexity is better, and BLEU worse",
        "d3",
        "base",
        -1,
        -1,
    ),
    Claim("Learned positions are as good as sinusoids", "e", "base", 0, 0),
)


class Verdict(NamedTuple):
    """Verdict of runs on a claim, by one measure.

    Attributes:
        word: seen, reversed, open, one seed, not finite, or not run.
        difference: Row less row compared with: of BLEU, or of the logarithm of
            perplexity; None if not run.
    """

    word: str
    difference: Difference | None


def findings_blocks(ablation: Ablation) -> list[Block]:
    """Returns a table of the findings whose rows an ablation has, and the rule.

    The list is empty if the ablation has no two such rows.
    """
    names = {row.name for row in ablation.rows}
    rows = [
        _claim(ablation, claim) for claim in CLAIMS if {claim.row, claim.than} <= names
    ]
    if not rows:
        return []
    header = (
        "finding of section 6.2",
        "rows",
        "PPL",
        "PPL ratio",
        "BLEU",
        "difference",
        "paper",
    )
    caption = "Which of the paper's findings can be seen here"
    return [Table(caption, header, tuple(rows), 3), Paragraph(_RULE, quiet=True)]


def perplexity_verdict(
    claim: Claim, row: Sequence[float], than: Sequence[float]
) -> Verdict:
    """Returns the verdict of perplexities per word piece, one per seed, on a claim."""
    logs = [[math.log(value) for value in side] for side in (row, than)]
    return _verdict(difference(*logs), claim.perplexity, EQUAL_PERPLEXITY)


def bleu_verdict(claim: Claim, row: Sequence[float], than: Sequence[float]) -> Verdict:
    """Returns the verdict of BLEU scores, one per seed, on a claim."""
    return _verdict(difference(row, than), claim.bleu, EQUAL_BLEU)


def _verdict(gap: Difference | None, side: int, margin: float) -> Verdict:
    if gap is None:
        return Verdict(NOT_RUN, None)
    if not math.isfinite(gap.mean):
        return Verdict(NOT_FINITE, gap)
    if gap.low is None or gap.high is None:
        return Verdict(ONE_SEED, gap)
    if side == 0:
        within = -margin < gap.low and gap.high < margin
        beyond = gap.low > margin or gap.high < -margin
        word = SEEN if within else REVERSED if beyond else OPEN
    elif gap.low > 0 or gap.high < 0:
        word = SEEN if side * gap.mean > 0 else REVERSED
    else:
        word = OPEN
    return Verdict(word, gap)


def _claim(ablation: Ablation, claim: Claim) -> Row:
    sides = [ablation.row_runs(claim.row), ablation.row_runs(claim.than)]
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
    return Missing() if verdict.word == NOT_RUN else verdict.word


def _interval(verdict: Verdict, *, ratio: bool) -> Cell:
    """Returns a difference with its interval, or as a ratio for logarithms."""
    gap = verdict.difference
    if gap is None:
        return Missing()
    values = [
        (f"{_exp(value):.3f}" if ratio else f"{value:+.2f}")
        for value in gap
        if value is not None
    ]
    return values[0] if len(values) == 1 else f"{values[0]} ({values[1]} … {values[2]})"


def _exp(value: float) -> float:
    """Returns the exponential; inf where it overflows."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
