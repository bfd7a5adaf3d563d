"""Rows of a small ablation, and runs that look as if they had been made."""

import dataclasses
from pathlib import Path
from typing import Any

from t2t_keras.reports.ablation.plan import RowPlan, RunPlan, plan_runs, read_rows
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.flags import make_paths_absolute

SHARED = "--dataset=grammar_ende\n--vocabulary_size=300\n--d_model=16\n--num_heads=2\n"


def written_rows(folder: Path, **rows: str) -> list[str]:
    """Writes flagfiles that say what all say, and what each says; returns paths."""
    paths = []
    for name, text in rows.items():
        path = folder / f"{name}.flags"
        path.write_text(f"{SHARED}{text}\n")
        paths.append(str(path))
    return paths


def small_plan(folder: Path, seeds: int = 2) -> tuple[list[RowPlan], list[RunPlan]]:
    """Two rows, the base and one with a single head, of forty steps."""
    paths = written_rows(folder, a1="--num_heads=1", base="")
    rows = read_rows(paths, ["--train_steps=40"])
    return rows, plan_runs(rows, seeds, folder / "out")


def finished(
    run: RunPlan, perplexity: float, bleu: float = 20.0, steps: int = 40, **facts: Any
) -> None:
    """Leaves what a finished run of the train program leaves, as far as it is read."""
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
        **facts,
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
