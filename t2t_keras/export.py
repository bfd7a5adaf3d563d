"""Exports a trained model as a SavedModel: text in, translations and scores out.

    python -m t2t_keras.export --model_dir=runs/tiny
    python -m t2t_keras.export --model_dir=runs/tiny --checkpoint=best --beam_size=8

Each export is a new version, a folder named by the next integer below
MODEL_DIR/export, which is what TensorFlow Serving watches.
"""

from absl import flags

from t2t_keras import program

_OWN = ("model_dir", "checkpoint", "beam_size", "alpha")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Directory of a run. Required.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "averaged",
    "Which weights: averaged (the mean made at the end of training, or else the "
    "latest), latest, best, a step number, or a checkpoint's folder.",
)
_BEAM_SIZE = flags.DEFINE_integer(
    "beam_size", None, "Hypotheses that live at a time; as in the run if not given."
)
_ALPHA = flags.DEFINE_float(
    "alpha", None, "Strength of the length penalty; as in the run if not given."
)


def main() -> int:
    """Exports; returns the exit status."""
    from t2t_keras import experiment, finish
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(program.required("model_dir"))
    trained = experiment.load_trained(model_dir, _CHECKPOINT.value)
    decoding = program.decoding_of(trained.config, _BEAM_SIZE, _ALPHA)
    export = finish.export_translator(trained, model_dir, decoding)
    print(f"exported step {trained.step:,} to {export}")
    return 0


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN)
