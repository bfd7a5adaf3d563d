"""Plan of an ablation: every row from every seed, on one corpus."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.bundled import matching_flagfiles
from t2t_keras.settings.config import ExperimentConfig, flatten, record_settings
from t2t_keras.settings.flags import config_from_arguments

BASE = "base"


@dataclasses.dataclass(frozen=True)
class RowPlan:
    """One variation.

    Attributes:
        name: Name of its flagfile, without the ending.
        flagfile: Path of its flagfile, as on the command line.
        config: Its settings, with the flags for all rows.
    """

    name: str
    flagfile: str
    config: ExperimentConfig


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """One variation from one seed.

    Attributes:
        row: Its variation.
        seed: Seed of initial weights, data order and dropout.
        model_dir: Its model directory.
        log: File for its output.
    """

    row: RowPlan
    seed: int
    model_dir: Path
    log: Path

    @property
    def title(self) -> str:
        """Row and seed in words."""
        return f"{self.row.name}, seed {self.seed}"

    @property
    def steps(self) -> int:
        """Number of updates to make."""
        return self.row.config.training.train_steps


def read_rows(patterns: Sequence[str], given: Sequence[str]) -> list[RowPlan]:
    """Returns the rows of flagfiles, the base first.

    Args:
        patterns: Flagfiles, or patterns of them.
        given: Arguments that hold for every row, after its flagfile.

    Raises:
        UserError: If there is none, one cannot be read, two have the same name or
            settings, or they are not of one corpus and vocabulary.
    """
    paths = [path for pattern in patterns for path in matching_flagfiles(pattern)]
    rows = [
        RowPlan(
            Path(path).stem,
            path,
            config_from_arguments([f"--flagfile={path}", *given], source=path),
        )
        for path in paths
    ]
    if not rows:
        raise UserError("--rows is required: the flagfiles of the variations.")
    for i in range(len(rows)):
        for j in range(i):
            _check_two(rows[j], rows[i])
    return sorted(rows, key=lambda row: row.name != BASE)


def plan_runs(rows: Sequence[RowPlan], seeds: int, output: Path) -> list[RunPlan]:
    """Returns all runs: every row from the first seed, then from the second.

    So the table has all rows early, and its spread improves with each seed.
    """
    return [
        RunPlan(row, seed, folder / f"seed-{seed}", folder / f"seed-{seed}.log")
        for offset in range(seeds)
        for row in rows
        for seed in [row.config.training.seed + offset]
        for folder in [output / row.name]
    ]


def changes(row: RowPlan, base: RowPlan) -> dict[str, Any]:
    """Returns the settings of a row that are not those of another."""
    before, after = flatten(base.config), flatten(row.config)
    return {name: after[name] for name in after if after[name] != before[name]}


def _check_two(one: RowPlan, other: RowPlan) -> None:
    if one.name == other.name:
        raise UserError(
            f"{one.flagfile} and {other.flagfile} have one name, and a row is called "
            "by it. Rename one, or give each once (--rows)."
        )
    if not changes(one, other):
        raise UserError(
            f"{one.flagfile} and {other.flagfile} have the same settings, with the "
            "flags for all rows. Leave out the flag in which they differ."
        )
    before, after = (record_settings(row.config.data) for row in (one, other))
    apart = [name for name in before if before[name] != after[name]]
    if apart:
        names = ", ".join(f"--{name}" for name in apart)
        raise UserError(
            f"{one.flagfile} and {other.flagfile} are not of one corpus and "
            f"vocabulary: {names} differ. Perplexities per word piece could not be "
            "compared. Make an ablation of each."
        )
