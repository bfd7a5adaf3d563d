"""The findings that an ablation shows, by the rule, in a table."""

from t2t_keras.reports.blocks import Missing, Paragraph, Table
from t2t_keras.reports.findings_table import findings_blocks
from tests.reports.ablations import ablation_of

BASE = ((5.0, 20.0), (5.1, 21.0), (5.2, 22.0))
# Perplexity surely above; BLEU within what the base's own seeds vary by.
A1 = ((6.0, 19.0), (6.1, 21.5), (6.2, 21.0))
E = ((5.01, 20.1),)


def test_findings_are_told_by_the_rule() -> None:
    ablation = ablation_of({"base": BASE, "a1": A1, "e": E, "d1": []})
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
    # Geometric means 5.0993 and 6.0995: the ratio of 6.1 to 5.1, nearly.
    assert ratio.startswith("1.196 (1.14")
    # Mean 20.5 against 21.
    assert isinstance(heads[5], str) and heads[5].startswith("-0.50 (")
    assert heads[6] == "1.075, -0.9"


def test_an_interval_may_be_wider_than_numbers_are() -> None:
    """Perplexities of 10 and 10^80: a sample spread of 114 in logarithms, and at one
    degree of freedom 12.7 of them."""
    wild = ((10.0, 1.0), (1e80, 1.0))
    claims, _ = findings_blocks(ablation_of({"base": BASE[:2], "a1": wild}))
    assert isinstance(claims, Table)
    (cell,) = [row.cells[3] for row in claims.rows]
    assert isinstance(cell, str) and cell.endswith(" … inf)")


def test_without_two_rows_of_a_finding_there_is_no_table() -> None:
    assert findings_blocks(ablation_of({"base": BASE, "mine": A1})) == []
    assert findings_blocks(ablation_of({"a1": A1})) == []
