"""Table 2: translation quality and training cost, and a comparison of runs."""

from collections.abc import Sequence

from t2t_keras.reports.blocks import (
    Block,
    Cell,
    Heading,
    Missing,
    Paragraph,
    Row,
    Table,
)
from t2t_keras.reports.cells import as_number, as_power, as_search
from t2t_keras.reports.paper_figures import DEVICES, TABLE_2, estimated_flops
from t2t_keras.reports.papers_experiments import is_papers_translator
from t2t_keras.reports.run_summary import RunSummary
from t2t_keras.settings.model_config import BASE, BIG, ModelConfig


def table_2_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """Returns the paper's table with our rows."""
    return [
        _papers(runs),
        Paragraph(
            "BLEU is the paper's: tokenized, and for German compounds split at "
            "hyphens. The paper's costs are time x devices x sustained FLOP/s; ours "
            "are counted from shapes, padding included. For the Transformers the paper "
            "gives one cost for both columns, shown in the first. A dash: the "
            "paper has no such figure. In our rows are finished runs with the paper's "
            "settings, corpus and search alone, the first of several.",
            quiet=True,
        ),
    ]


def comparison_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """Returns the scores of several translators, and the cost of all runs."""
    if not runs:
        return []
    translators = [run for run in runs if not run.is_parser]
    several = len(translators) > 1
    return [
        Heading("Comparison of the runs" if len(runs) > 1 else "Training cost"),
        *([_scores(translators)] if several else []),
        _costs(runs),
        Paragraph(_COST_NOTE, quiet=True),
    ]


_COST_NOTE = (
    "Counted: 2 FLOPs for each multiplication and addition in a matrix product, three "
    "times forward. The paper's estimate multiplies the time by the FLOP/s that a "
    "device sustains: those measured here in matrix products (--measure_ceiling), and "
    "those of each of the paper's four devices. Time is that of updates; compiling, "
    "evaluating and saving are left out."
)


def _papers(runs: Sequence[RunSummary]) -> Table:
    rows = [
        Row(
            (
                system.name,
                _paper_bleu(system.en_de_bleu),
                _paper_bleu(system.en_fr_bleu),
                as_power(system.en_de_flops, "—"),
                as_power(system.en_fr_flops, "—"),
            )
        )
        for system in TABLE_2
    ]
    rows += [
        _ours("base", BASE, runs),
        _ours("big", BIG, runs),
    ]
    header = ("newstest2014", "EN-DE BLEU", "EN-FR BLEU", "EN-DE FLOPs", "EN-FR FLOPs")
    return Table("Table 2, with this project's models", header, tuple(rows))


def _paper_bleu(bleu: float | None) -> Cell:
    return Missing("—") if bleu is None else f"{bleu:g}"


def _ours(name: str, model: ModelConfig, runs: Sequence[RunSummary]) -> Row:
    bleus: list[Cell] = []
    costs: list[Cell] = []
    for language in ("de", "fr"):
        run = next(
            (run for run in runs if is_papers_translator(run, model, language)), None
        )
        scores = (run.test_scores() if run else None) or {}
        bleus.append(as_number(scores.get("tokenized_bleu"), 2))
        costs.append(as_power(run.cost.get("flops")) if run else Missing())
    return Row((f"this project, {name}", *bleus, *costs), ours=True)


def _scores(runs: Sequence[RunSummary]) -> Table:
    rows = []
    for run in runs:
        scores = run.test_scores() or {}
        language = (
            f"{run.config.data.source_language}-{run.config.data.target_language}"
        )
        averaged = run.card.get("averaged", {}).get("steps", [])
        rows.append(
            Row(
                (
                    run.name,
                    f"{run.test_set} ({language})",
                    as_number(scores.get("step"), 0),
                    str(len(averaged)) if averaged else Missing(),
                    as_search(scores.get("decoding")),
                    as_number(scores.get("tokenized_bleu"), 2),
                    as_number(scores.get("bleu"), 2),
                    as_number(scores.get("chrf"), 2),
                )
            )
        )
    header = (
        "run",
        "test set",
        "step",
        "averaged",
        "search",
        "paper's BLEU",
        "sacreBLEU",
        "chrF",
    )
    caption = "Scores of the runs; only those of the same test set can be compared"
    return Table(caption, header, tuple(rows), 2)


def _costs(runs: Sequence[RunSummary]) -> Table:
    header = (
        "run",
        "hours",
        "devices",
        "counted",
        "FLOP/s",
        "estimate, measured here",
        *(f"on {device.name}" for device in DEVICES),
    )
    return Table("Training cost in FLOPs", header, tuple(map(_cost, runs)))


def _cost(run: RunSummary) -> Row:
    cost = run.cost
    if not cost:
        return Row((run.name, *[Missing()] * (5 + len(DEVICES))))
    hours, devices = cost["hours"], cost["devices"]
    return Row(
        (
            run.name,
            as_number(hours, 2),
            str(devices),
            as_power(cost["flops"]),
            as_power(cost["flops_per_second"]),
            as_power(cost.get("paper_estimate_flops"), "not measured"),
            *(
                as_power(estimated_flops(hours, devices, device.flops_per_second))
                for device in DEVICES
            ),
        )
    )
