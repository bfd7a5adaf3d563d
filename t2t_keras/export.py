"""Exports a trained model as a SavedModel: text in, translations and scores out.

    python -m t2t_keras.export --model_dir=runs/tiny
    python -m t2t_keras.export --model_dir=runs/tiny --checkpoint=best --beam_size=8
    python -m t2t_keras.export --model_dir=runs/tiny --format=ctranslate2

Each export is a new version, a folder named by the next integer below
MODEL_DIR/export, which is what TensorFlow Serving watches. What CTranslate2 reads goes
below MODEL_DIR/export_ctranslate2.
"""

from absl import flags

from t2t_keras import program

_OWN = ("model_dir", "checkpoint", "beam_size", "alpha", "format", "quantization")
_MODEL = program.define_model_flags()
_FORMAT = flags.DEFINE_enum(
    "format",
    "saved_model",
    ["saved_model", "ctranslate2"],
    "What to write: a SavedModel for TensorFlow Serving, or a model of CTranslate2, "
    "which takes its search's settings when it translates.",
)
_QUANTIZATION = flags.DEFINE_string(
    "quantization",
    "float32",
    "How a model of CTranslate2 stores its weights: float32, float16, int16, int8 or "
    "int8_float32.",
)


def main() -> int:
    """Exports; returns the exit status."""
    from t2t_keras import experiment, finish
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(program.required("model_dir"))
    trained = experiment.load_trained(model_dir, _MODEL.checkpoint.value)
    if _FORMAT.value == "ctranslate2":
        from t2t_keras.ctranslate2_export import export_ctranslate2

        base = model_dir.path / "export_ctranslate2"
        export = export_ctranslate2(trained, base, _QUANTIZATION.value)
        print(f"exported step {trained.step:,} for CTranslate2 to {export}")
        return 0
    decoding = _MODEL.decoding(trained.config)
    export = finish.export_translator(trained, model_dir, decoding)
    print(f"exported step {trained.step:,} to {export}")
    return 0


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN)
