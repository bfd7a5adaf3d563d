"""Table 4: constituency parsing, beside the paper's parsers."""

from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.reporting.blocks import Block, Missing, Row, Table
from t2t_keras.reporting.figures_in_words import as_number
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
    parsed = [(run, parser_scores(run)) for run in runs]
    blocks += [
        scores_table(run.name, run.corpus, scores) for run, scores in parsed if scores
    ]
    return blocks


def parser_scores(run: RunFacts) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns (set and weights, scores) of a parser; of a translator none."""
    return [(name, score) for name, score in run.scores() if "f1" in score]


def scores_table(
    name: str, corpus: str, scores: Sequence[tuple[str, Mapping[str, Any]]]
) -> Table:
    """Returns EVALB's figures of a parser."""
    rows = tuple(
        Row(
            (
                of,
                as_number(score.get("sentences"), 0, "unknown"),
                *(
                    as_number(score.get(measure), 2, "unknown")
                    for measure in (
                        *("f1", "recall", "precision", "complete_match", "tagging"),
                    )
                ),
            )
        )
        for of, score in scores
    )
    header = (
        *("set and weights", "sentences", "F1", "recall", "precision", "exact match"),
        "tagging",
    )
    caption = (
        f"{name}, on {corpus}: labelled brackets as EVALB counts them, in percent; "
        "only the same sentences can be compared"
    )
    return Table(caption, header, rows)
