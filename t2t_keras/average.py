"""Averages checkpoints of a run, as the paper does before it evaluates.

    python -m t2t_keras.average --model_dir=runs/base --last=5
    python -m t2t_keras.average --model_dir=runs/base --from_step=90000 --to_step=99000

The mean goes to MODEL_DIR/averaged, where translate, evaluate and export look first.
It notes which checkpoints are in it, and cannot be trained on.
"""

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.settings import program

_OWN = ("model_dir", "last", "from_step", "to_step")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Directory of a run. Required.")
_LAST = flags.DEFINE_integer(
    "last",
    None,
    "How many of the newest checkpoints (in the range, if one is given). Paper: "
    "base 5, big 20. All of the range if not given.",
    lower_bound=1,
)
_FROM_STEP = flags.DEFINE_integer("from_step", None, "First step to average.")
_TO_STEP = flags.DEFINE_integer("to_step", None, "Last step to average.")


def main() -> int:
    """Averages; returns the exit status."""
    from t2t_keras.runs import averaging
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.training.checkpoints import steps_in

    model_dir = ModelDir(program.required("model_dir"))
    model_dir.config()  # raises if this is no model directory
    model_dir.check_writable()
    there = steps_in(model_dir.checkpoints)
    steps = chosen(there, _LAST.value, _FROM_STEP.value, _TO_STEP.value)
    state = averaging.average_steps(model_dir, steps)
    target = model_dir.averaged / f"step-{state.step}"
    print(
        f"averaged {len(steps)} checkpoints, steps {', '.join(map(str, steps))}, into "
        f"{target}\n"
        f"Use it with --checkpoint={target}"
    )
    return 0


def chosen(
    steps: list[int], last: int | None, from_step: int | None, to_step: int | None
) -> list[int]:
    """Returns the steps that the flags mean, ascending.

    Raises:
        UserError: If they ask for more than there is.
    """
    low = 0 if from_step is None else from_step
    high = max(steps, default=0) if to_step is None else to_step
    found = [step for step in steps if low <= step <= high]
    if last is not None and len(found) >= last:
        return found[-last:]
    if not found or last is not None:
        raise UserError(
            f"There are {len(found)} checkpoints from step {low} to {high}, "
            f"{last or 1} wanted. The run has these: {steps or 'none'}. Keep more of "
            "them with --keep_checkpoints."
        )
    return found


def _check() -> None:
    """Raises `UserError` if flags are missing."""
    program.required("model_dir")
    if (_LAST.value, _FROM_STEP.value, _TO_STEP.value) == (None, None, None):
        raise UserError("Give --last, or --from_step and --to_step, to average.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, check=_check)
