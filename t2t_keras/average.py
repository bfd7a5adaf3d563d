"""Averages checkpoints of a run, as the paper does before evaluation.

    python -m t2t_keras.average --model_dir=runs/base --last=5
    python -m t2t_keras.average --model_dir=runs/base --from_step=90000 --to_step=99000
    python -m t2t_keras.average --model_dir=runs/base --best=3

The averaged checkpoint is written to MODEL_DIR/averaged. From then on translate,
evaluate and export use it; an earlier one with --checkpoint=FOLDER. It lists the
checkpoints that it averages, and cannot be trained on. It replaces an average that ends
with the same step, whose scores are then removed.
"""

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.settings import program

_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Directory of a training run. Required."
)
_LAST = flags.DEFINE_integer(
    "last",
    None,
    "Number of newest checkpoints to average, in the range of steps if one is given. "
    "Without it, all checkpoints of the range. Paper: base 5, big 20.",
    lower_bound=1,
)
_FROM_STEP = flags.DEFINE_integer(
    "from_step",
    None,
    "First step of the range. Default with --last or --to_step: that of the oldest "
    "checkpoint.",
)
_TO_STEP = flags.DEFINE_integer(
    "to_step",
    None,
    "Last step of the range. Default with --last or --from_step: that of the newest "
    "checkpoint.",
)


_BEST = flags.DEFINE_integer(
    "best",
    None,
    "Number of checkpoints with the best --monitor to average, of those that training "
    "kept with --keep_best. Default: a range, or the newest.",
    lower_bound=1,
)


def main() -> int:
    """Averages checkpoints; returns the exit status."""
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.training import averaging

    model_dir = ModelDir(program.require_flag("model_dir"))
    averaging.check_selection(*_selection())
    if _BEST.value is not None:
        state = averaging.average_best(model_dir, _BEST.value, program.log)
    else:
        state = averaging.average_range(model_dir, *_selection()[:3], program.log)
    target = model_dir.averaged / f"step-{state.step}"
    print(
        f"averaged {len(state.averaged)} checkpoints, steps "
        f"{', '.join(map(str, state.averaged))}, into {target}\n"
        "From now on translate, evaluate and export use it."
    )
    return 0


def _check() -> None:
    """Raises `UserError` if flags are missing."""
    program.require_flag("model_dir")
    if _selection() == (None, None, None, None):
        raise UserError(
            "Give the checkpoints: --last, --best, or --from_step and --to_step."
        )


def _selection() -> tuple[int | None, int | None, int | None, int | None]:
    return _LAST.value, _FROM_STEP.value, _TO_STEP.value, _BEST.value


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
