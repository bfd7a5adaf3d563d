"""Imports a model of another toolkit as a model directory.

    python -m t2t_keras.convert --from=marian --input=opus-mt --model_dir=runs/opus
    python -m t2t_keras.convert --from=marian --input=model.npz --model_dir=runs/opus

The model directory is like that of a training run: translate, evaluate, export, serve
and visualize use it, and train --init_from continues from it. docs/convert.md lists
what each format needs, and how exact the imports are.
"""

import dataclasses
from pathlib import Path

from t2t_keras.errors import UserError, require_extra
from t2t_keras.files.lines import check_input
from t2t_keras.settings import program
from t2t_keras.settings.flags import define_flags
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class ConvertOptions(Settings):
    """The model of another toolkit, and the directory to write."""

    from_: str | None = setting(
        None,
        "Format of the input: marian, of Marian and OPUS-MT; transformers, a model "
        "of Hugging Face: MarianMT, M2M100 or NLLB; opennmt_tf; tensor2tensor; "
        "ctranslate2. Required.",
        choices=(
            "marian",
            "transformers",
            "opennmt_tf",
            "tensor2tensor",
            "ctranslate2",
        ),
        required=True,
    )
    input: str | None = setting(
        None,
        "Folder of the model; of marian also the file with its weights, of opennmt_tf "
        "also the configuration .yml of the run. Required.",
        path=True,
        required=True,
    )
    model_dir: str | None = setting(
        None,
        "Directory to write, which must not exist. Required.",
        path=True,
        model_folder=True,
        required=True,
    )
    source_language: str | None = setting(
        None,
        "Language to translate from, as a code such as en. Default: as the source "
        "says, or und for undetermined.",
    )
    target_language: str | None = setting(
        None,
        "Language to translate to, as a code such as de. Default: as the source says, "
        "or und for undetermined.",
    )
    keep_vocabulary: tuple[str, ...] = setting(
        (),
        "File of text in the languages to translate, a sentence a line. Pieces that "
        "do not occur in such files are left out of the vocabulary, and their rows of "
        "the model. Default: none is.",
        repeated=True,
        path=True,
    )
    target_space_id: int | None = setting(
        None,
        "target_space_id of a problem of Tensor2Tensor. Default: 0, which the text "
        "problems of its last releases have.",
        low=0,
    )

    def check(self) -> None:
        if not Path(self.require("input")).exists():
            raise UserError(
                f"There is no --input={self.input}. Give a folder or a file."
            )
        for path in self.keep_vocabulary:
            check_input(path, "keep_vocabulary")


_OPTIONS = define_flags(ConvertOptions)


def main() -> int:
    """Imports the model; returns the exit status."""
    from t2t_keras.interop.formats import read_model
    from t2t_keras.interop.trimming import trim_vocabulary
    from t2t_keras.runs.training import imported_run

    options = _OPTIONS.read()
    source_format, path = options.require("from_"), Path(options.require("model_dir"))
    imported_run.check_new(path)
    languages = options.source_language, options.target_language
    imported = read_model(
        source_format,
        Path(options.require("input")),
        options.target_space_id,
        languages,
    )
    if options.keep_vocabulary:
        with program.progress_bar(None, "lines") as bar:
            kept = [Path(each) for each in options.keep_vocabulary]
            imported = trim_vocabulary(imported, kept, bar.update)
    model = imported_run.write_model_dir(
        imported, path, source_format, languages=languages
    )
    size = imported_run.describe(imported, model)
    print(f"imported {options.input} to {path}: {size}")
    return 0


def _check() -> None:
    """Raises `UserError` if flags, the input or packages are missing."""
    require_extra("t2t_keras.convert", "convert")
    _OPTIONS.read()


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
