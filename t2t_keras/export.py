"""Exports a trained model for servers and for other people's programs.

    python -m t2t_keras.export --model_dir=runs/tiny
    python -m t2t_keras.export --model_dir=runs/tiny --checkpoint=best --beam_size=8
    python -m t2t_keras.export --model_dir=runs/tiny --format=text --xla
    python -m t2t_keras.export --model_dir=runs/tiny --format=ctranslate2

Each export is a new version, a folder named by the next integer, which is what
TensorFlow Serving watches: text in and translations out below MODEL_DIR/export, or
MODEL_DIR/export_xla for servers that are started with XLA; token ids in and out,
without TensorFlow Text, below MODEL_DIR/export_ids; what CTranslate2 reads below
MODEL_DIR/export_ctranslate2. docs/serving.md and docs/ctranslate2.md say what is in
each.
"""

from absl import flags

from t2t_keras.runs.export_settings import ExportSettings, parse_batch_sizes
from t2t_keras.settings import program

_OWN = (
    "model_dir",
    "checkpoint",
    "beam_size",
    "alpha",
    "format",
    "xla",
    "precision",
    "n_best",
    "max_source_length",
    "max_characters",
    "max_beam_size",
    "max_attention_length",
    "batch_sizes",
    "model_name",
    "quantization",
)
_MODEL = program.define_model_flags()
_FORMAT = flags.DEFINE_multi_enum(
    "format",
    ["text", "ids"],
    ["text", "ids", "ctranslate2"],
    "What to write, once for each: text, a SavedModel that takes and gives text; ids, "
    "one that takes and gives token ids; ctranslate2, a model of CTranslate2, which "
    "takes its search's settings when it translates.",
)
_XLA = flags.DEFINE_bool(
    "xla",
    False,
    "Whether XLA compiles the search of format text: for servers that are started with "
    "--xla_cpu_compilation_enabled or --xla_gpu_compilation_enabled; others refuse it.",
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    None,
    ["float32", "bfloat16"],
    "What weights are stored and computed in; as in the run if not given, but float16 "
    "becomes float32.",
)
_N_BEST = flags.DEFINE_integer(
    "n_best",
    None,
    "Translations of each text that signature nbest gives; --beam_size if not given.",
    lower_bound=1,
)
_MAX_SOURCE_LENGTH = flags.DEFINE_integer(
    "max_source_length",
    None,
    "Tokens, EOS counted, after which a source is cut; as translate has it if not "
    "given.",
    lower_bound=2,
)
_MAX_CHARACTERS = flags.DEFINE_integer(
    "max_characters",
    None,
    "Code points, after normalization, after which a source is cut; if not given, so "
    "many that no text is cut that has not too many tokens as well.",
    lower_bound=1,
)
_MAX_BEAM_SIZE = flags.DEFINE_integer(
    "max_beam_size",
    None,
    "Most hypotheses that a request to signature translate_with_options may ask for; "
    "8, or --beam_size if that is more, if not given.",
    lower_bound=1,
)
_MAX_ATTENTION_LENGTH = flags.DEFINE_integer(
    "max_attention_length",
    64,
    "Tokens of either side, EOS counted, after which signature attention cuts.",
    lower_bound=2,
)
_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes",
    None,
    "Ascending: what a server is told to fill batches up to, and warmed for. "
    "1,2,4,8,16,32 if not given; 1,8,32 with --xla, which compiles for each.",
)
_MODEL_NAME = flags.DEFINE_string(
    "model_name", "translate", "What requests to a server call the model."
)
_QUANTIZATION = flags.DEFINE_enum(
    "quantization",
    "float32",
    ["float32", "float16", "int16", "int8", "int8_float32"],
    "How a model of CTranslate2 stores its weights.",
)


def main() -> int:
    """Exports; returns the exit status."""
    from t2t_keras.runs import exporting, models
    from t2t_keras.runs.ctranslate2_export import export_ctranslate2
    from t2t_keras.runs.model_dir import ModelDir

    model_dir = ModelDir(program.required("model_dir"))
    model_dir.check_writable()
    trained = models.load_trained(model_dir, _MODEL.checkpoint.value)
    settings = ExportSettings(
        decoding=_MODEL.decoding(trained.config),
        xla=_XLA.value,
        precision=_PRECISION.value,
        n_best=_N_BEST.value,
        max_source_length=_MAX_SOURCE_LENGTH.value,
        max_characters=_MAX_CHARACTERS.value,
        max_beam_size=_MAX_BEAM_SIZE.value,
        max_attention_length=_MAX_ATTENTION_LENGTH.value,
        batch_sizes=parse_batch_sizes(_BATCH_SIZES.value or ()),
        model_name=_MODEL_NAME.value,
    )
    for export_format in dict.fromkeys(_FORMAT.value):
        if export_format == "ctranslate2":
            base = model_dir.export_ctranslate2
            version = export_ctranslate2(trained, base, _QUANTIZATION.value)
            print(f"exported step {trained.step:,} for CTranslate2 to {version}")
            continue
        version = exporting.export(trained, model_dir, export_format, settings)
        print(f"exported step {trained.step:,} to {version}")
        exporting.log_kept_files(model_dir, export_format, settings, program.log)
    return 0


def _check() -> None:
    """Raises `UserError` if flags are wrong or missing."""
    program.required("model_dir")
    parse_batch_sizes(_BATCH_SIZES.value or ())


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, check=_check)
