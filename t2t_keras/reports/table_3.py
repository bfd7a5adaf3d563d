"""Table 3: results of model variations, beside the paper's."""

import math
from typing import Any

from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.ablation.results import Ablation, RowSummary
from t2t_keras.reports.blocks import (
    Block,
    Cell,
    Command,
    Figure,
    Missing,
    Paragraph,
    Row,
    Table,
)
from t2t_keras.reports.cells import as_number, as_power, as_spread
from t2t_keras.reports.findings import findings_blocks
from t2t_keras.reports.paper_figures import TABLE_3, Variation, variation
from t2t_keras.reports.plots import plot_dots
from t2t_keras.reports.seed_statistics import spread
from t2t_keras.training.progress import as_duration

# The paper's vocabulary (section 5.1).
_SUBWORDS = 37_000
_PUBLISHED = ("paper PPL", "paper BLEU", "paper params ·10⁶")


def paper_alone() -> list[Block]:
    """Returns the table without an ablation: the paper's figures, and ours not run."""
    rows = [
        Row(
            (
                row.title,
                Missing(),
                Missing(),
                as_number(parameter_count(row.model, _SUBWORDS) / 1e6, 1),
                *_paper_cells(row),
            )
        )
        for row in TABLE_3
    ]
    header = ("row", "PPL", "BLEU", "params ·10⁶", *_PUBLISHED)
    return [
        Table("Table 3, newstest2013, English to German", header, tuple(rows)),
        Paragraph(
            f"Our parameters are counted from sizes, with {_SUBWORDS:,} subwords; "
            "docs/table3.md has the vocabulary with which they are the paper's. A "
            "dash: the paper has no such figure.",
            quiet=True,
        ),
        Command(
            "python -m t2t_keras.ablate --rows='configs/table3/*.flags' --seeds=3 "
            "\\\n    --output=runs/table3"
        ),
    ]


def ablation_blocks(ablation: Ablation, name: str) -> list[Block]:
    """Returns the table of an ablation, its plot (a file `name`), and its findings."""
    blocks: list[Block] = [
        Paragraph(_about(ablation)),
        _table(ablation),
        Paragraph(_notes(ablation), quiet=True),
    ]
    plot = _plot(ablation, name)
    if plot:
        blocks.append(plot)
    blocks += findings_blocks(ablation)
    if ablation.failures:
        rows = tuple(Row((row, str(seed), why)) for row, seed, why in ablation.failures)
        header = ("row", "seed", "last line of its log")
        blocks.append(Table("Runs that failed", header, rows, 3))
    return blocks


def _about(ablation: Ablation) -> str:
    done, planned = len(ablation.runs), ablation.seeds * len(ablation.rows)
    runs = f"all {planned} runs" if done == planned else f"{done} of {planned} runs"
    size = ablation.vocabulary_size
    text = (
        f"{ablation.corpus}, {size or 0:,} subwords, {ablation.steps:,} steps, "
        f"{_seeds(ablation.seeds)} a row: {runs} are done."
    )
    if not _is_the_papers(ablation):
        text += (
            " This is not the paper's corpus or not the paper's model: its figures "
            "are for comparing how rows differ, not how good they are."
        )
    return text


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _is_the_papers(ablation: Ablation) -> bool:
    return "wmt14" in ablation.corpus and ablation.steps >= 100_000


def _table(ablation: Ablation) -> Table:
    header = (
        "row",
        "differs in",
        "seeds",
        "PPL",
        "BLEU",
        "params ·10⁶",
        "FLOPs",
        "time",
        *_PUBLISHED,
    )
    rows = tuple(_row(ablation, row) for row in ablation.rows) + _not_run(ablation)
    caption = "Dev set: perplexity per word piece and sacreBLEU, mean ± sd over seeds"
    return Table(caption, header, rows, 2)


def _row(ablation: Ablation, row: RowSummary) -> Row:
    runs = ablation.row_runs(row.name)
    paper = variation(row.name)
    seconds = spread([run.seconds for run in runs])
    flops = spread([run.flops for run in runs])
    cells: tuple[Cell, ...] = (
        row.name if paper is None else _label(paper),
        ", ".join(f"{key} {_short(value)}" for key, value in row.changes.items()),
        str(len(runs)) if runs else Missing(),
        as_spread(spread([run.perplexity for run in runs]), 3),
        as_spread(spread([run.bleu for run in runs]), 2),
        as_number(row.parameters and row.parameters / 1e6, 3, "—"),
        as_power(flops and flops.mean),
        as_duration(seconds.mean) if seconds else Missing(),
        *_paper_cells(paper),
    )
    return Row(cells)


def _not_run(ablation: Ablation) -> tuple[Row, ...]:
    """Returns the paper's rows that an ablation lacks, unless it has none of them."""
    names = {row.name for row in ablation.rows}
    if not any(variation(name) for name in names - {ablation.base}):
        return ()
    return tuple(
        Row(
            (
                _label(row),
                row.title.partition(": ")[2],
                *[Missing()] * 6,
                *_paper_cells(row),
            )
        )
        for row in TABLE_3
        if row.name not in names
    )


def _label(row: Variation) -> str:
    """Returns a row's name as the paper has it."""
    return row.title.partition(": ")[0]


def _paper_cells(row: Variation | None) -> tuple[Cell, ...]:
    return (
        as_number(row and row.perplexity, 2, "—"),
        as_number(row and row.bleu, 1, "—"),
        as_number(row and row.millions, 0, "—"),
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _notes(ablation: Ablation) -> str:
    signatures = sorted({run.bleu_signature for run in ablation.runs})
    sentences = ablation.sentences
    others = "Rows that it lacks are named, as not run, with the paper's figures."
    notes = [
        *([f"{sentences:,} dev sentences."] if sentences else []),
        *(f"Signature: {signature}." for signature in signatures),
        "FLOPs are counted from shapes, padding included; time is that of updates, "
        "without compiling and scoring.",
        "The paper's BLEU is tokenized, on newstest2013; its perplexity is per word "
        "piece of its own vocabulary.",
        *([others] if _not_run(ablation) else []),
    ]
    return " ".join(notes)


def _plot(ablation: Ablation, name: str) -> Figure | None:
    base = _perplexities(ablation, ablation.base)
    reference = variation(ablation.base)
    if not base:
        return None
    middle = sum(map(math.log, base)) / len(base)
    labels, ours, papers = [], [], []
    for row in ablation.rows[1:]:
        perplexities = _perplexities(ablation, row.name)
        if not perplexities:
            continue
        labels.append(row.name)
        ours.append([math.log(value) - middle for value in perplexities])
        paper = variation(row.name)
        papers.append(
            math.log(paper.perplexity / reference.perplexity)
            if paper and reference
            else None
        )
    if not labels:
        return None
    svg = plot_dots(
        labels,
        ours,
        papers,
        own=[math.log(value) - middle for value in base],
        axis=f"perplexity, relative to {ablation.base}",
    )
    alt = (
        f"Perplexity of each row relative to {ablation.base}: a dot for each seed "
        "whose perplexity is finite, and the paper's"
    )
    return Figure(f"{name}-perplexity", svg, alt)


def _perplexities(ablation: Ablation, row: str) -> list[float]:
    """Returns those of a row's seeds that can be drawn."""
    values = [run.perplexity for run in ablation.row_runs(row)]
    return [value for value in values if math.isfinite(value)]
