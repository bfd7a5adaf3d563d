"""Trains variations of a run with several seeds, and compares them (Table 3).

    python -m t2t_keras.ablate --rows='configs/table3_small/*.flags' --seeds=3 \\
        --output=runs/table3_small
    python -m t2t_keras.ablate --rows='configs/table3/*.flags' --seeds=1 \\
        --output=runs/table3 --download

Each row is a flagfile. Each run is an ordinary training run in a folder below --output;
--at_once of them run at a time, on one corpus and vocabulary, which are prepared once.
Settings that are given as flags apply to all rows. The same command resumes a study
that was stopped or killed, and does not repeat finished runs. After each run the table
is updated: ablation.html, ablation.md, ablation.tsv and ablation.json.
"""

import dataclasses
from pathlib import Path

from t2t_keras.errors import require_extra
from t2t_keras.settings import program
from t2t_keras.settings.flags import (
    accept_model_dir,
    define_config_flags,
    define_flags,
    explicit_settings,
)
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class AblateOptions(Settings):
    """The runs of a study, and their folder."""

    rows: tuple[str, ...] = setting(
        (),
        "Flagfiles of the variations, or patterns such as configs/table3/*.flags, "
        "comma-separated. Required.",
        path=True,
    )
    seeds: int = setting(
        3,
        "Number of runs of each row, with seeds from --seed upward. A single run "
        "has no standard deviation.",
        low=1,
    )
    at_once: int = setting(
        1,
        "Number of runs at a time. They divide the cores and GPUs evenly.",
        low=1,
    )
    output: str | None = setting(
        None,
        "Folder of all runs, created if missing. Required.",
        path=True,
        model_folder=True,
        required=True,
    )


_OPTIONS = define_flags(AblateOptions)
accept_model_dir()
define_config_flags()

_REFUSAL = (
    "Another process is running an ablation in {folder}: {owner}. Wait for it, stop "
    "it, or give another --output."
)


def check() -> None:
    """Raises `UserError` if flags or flagfiles are invalid."""
    from t2t_keras.reports.ablation.plan import read_rows

    require_extra("t2t_keras.ablate", "report")
    for row in read_rows(_OPTIONS.read().rows, explicit_settings()):
        program.check_extras(row.config)


def main() -> int:
    """Trains the missing runs and writes the table; returns the exit status."""
    from t2t_keras.files.locks import reserve_folder
    from t2t_keras.reports.ablation.children import Children
    from t2t_keras.reports.ablation.plan import plan_runs, read_rows
    from t2t_keras.reports.ablation.resources import divide_resources
    from t2t_keras.reports.ablation.results import Ablation, write_results
    from t2t_keras.reports.ablation.study import Study
    from t2t_keras.reports.rendering import write_report
    from t2t_keras.reports.report import ablation_page

    options, settings = _OPTIONS.read(), explicit_settings()
    output = Path(options.require("output"))
    resources = divide_resources(options.at_once)
    rows = read_rows(options.rows, settings)
    runs = plan_runs(rows, options.seeds, output)

    def write(ablation: Ablation) -> None:
        write_results(ablation, output)
        write_report(ablation_page(ablation), output, "ablation")

    reserved = reserve_folder(output, ".lock", refusal=_REFUSAL)
    with reserved, Children() as children:
        study = Study(rows, runs, output, settings, write, resources)
        ablation = study.run(children)
    if children.signal_number is not None:
        program.log(
            "stopped; finished runs are kept. The same command resumes from there."
        )
        return 128 + children.signal_number
    print(
        f"{len(ablation.runs)} of {len(runs)} runs are done: {output / 'ablation.html'}"
    )
    return 2 if ablation.failures else 0


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        with_config=True,
        own_devices=True,
        check=check,
    )
