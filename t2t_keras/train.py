"""Trains a Transformer from raw text to an exported translator.

    python -m t2t_keras.train --flagfile=configs/tiny.flags
    python -m t2t_keras.train --flagfile=configs/multi30k.flags --model_dir=runs/m30k
    python -m t2t_keras.train --flagfile=runs/m30k/train.flags --model_dir=runs/news \\
        --init_from=runs/m30k --train_source=news.en --train_target=news.de

The same command resumes a stopped run. At the end it averages the last checkpoints,
translates and scores the test set, and exports the averaged model. All results are in
the model directory.
"""

import dataclasses

from t2t_keras.settings.flags import (
    config_from_flags,
    define_config_flags,
    define_flags,
)
from t2t_keras.settings.program import check_extras, log, run
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class TrainOptions(Settings):
    """What `train` does, beside the settings of the run."""

    model_dir: str | None = setting(
        None,
        "Directory of the training run, created if missing. Required.",
        path=True,
        model_folder=True,
    )
    list_weights: bool = setting(
        False,
        "Whether to print the names and shapes of the model's weights and exit. "
        "--freeze and --init_skip match these names.",
    )

    def check(self) -> None:
        if not self.list_weights:
            self.require("model_dir")


_OPTIONS = define_flags(TrainOptions)
define_config_flags()


def main() -> int:
    """Trains, averages, scores and exports; returns the exit status."""
    from t2t_keras.runs.finish import train_and_finish
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.training.fine_tuning import list_weights
    from t2t_keras.training.loop import TrainingInterrupted

    options, config = _OPTIONS.read(), config_from_flags()
    if options.list_weights:
        print("\n".join(list_weights(config, options.model_dir)))
        return 0
    try:
        finished = train_and_finish(config, ModelDir(options.require("model_dir")))
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
    _OPTIONS.read()
    check_extras(config_from_flags())


if __name__ == "__main__":
    run(
        main,
        __doc__ or "",
        with_config=True,
        own_devices=True,
        check=_check,
    )
