"""Plan of an ablation: every row from every seed, on one corpus."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.bundled import matching_flagfiles
from t2t_keras.runs.record_settings import kept_settings
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.flags import config_from_arguments
from t2t_keras.settings.flat import flat

BASE = "base"


@dataclasses.dataclass(frozen=True)
class Row:
    """One variation.

    Attributes:
        name: Of its flagfile, without the ending.
        flagfile: As the user gave it.
        config: Its settings, with what was given for all rows.
    """

    name: str
    flagfile: str
    config: ExperimentConfig


@dataclasses.dataclass(frozen=True)
class Run:
    """One variation from one seed.

    Attributes:
        row: Which.
        seed: Of initial weights, data order and dropout.
        model_dir: Of the run.
        log: What the run says.
    """

    row: Row
    seed: int
    model_dir: Path
    log: Path

    @property
    def title(self) -> str:
        """Which it is, for a person."""
        return f"{self.row.name}, seed {self.seed}"

    @property
    def steps(self) -> int:
        """Updates to make."""
        return self.row.config.training.train_steps


def read_rows(patterns: Sequence[str], given: Sequence[str]) -> list[Row]:
    """Returns the rows of flagfiles, the base first.

    Args:
        patterns: Flagfiles, or patterns of them.
        given: Arguments that hold for every row, after its flagfile.

    Raises:
        UserError: If there is none, one cannot be read, two have one name or say the
            same, or they are not of one corpus and vocabulary.
    """
    paths = [path for pattern in patterns for path in matching_flagfiles(pattern)]
    rows = [
        Row(
            Path(path).stem,
            path,
            config_from_arguments([f"--flagfile={path}", *given], of=path),
        )
        for path in paths
    ]
    if not rows:
        raise UserError("--rows is required: the flagfiles of the variations.")
    for i in range(len(rows)):
        for j in range(i):
            _check_two(rows[j], rows[i])
    return sorted(rows, key=lambda row: row.name != BASE)


def plan_runs(rows: Sequence[Row], seeds: int, output: Path) -> list[Run]:
    """Returns all runs: every row from the first seed, then from the second.

    So the table has all rows early, and its spread gets better.
    """
    return [
        Run(row, seed, folder / f"seed-{seed}", folder / f"seed-{seed}.log")
        for offset in range(seeds)
        for row in rows
        for seed in [row.config.training.seed + offset]
        for folder in [output / row.name]
    ]


def changes(row: Row, base: Row) -> dict[str, Any]:
    """Returns the settings of a row that are not those of another."""
    before, after = flat(base.config), flat(row.config)
    return {name: after[name] for name in after if after[name] != before[name]}


def _check_two(one: Row, other: Row) -> None:
    if one.name == other.name:
        raise UserError(
            f"{one.flagfile} and {other.flagfile} have one name, and a row is called "
            "by it. Rename one, or give each once (--rows)."
        )
    if not changes(one, other):
        raise UserError(
            f"{one.flagfile} and {other.flagfile} say the same, with the flags that "
            "are given for all rows. Leave out the flag in which they differ."
        )
    before, after = (kept_settings(row.config.data) for row in (one, other))
    apart = [name for name in before if before[name] != after[name]]
    if apart:
        names = ", ".join(f"--{name}" for name in apart)
        raise UserError(
            f"{one.flagfile} and {other.flagfile} are not of one corpus and "
            f"vocabulary: {names} differ. Perplexities per word piece could not be "
            "compared. Make an ablation of each."
        )
