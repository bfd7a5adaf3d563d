"""Exports a trained model as a SavedModel: text in, translations and scores out.

    python -m t2t_keras.export --model_dir=runs/tiny
    python -m t2t_keras.export --model_dir=runs/tiny --checkpoint=best --beam_size=8

Each export is a new version, a folder named by the next integer below
MODEL_DIR/export, which is what TensorFlow Serving watches.
"""

from t2t_keras import program

_OWN = ("model_dir", "checkpoint", "beam_size", "alpha")
_MODEL = program.define_model_flags()


def main() -> int:
    """Exports; returns the exit status."""
    from t2t_keras import experiment, finish
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(program.required("model_dir"))
    trained = experiment.load_trained(model_dir, _MODEL.checkpoint.value)
    decoding = _MODEL.decoding(trained.config)
    export = finish.export_translator(trained, model_dir, decoding)
    print(f"exported step {trained.step:,} to {export}")
    return 0


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN)
