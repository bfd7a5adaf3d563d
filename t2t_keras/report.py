"""Writes a report of runs: curves, scores, and the paper's tables with our results.

    python -m t2t_keras.report runs/tiny
    python -m t2t_keras.report --output=runs/all runs/tiny runs/multi30k \\
        runs/table3_small

Each argument is a model directory, or an output folder of t2t_keras.ablate or
benchmarks.layer_types. The report is report.html, which needs no other file, and
report.md with figures in the same folder. It has the tables of the paper to which the
arguments add results; with --all_tables all four, with missing results marked as not
run.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.errors import UserError, require_extra
from t2t_keras.settings import program
from t2t_keras.settings.flags import define_flags
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class ReportOptions(Settings):
    """Where the report is written, and what it has."""

    output: str | None = setting(
        None,
        "Folder for the report. Default: report/ in the first argument.",
        path=True,
    )
    all_tables: bool = setting(
        False,
        "Whether the report has Tables 1 to 4 of the paper, with missing results "
        "marked as not run. Default: only those with results of the arguments.",
    )
    texts: bool = setting(
        True,
        "Whether the report has sources and references of sample translations. Without "
        "them, a parser's trees have no words.",
    )


_OPTIONS = define_flags(ReportOptions)


def main(folders: Sequence[str]) -> int:
    """Writes the report; returns the exit status."""
    from t2t_keras.reports.rendering import write_report
    from t2t_keras.reports.report import read_sources, report_page

    options = _OPTIONS.read()
    page = report_page(
        read_sources(folders),
        _scored_texts if options.texts else _no_texts,
        all_tables=options.all_tables,
    )
    output = Path(options.output or Path(folders[0]) / "report")
    html, markdown = write_report(page, output, "report")
    print(f"{html}\n{markdown}")
    return 0


def _scored_texts(run) -> tuple[list[str], list[str]] | None:
    """Returns sources and references of the scored split; None if it is missing."""
    from t2t_keras.runs.data import from_settings
    from t2t_keras.runs.tasks import task_for
    from t2t_keras.runs.translation import scoring

    split = run.config.training.score_split
    try:
        corpus = from_settings.build_corpus(run.config.data, (split,))
        test_set = scoring.read_split(corpus, split)
    except (UserError, KeyError, OSError) as error:
        print(f"warning: {run.name}: no {split} set: {error}", file=sys.stderr)
        return None
    source = [line.decode("utf-8", errors="replace") for line in test_set.source]
    task = task_for(run.config.data.target_language)
    return source, scoring.format_references(test_set, task)


def _no_texts(_) -> None:
    return None


def _check(folders: Sequence[str]) -> None:
    """Raises `UserError` if no folder is given, or packages are missing."""
    require_extra("t2t_keras.report", "report")
    if not folders:
        raise UserError(
            "Give the model directories or ablations to report on: "
            "python -m t2t_keras.report runs/tiny"
        )


if __name__ == "__main__":
    program.run(main, __doc__ or "", takes_arguments=True, check=_check)
