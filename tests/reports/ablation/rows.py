"""Rows of a small ablation, and fake finished runs."""

import dataclasses
from pathlib import Path
from typing import Any

from t2t_keras.reports.ablation.plan import RowPlan, RunPlan, plan_runs, read_rows
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.config import make_paths_absolute

SHARED = "--dataset=grammar_ende\n--vocabulary_size=300\n--d_model=16\n--num_heads=2\n"


def write_rows(folder: Path, **rows: str) -> list[str]:
    """Writes a flagfile per row, with shared settings and its own; returns paths."""
    paths = []
    for name, text in rows.items():
        path = folder / f"{name}.flags"
        path.write_text(f"{SHARED}{text}\n")
        paths.append(str(path))
    return paths


def small_plan(folder: Path, seeds: int = 2) -> tuple[list[RowPlan], list[RunPlan]]:
    """Plan of two rows of 40 steps: the base, and a model with a single head."""
    paths = write_rows(folder, a1="--num_heads=1", base="")
    rows = read_rows(paths, ["--train_steps=40"])
    return rows, plan_runs(rows, seeds, folder / "out")


def write_finished_run(
    run: RunPlan, perplexity: float, bleu: float = 20.0, steps: int = 40, **fields: Any
) -> None:
    """Writes the files of a finished run of the train program that are read later."""
    place = ModelDir(run.model_dir)
    place.path.mkdir(parents=True, exist_ok=True)
    training = dataclasses.replace(run.row.config.training, seed=run.seed)
    config = dataclasses.replace(run.row.config, training=training)
    place.write_config(make_paths_absolute(config), "A run.")
    score = {
        "step": steps,
        "sentences": 50,
        "bleu": bleu,
        "bleu_signature": "BLEU|tok:13a",
        "chrf": 30.0,
        "chrf_signature": "chrF2",
        "perplexity": perplexity,
        "tokenized_bleu": bleu + 1,
        "tokenized_bleu_signature": "multi-bleu",
        **fields,
    }
    cost = {"step": steps, "hours": 0.5, "devices": 2, "flops": 3e12}
    place.update_run_card(
        {
            "scores": {f"dev averaged/step-{steps}": score},
            "training_cost": {**cost, "flops_per_second": 1.7e9},
            "corpus": {"name": "grammar_ende/1.0.0 en-de"},
            "vocabulary": {"size": 300},
        }
    )
