"""Exports a trained model for servers and other programs.

    python -m t2t_keras.export --model_dir=runs/tiny
    python -m t2t_keras.export --model_dir=runs/tiny --checkpoint=best --beam_size=8
    python -m t2t_keras.export --model_dir=runs/tiny --format=text --xla
    python -m t2t_keras.export --model_dir=runs/tiny --format=ctranslate2
    python -m t2t_keras.export --model_dir=runs/tiny --format=transformers
    python -m t2t_keras.export --model_dir=runs/tiny --format=keras

Each export is a new version: a folder named by the next integer, as TensorFlow Serving
expects. Versions with text in and translations out are in MODEL_DIR/export, or in
MODEL_DIR/export_xla for servers that are started with XLA; those with token ids in and
out, without TensorFlow Text, in MODEL_DIR/export_ids; other formats in
MODEL_DIR/export_ctranslate2, export_transformers and export_keras. docs/serving.md,
docs/ctranslate2.md and docs/transformers.md describe them.
"""

from types import MappingProxyType

from absl import flags

from t2t_keras.runs.export.export_settings import (
    SAVED_MODELS,
    ExportSettings,
    check_flags,
    check_one_model,
    check_packages,
    parse_batch_sizes,
)
from t2t_keras.runs.translation import ensembles
from t2t_keras.settings import program

_MODEL = program.define_model_flags()
program.define_search_model_flags()
_FORMAT = flags.DEFINE_multi_enum(
    "format",
    ["text", "ids"],
    ["text", "ids", "ctranslate2", "transformers", "keras"],
    "Format to write; repeat the flag for several: text, a SavedModel with text in "
    "and out; ids, a SavedModel with token ids in and out; ctranslate2, a CTranslate2 "
    "model, whose search settings are chosen when it translates; transformers, a "
    "MarianMT model of Hugging Face; keras, a file for keras.models.load_model",
)
flags.DEFINE_bool(
    "xla",
    False,
    "Whether XLA compiles the search of the text format, for servers "
    "started with --xla_cpu_compilation_enabled or "
    "--xla_gpu_compilation_enabled. Other servers refuse such an export.",
)
flags.DEFINE_enum(
    "precision",
    None,
    ["float32", "bfloat16"],
    "Precision of weights and computation. Default: that of the run, or float32 for "
    "a run in float16.",
)
flags.DEFINE_integer(
    "n_best",
    None,
    "Number of translations of each text in the `nbest` signature. Default: "
    "--beam_size.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_source_length",
    None,
    "Maximum length of a source in tokens, including EOS; the rest is cut. Default: "
    "that of t2t_keras.translate.",
    lower_bound=2,
)
flags.DEFINE_integer(
    "max_characters",
    None,
    "Maximum length of a source in code points after normalization; the rest is cut. "
    "Default: enough for any source of --max_source_length tokens.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_beam_size",
    None,
    "Maximum beam size of a request to the `translate_with_options` signature. "
    "Default: 8, or --beam_size if that is larger.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_attention_length",
    64,
    "Maximum length of source and target in the `attention` signature in tokens, "
    "including EOS; the rest is cut.",
    lower_bound=2,
)
_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes",
    None,
    "Batch sizes that a server pads to and that warm-up requests have, ascending, "
    "comma-separated. Default: 1,2,4,8,16,32, or 1,8,32 with --xla, which compiles a "
    "program for each.",
)
flags.DEFINE_list(
    "warm_up",
    ["serving_default"],
    "Signatures that a server calls while it loads a version, comma-separated; or all, "
    "or none. Each lengthens the load by seconds; every other one pays for it at its "
    "first call.",
)
flags.DEFINE_string(
    "model_name", "translate", "Name of the model in requests to a server."
)
_SAMPLING = program.define_sampling_flags(
    "Whether the text format has signature sample, which draws --n_best translations "
    "from the model's distribution.",
    with_seed=False,
)
flags.DEFINE_bool(
    "prefix",
    False,
    "Whether the text format has signature translate_with_prefix, which takes the "
    "beginnings of translations.",
)
flags.DEFINE_enum(
    "quantization",
    "float32",
    ["float32", "float16", "int16", "int8", "int8_float32"],
    "Storage type of the weights in CTranslate2.",
)
flags.DEFINE_bool(
    "allow_approximate",
    False,
    "Whether to write the nearest MarianMT model if transformers cannot compute this "
    "one exactly.",
)

# Flags that are fields of `ExportSettings`.
_SETTINGS = (
    *("xla", "precision", "n_best", "model_name", "prefix", "warm_up"),
    *("max_source_length", "max_characters", "max_beam_size", "max_attention_length"),
)
_FOR_ONE_FORMAT = MappingProxyType(
    {
        "text": (
            ("sample", "prefix"),
            "is for signatures that take text. Add --format=text, or leave it out.",
        ),
        "transformers": (
            ("allow_approximate",),
            "is for --format=transformers. Add it, or leave the flag out.",
        ),
    }
)
_NO_EFFECT = (
    "has no effect: settings of the search are chosen when this format is used."
)


def main() -> int:
    """Exports in each format; returns the exit status."""
    from t2t_keras.decoding.sampling import Sampling
    from t2t_keras.runs.export.formats import export_model
    from t2t_keras.runs.model_dir import ModelDir

    model_dir = ModelDir(program.require_flag("model_dir"))
    model_dir.check_writable()
    which = _MODEL.checkpoint.value
    trained = ensembles.load(checkpoint=which, **program.search_model_values())
    sampling = _SAMPLING.values()
    settings = ExportSettings(
        decoding=_MODEL.decoding(trained.config),
        batch_sizes=parse_batch_sizes(_BATCH_SIZES.value or ()),
        sample=None if sampling is None else Sampling(**sampling),
        **program.flag_values(_SETTINGS),
    )
    is_alone = not {*SAVED_MODELS, "transformers"} & {*_FORMAT.value}
    for name in _MODEL.given_search() if is_alone else ():
        program.log(f"warning: --{name} {_NO_EFFECT}")
    options = program.flag_values(("quantization", "allow_approximate"))
    for export_format in dict.fromkeys(_FORMAT.value):
        version = export_model(
            trained, model_dir, export_format, settings, log=program.log, **options
        )
        print(f"exported step {trained.step:,} to {version}")
    return 0


def _check() -> None:
    """Raises `UserError` if flags are invalid or missing."""
    for export_format in _FORMAT.value:
        check_packages(export_format)
        one_model = program.flag_values(("ensemble_with", "shortlist"))
        check_one_model(export_format, **one_model)
    for name, (names, reason) in _FOR_ONE_FORMAT.items():
        if name not in _FORMAT.value:
            program.refuse_flags(names, reason)
    ensembles.check(**program.search_model_values())
    _SAMPLING.check()
    flags_of_settings = ("batch_sizes", "warm_up", "sample", "prefix")
    check_flags(_FORMAT.value, **program.flag_values(flags_of_settings))


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
