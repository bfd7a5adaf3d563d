"""Trains a Transformer from raw text to an exported translator.

    python -m t2t_keras.train --flagfile=configs/tiny.flags
    python -m t2t_keras.train --flagfile=configs/multi30k.flags --model_dir=runs/m30k
    python -m t2t_keras.train --flagfile=runs/m30k/train.flags --model_dir=runs/news \\
        --init_from=runs/m30k --train_source=news.en --train_target=news.de

The same command resumes a stopped run. At the end it averages the last checkpoints,
translates and scores the test set, and exports the averaged model. All results are in
the model directory.
"""

from absl import flags

from t2t_keras.settings.flags import config_from_flags, define_config_flags
from t2t_keras.settings.program import check_filters, log, require_flag, run

_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Directory of the training run, created if missing. Required."
)
_LIST_WEIGHTS = flags.DEFINE_bool(
    "list_weights",
    False,
    "Whether to print the names and shapes of the model's weights and exit. --freeze "
    "and --init_skip match these names.",
)
define_config_flags()


def main() -> int:
    """Trains, averages, scores and exports; returns the exit status."""
    from t2t_keras.runs.finish import train_and_finish
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.training.fine_tuning import list_weights
    from t2t_keras.training.loop import TrainingInterrupted

    config = config_from_flags()
    if _LIST_WEIGHTS.value:
        print("\n".join(list_weights(config, flags.FLAGS.model_dir)))
        return 0
    model_dir = ModelDir(require_flag("model_dir"))
    try:
        finished = train_and_finish(config, model_dir, log=log)
    except TrainingInterrupted as stop:
        resume_point = "there" if stop.saved else "the previous checkpoint"
        log(
            f"{stop}; step {stop.step:,} is {'' if stop.saved else 'not '}saved. "
            f"The same command resumes from {resume_point}."
        )
        return 128 + stop.signal_number
    if finished is not None:
        print(finished.describe())
    return 0


def _check() -> None:
    """Raises `UserError` if flags are invalid or incompatible."""
    if not _LIST_WEIGHTS.value:
        require_flag("model_dir")
    check_filters(config_from_flags())


if __name__ == "__main__":
    run(
        main,
        __doc__ or "",
        with_config=True,
        own_devices=True,
        check=_check,
    )
