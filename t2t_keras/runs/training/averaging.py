"""Checkpoint averaging of a run (section 6.1): the mean that is scored and exported."""

import logging
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.average_options import AverageOptions
from t2t_keras.training.checkpoint_averaging import average
from t2t_keras.training.checkpoints import CheckpointState, read_state, steps_in

logger = logging.getLogger(__name__)


def average_last(model_dir: ModelDir, count: int) -> CheckpointState:
    """Averages the newest `count` checkpoints into the run's averaged folder."""
    steps = steps_in(model_dir.checkpoints)[-max(count, 1) :]
    return average_steps(model_dir, steps)


def average_checkpoints(
    model_dir: ModelDir,
    options: AverageOptions,
) -> CheckpointState:
    """Averages the checkpoints that the options choose.

    Raises:
        UserError: If this is no model directory, or there are too few checkpoints.
    """
    if options.best is not None:
        return average_best(model_dir, options.best)
    model_dir.config()  # raises if this is not a model directory
    model_dir.check_writable()
    steps = steps_in(model_dir.checkpoints)
    selected = select_steps(steps, options.last, options.from_step, options.to_step)
    return average_steps(model_dir, selected)


def average_best(
    model_dir: ModelDir,
    count: int,
) -> CheckpointState:
    """Averages the `count` checkpoints with the best monitored score, from best/.

    Raises:
        UserError: If this is no model directory, or best/ has too few checkpoints.
    """
    monitor = model_dir.config().training.monitor
    model_dir.check_writable()
    ranked = model_dir.rank_best(monitor)
    if len(ranked) < count:
        raise UserError(
            f"{model_dir.best} has {len(ranked)} checkpoints, expected {count}. Train "
            f"with --keep_best={count} or more to keep them."
        )
    steps = sorted(best.step for best in ranked[:count])
    logger.info(f"the best {count} by {monitor}: steps {', '.join(map(str, steps))}")
    return average_steps(model_dir, steps, folder=model_dir.best)


def average_steps(
    model_dir: ModelDir,
    steps: list[int],
    *,
    folder: Path | None = None,
) -> CheckpointState:
    """Averages the checkpoints of some steps and writes their list to the run card.

    The result has the name of the last step. An average of other checkpoints of that
    name is replaced, and its scores leave the run card: they are not those of the new
    weights.

    Args:
        model_dir: Directory of the run.
        steps: Steps of the checkpoints, ascending.
        folder: Folder of the checkpoints. Default: the run's checkpoints/.
    """
    paths = [(folder or model_dir.checkpoints) / f"step-{step}" for step in steps]
    target = model_dir.averaged / f"step-{steps[-1] if steps else 0}"
    replaced = _averaged_steps(target)
    state = average(paths, target)
    entries = {"averaged": {"steps": list(state.averaged)}}
    if replaced and replaced != steps:
        logger.info(f"replaced the average of steps {', '.join(map(str, replaced))}")
        name = f"{target.parent.name}/{target.name}"
        scores = model_dir.run_card().get("scores", {})
        entries["scores"] = {
            title: score for title, score in scores.items() if name not in title.split()
        }
        for title in scores.keys() - entries["scores"].keys():
            logger.info(f"removed the scores of {title!r} from the run card")
    model_dir.update_run_card(entries)
    return state


def _averaged_steps(path: Path) -> list[int]:
    """Returns the steps of an averaged checkpoint; none without one, or if damaged."""
    try:
        return list(read_state(path).averaged)
    except UserError:
        return []


def select_steps(
    steps: list[int], last: int | None, from_step: int | None, to_step: int | None
) -> list[int]:
    """Returns the steps in a range, or the newest `last` of them, ascending.

    Raises:
        UserError: If the range has no step, or fewer than `last`.
    """
    low = 0 if from_step is None else from_step
    high = max(steps, default=0) if to_step is None else to_step
    in_range = [step for step in steps if low <= step <= high]
    if last is not None and len(in_range) >= last:
        return in_range[-last:]
    if not in_range or last is not None:
        raise UserError(
            f"There are {len(in_range)} checkpoints from step {low} to {high}, "
            f"expected {last or 1}. The run has these: {steps or 'none'}. Keep more of "
            "them with --keep_checkpoints."
        )
    return in_range
