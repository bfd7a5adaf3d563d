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

from pathlib import Path

from absl import flags

from t2t_keras.errors import require_extra
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.settings import program
from t2t_keras.settings.flags import (
    accept_model_dir,
    define_config_flags,
    explicit_settings,
)

_ROWS = flags.DEFINE_list(
    "rows",
    None,
    "Flagfiles of the variations, or patterns such as configs/table3/*.flags, "
    "comma-separated. Required.",
)
_SEEDS = flags.DEFINE_integer(
    "seeds",
    3,
    "Number of runs of each row, with seeds from --seed upward. A single run "
    "has no standard deviation.",
    lower_bound=1,
)
_AT_ONCE = flags.DEFINE_integer(
    "at_once",
    1,
    "Number of runs at a time. They divide the cores and GPUs evenly.",
    lower_bound=1,
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder of all runs, created if missing. Required."
)
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
    check_readable_by_tensorflow(program.require_flag("output"), "--output")
    for row in read_rows(_ROWS.value or (), explicit_settings()):
        program.check_filters(row.config)


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

    output = Path(program.require_flag("output"))
    settings = explicit_settings()
    resources = divide_resources(_AT_ONCE.value)
    rows = read_rows(_ROWS.value or (), settings)
    runs = plan_runs(rows, _SEEDS.value, output)

    def write(ablation: Ablation) -> None:
        write_results(ablation, output)
        write_report(ablation_page(ablation), output, "ablation")

    log = program.log
    reserved = reserve_folder(output, ".lock", refusal=_REFUSAL, log=log)
    with reserved, Children() as children:
        study = Study(rows, runs, output, settings, log, write, resources)
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
