"""Table 4: constituency parsing, beside the paper's parsers."""

from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.reports.blocks import Block, Paragraph, Row, Table
from t2t_keras.reports.cells import as_number
from t2t_keras.reports.paper_figures import TABLE_4
from t2t_keras.reports.papers_experiments import is_papers_parser
from t2t_keras.reports.run_summary import RunSummary

_WSJ = "WSJ section 23"


def table_4_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """Returns the paper's table with our rows, and every parser among the runs."""
    rows = [
        Row((parser.name, parser.training, _WSJ, f"{parser.f1:.1f}"))
        for parser in TABLE_4
    ]
    papers = {
        "WSJ only": [r for r in runs if is_papers_parser(r, semi_supervised=False)],
        "semi-supervised": [
            r for r in runs if is_papers_parser(r, semi_supervised=True)
        ],
    }
    for training, parsers in papers.items():
        rows.append(_ours(training, parsers[0] if parsers else None))
    shown = [run for parsers in papers.values() for run in parsers[:1]]
    rows += [_other(run) for run in runs if run not in shown and _f1(run)]
    header = ("parser", "training", "tested on", "F1")
    blocks: list[Block] = [
        Table("Table 4, with this project's parsers", header, tuple(rows), 3),
        Paragraph(
            "Only what is tested on the same sentences can be compared. Our rows of "
            "WSJ section 23 are finished runs with the paper's settings, the first of "
            "several; those below have other trees or other settings.",
            quiet=True,
        ),
    ]
    parsed = [(run, parser_scores(run)) for run in runs]
    blocks += [
        scores_table(run.name, run.corpus, scores) for run, scores in parsed if scores
    ]
    return blocks


def _ours(training: str, run: RunSummary | None) -> Row:
    f1 = as_number(_f1(run) if run else None, 1)
    return Row(("this project", training, _WSJ, f1), ours=True)


def _other(run: RunSummary) -> Row:
    """Returns the row of a parser with other settings than the paper's."""
    scores = run.test_scores("f1") or {}
    sentences, errors = scores.get("sentences"), scores.get("errors")
    count = f"{sentences:,} sentences" if sentences else "sentences"
    left_out = f", of which {errors:,} are left out as errors" if errors else ""
    return Row(
        (
            f"this project, {run.name}",
            run.corpus,
            f"{count} of {run.test_set}{left_out}",
            as_number(_f1(run), 1),
        ),
        ours=True,
    )


def _f1(run: RunSummary) -> float | None:
    return (run.test_scores("f1") or {}).get("f1")


def parser_scores(run: RunSummary) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns (set and weights, scores) of a parser; none for a translator."""
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
                        "f1",
                        "recall",
                        "precision",
                        "complete_match",
                        "tagging",
                    )
                ),
            )
        )
        for of, score in scores
    )
    header = (
        "set and weights",
        "sentences",
        "F1",
        "recall",
        "precision",
        "exact match",
        "tagging",
    )
    caption = (
        f"{name}, on {corpus}: labeled brackets as EVALB counts them, in percent; "
        "only the same sentences can be compared"
    )
    return Table(caption, header, rows)
