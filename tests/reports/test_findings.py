"""Findings: the rule for confirming a claim, applied to the paper's results too."""

import math

import pytest

from t2t_keras.reports.blocks import Missing, Paragraph, Table
from t2t_keras.reports.findings import (
    CLAIMS,
    Claim,
    bleu_verdict,
    findings_blocks,
    perplexity_verdict,
)
from tests import paper_table_3
from tests.reports.ablations import build_ablation

WORSE = Claim("worse", "a1", "base", perplexity=1, bleu=-1)
EQUAL = Claim("equal", "e", "base", perplexity=0, bleu=0)
PERPLEXITIES = (
    (WORSE, (6.0, 6.1, 6.2), (5.0, 5.1, 5.2), "seen"),
    (WORSE, (5.0, 5.1, 5.2), (6.0, 6.1, 6.2), "reversed"),
    (WORSE, (5.0, 6.1, 5.2), (5.0, 5.1, 5.9), "open"),
    (WORSE, (6.0,), (5.0, 5.1), "one seed"),
    (WORSE, (), (5.0, 5.1), "not run"),
    (WORSE, (6.0, math.nan), (5.0, 5.1), "not finite"),
    (WORSE, (6.0, 6.1), (math.inf,), "not finite"),
    (EQUAL, (5.0, 5.001, 5.002), (5.0, 5.001, 5.003), "seen"),
    # The difference is significant, but below 2 %: this counts as equal.
    (EQUAL, (5.050, 5.051), (5.0, 5.001), "seen"),
    (EQUAL, (5.5, 5.501), (5.0, 5.001), "reversed"),
    (EQUAL, (4.5, 4.501), (5.0, 5.001), "reversed"),
    # No significant difference is not equality: the interval is too wide.
    (EQUAL, (4.9, 5.1, 5.3), (4.9, 5.1, 5.3), "open"),
)


def test_the_rule_for_perplexity() -> None:
    for claim, row, than, word in PERPLEXITIES:
        assert perplexity_verdict(claim, row, than).word == word, (claim, row, than)


BLEUS = (
    (WORSE, (20.0, 20.2), (25.0, 25.2), "seen"),
    (WORSE, (25.0, 25.2), (20.0, 20.2), "reversed"),
    (WORSE, (24.0, 25.2), (25.0, 25.2), "open"),
    (EQUAL, (25.0, 25.05), (25.1, 25.15), "seen"),
    (EQUAL, (25.0, 25.05), (26.1, 26.15), "reversed"),
    (EQUAL, (25.0, 27.0), (25.0, 27.0), "open"),
)


def test_the_rule_for_bleu() -> None:
    for claim, row, than, word in BLEUS:
        assert bleu_verdict(claim, row, than).word == word, (claim, row, than)


def test_perplexities_are_compared_by_ratio() -> None:
    verdict = perplexity_verdict(WORSE, [8.0, 8.0], [4.0, 4.0])
    assert verdict.difference is not None
    assert verdict.difference.mean == pytest.approx(math.log(2))


def test_every_claim_is_what_the_papers_figures_show() -> None:
    rows = {row.name: row for row in paper_table_3.rows()}
    for claim in CLAIMS:
        row, than = rows[claim.row], rows[claim.than]
        # Two equal seeds represent a result without variance.
        perplexities = ([float(each.perplexity)] * 2 for each in (row, than))
        assert perplexity_verdict(claim, *perplexities).word == "seen", claim.text
        bleus = ([float(each.bleu)] * 2 for each in (row, than))
        assert bleu_verdict(claim, *bleus).word == "seen", claim.text


BASE = ((5.0, 20.0), (5.1, 21.0), (5.2, 22.0))
# Perplexity is significantly higher; BLEU is within the variation of the base's seeds.
A1 = ((6.0, 19.0), (6.1, 21.5), (6.2, 21.0))
E = ((5.01, 20.1),)


def test_findings_are_told_by_the_rule() -> None:
    ablation = build_ablation({"base": BASE, "a1": A1, "e": E, "d1": []})
    claims, rule = findings_blocks(ablation)
    assert isinstance(claims, Table) and isinstance(rule, Paragraph)
    assert "Welch's 95 % interval" in rule.text
    found = {row.cells[1]: (row.cells[2], row.cells[4]) for row in claims.rows}
    assert found == {
        "a1 / base": ("seen", "open"),
        "e / base": ("one seed", "one seed"),
        "d1 / base": (Missing(), Missing()),
    }
    heads = next(row.cells for row in claims.rows if row.cells[1] == "a1 / base")
    ratio = heads[3]
    assert isinstance(ratio, str)
    # The geometric means are 5.0993 and 6.0995; their ratio is nearly 6.1 to 5.1.
    assert ratio.startswith("1.196 (1.14")
    # The means are 20.5 and 21.
    assert isinstance(heads[5], str) and heads[5].startswith("-0.50 (")
    assert heads[6] == "1.075, -0.9"
