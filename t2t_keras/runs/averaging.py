"""Checkpoint averaging of a run (section 6.1): the mean that is scored and exported."""

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.training.checkpoints import CheckpointState, average, steps_in


def average_last(model_dir: ModelDir, count: int) -> CheckpointState:
    """Averages the newest `count` checkpoints into the run's averaged folder."""
    steps = steps_in(model_dir.checkpoints)[-max(count, 1) :]
    return average_steps(model_dir, steps)


def average_steps(model_dir: ModelDir, steps: list[int]) -> CheckpointState:
    """Averages the checkpoints of some steps and notes which on the run card."""
    paths = [model_dir.checkpoints / f"step-{step}" for step in steps]
    target = model_dir.averaged / f"step-{steps[-1] if steps else 0}"
    state = average(paths, target)
    model_dir.update_run_card({"averaged": {"steps": list(state.averaged)}})
    return state
