"""Imports a model of another toolkit as a model directory.

    python -m t2t_keras.convert --from=marian --input=opus-mt --model_dir=runs/opus
    python -m t2t_keras.convert --from=marian --input=model.npz --model_dir=runs/opus

The model directory is like that of a training run: translate, evaluate, export, serve
and visualize use it, and train --init_from continues from it. docs/convert.md lists
what each format needs, and how exact the imports are.
"""

from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError, require_extra
from t2t_keras.settings import program

_FROM = flags.DEFINE_enum(
    "from",
    None,
    ["marian", "transformers", "opennmt_tf", "tensor2tensor", "ctranslate2"],
    "Format of the input: marian, of Marian and OPUS-MT; transformers, a MarianMT "
    "model of Hugging Face; opennmt_tf; tensor2tensor; ctranslate2. Required.",
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Folder of the model; of marian also the file with its weights, of opennmt_tf also "
    "the configuration .yml of the run. Required.",
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Directory to write, which must not exist. Required."
)
_SOURCE_LANGUAGE = flags.DEFINE_string(
    "source_language",
    None,
    "Language to translate from, as a code such as en. Default: as the source says, or "
    "und for undetermined.",
)
_TARGET_LANGUAGE = flags.DEFINE_string(
    "target_language",
    None,
    "Language to translate to, as a code such as de. Default: as the source says, or "
    "und for undetermined.",
)
_TARGET_SPACE = flags.DEFINE_integer(
    "target_space_id",
    None,
    "target_space_id of a problem of Tensor2Tensor. Default: 0, which the text "
    "problems of its last releases have.",
    lower_bound=0,
)


def main() -> int:
    """Imports the model; returns the exit status."""
    from t2t_keras.interop.formats import read_model
    from t2t_keras.runs.training import imported_run

    source_format = program.require_flag("from")
    path = Path(program.require_flag("model_dir"))
    imported_run.check_new(path)
    source = Path(program.require_flag("input"))
    imported = read_model(source_format, source, _TARGET_SPACE.value)
    model = imported_run.write_model_dir(
        imported,
        path,
        source_format,
        languages=(_SOURCE_LANGUAGE.value, _TARGET_LANGUAGE.value),
        log=program.log,
    )
    size = imported_run.describe(imported, model)
    print(f"imported {_INPUT.value} to {path}: {size}")
    return 0


def _check() -> None:
    """Raises `UserError` if flags, the input or packages are missing."""
    require_extra("t2t_keras.convert", "convert")
    for name in ("from", "input", "model_dir"):
        program.require_flag(name)
    if not Path(_INPUT.value or "").exists():
        raise UserError(f"There is no --input={_INPUT.value}. Give a folder or a file.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
