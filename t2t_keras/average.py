"""Averages checkpoints of a run, as the paper does before evaluation.

    python -m t2t_keras.average --model_dir=runs/base --last=5
    python -m t2t_keras.average --model_dir=runs/base --from_step=90000 --to_step=99000
    python -m t2t_keras.average --model_dir=runs/base --best=3

The averaged checkpoint is written to MODEL_DIR/averaged. From then on translate,
evaluate and export use it; an earlier one with --checkpoint=FOLDER. It lists the
checkpoints that it averages, and cannot be trained on. It replaces an average that ends
with the same step, whose scores are then removed.
"""

import dataclasses

from t2t_keras.errors import UserError
from t2t_keras.runs.training.average_options import AverageOptions
from t2t_keras.settings import program
from t2t_keras.settings.flags import define_flags
from t2t_keras.settings.setting import setting


@dataclasses.dataclass(frozen=True)
class _ProgramOptions(AverageOptions):
    """Checkpoints to average, and those of which run."""

    model_dir: str | None = setting(
        None,
        "Directory of a training run. Required.",
        path=True,
        model_folder=True,
        required=True,
    )

    def check(self) -> None:
        super().check()
        if not _OPTIONS.given().keys() - {"model_dir"}:
            raise UserError(
                "Give the checkpoints: --last, --best, or --from_step and --to_step."
            )


_OPTIONS = define_flags(_ProgramOptions)


def main() -> int:
    """Averages checkpoints; returns the exit status."""
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.training.averaging import average_checkpoints

    options = _OPTIONS.read()
    model_dir = ModelDir(options.require("model_dir"))
    state = average_checkpoints(model_dir, options)
    target = model_dir.averaged / f"step-{state.step}"
    print(
        f"averaged {len(state.averaged)} checkpoints, steps "
        f"{', '.join(map(str, state.averaged))}, into {target}\n"
        "From now on translate, evaluate and export use it."
    )
    return 0


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_OPTIONS.read)
