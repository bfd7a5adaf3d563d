"""Makes a model directory of weights that were trained without TensorFlow.

    python -m benchmarks.gpu.training.finish --dir=DIR/NAME --weights=DIR2 \\
        --model_dir=runs/multi30k-1

DIR is what `write` wrote, DIR2 the --out of `run`. As at the end of a run of
`t2t_keras.train`, the averaged weights are in the folder averaged/, and translate,
evaluate and export use them.
"""

from pathlib import Path

from absl import flags

from t2t_keras.settings.program import log, require_flag, run

_DIR = flags.DEFINE_string("dir", None, "Folder of the training. Required.")
_WEIGHTS = flags.DEFINE_string(
    "weights", None, "Folder with the training's folder of weights. Required."
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Folder to write, which must not exist. Required."
)


def main() -> None:
    """Writes the model directory."""
    from benchmarks.gpu.training.model_directory import write_model_dir

    model_dir = Path(_MODEL_DIR.value)
    about = write_model_dir(Path(_DIR.value), Path(_WEIGHTS.value), model_dir)
    log(
        f"{model_dir}: average of updates {about['averaged']}, dev loss "
        f"{about['averaged_dev_loss']:.4f}"
    )
    if not about["finished"]:
        log("warning: the training was stopped before its last update")


def _check() -> None:
    for name in ("dir", "weights", "model_dir"):
        require_flag(name)


if __name__ == "__main__":
    run(main, __doc__ or "", check=_check)
