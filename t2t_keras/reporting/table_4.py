"""Table 4: constituency parsing, beside the paper's parsers."""

from collections.abc import Sequence
from typing import Any

from t2t_keras.reporting.blocks import Block, Missing, Row, Table
from t2t_keras.reporting.paper_figures import TABLE_4
from t2t_keras.reporting.run_facts import RunFacts


def table_4_blocks(runs: Sequence[RunFacts]) -> list[Block]:
    """Returns the paper's table with our rows, and every parser among the runs."""
    rows = [
        Row((parser.name, parser.training, f"{parser.f1:.1f}")) for parser in TABLE_4
    ]
    # The Wall Street Journal's sections are licensed: a run on them would be scored
    # on section 23, and none is known to be.
    for training in ("WSJ only", "semi-supervised"):
        rows.append(Row(("this project", training, Missing()), ours=True))
    header = ("parser", "training", "WSJ 23 F1")
    blocks: list[Block] = [
        Table("Table 4, with this project's parsers", header, tuple(rows), 2)
    ]
    parsed = [
        (run, name, score)
        for run in runs
        for name, score in run.scores()
        if "f1" in score
    ]
    if parsed:
        blocks.append(_parsers(parsed))
    return blocks


def _parsers(parsed: Sequence[tuple[RunFacts, str, Any]]) -> Table:
    rows = tuple(
        Row((run.name, run.corpus, name, f"{score['f1']:.2f}"))
        for run, name, score in parsed
    )
    header = ("run", "corpus", "set and weights", "F1")
    caption = "Parsers of this report; only the same section can be compared"
    return Table(caption, header, rows, 3)
