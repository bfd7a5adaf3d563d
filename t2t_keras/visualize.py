"""Draws the attention of a trained model.

    python -m t2t_keras.visualize --model_dir=runs/tiny \\
        --sentence="The old teacher gave the child three red apples."
    python -m t2t_keras.visualize --export_dir=runs/tiny/export --what=lines \\
        --sentence="The dog sleeps." --translation="Der Hund schläft." \\
        --kind=memory --layer=1 --heads=1,3 --words=Hund --merge_subwords
    python -m t2t_keras.visualize --model_dir=runs/tiny --what=summary

With --sentence it draws lines between words, heat maps of all heads, and a page for a
browser. Without, it summarizes each head over a corpus, the file --input or the run's
dev set. The model translates sentences that have no translation. docs/pictures.md shows
each picture and explains how to read it.
"""

import dataclasses

from t2t_keras.errors import UserError, require_extra
from t2t_keras.pictures.request import PictureRequest
from t2t_keras.settings import program
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.flags import define_flags
from t2t_keras.settings.model_options import ModelOptions
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class ExportedModelOptions(Settings):
    """An export to use instead of a training run."""

    export_dir: str | None = setting(
        None,
        "Folder of a text export, or of its versions, to use instead of --model_dir.",
        path=True,
        model_folder=True,
    )


_MODEL = define_flags(
    ModelOptions,
    about={"model_dir": "Directory of a training run. Required without --export_dir."},
)
_SEARCH = define_flags(DecodingConfig, default_note="that of the run")
_EXPORT = define_flags(ExportedModelOptions)
_REQUEST = define_flags(PictureRequest)


def main() -> int:
    """Draws the pictures; returns the exit status."""
    from t2t_keras.pictures import pictures, sentence_attention

    values = _MODEL.values()
    model = sentence_attention.open_attention_model(
        values["model_dir"],
        _EXPORT.read().export_dir,
        checkpoint=values["checkpoint"],
        **_SEARCH.values(),
    )
    request = _REQUEST.read(model_dir=values["model_dir"])
    paths = pictures.visualize(model, request)
    print("\n".join(map(str, paths)))
    return 0


def _check() -> None:
    """Raises `UserError` if flags are incompatible, or packages are missing."""
    require_extra("t2t_keras.visualize", "report")
    _REQUEST.read()
    DecodingConfig().override(**_SEARCH.values())
    if bool(_EXPORT.read().export_dir) == bool(_MODEL.values()["model_dir"]):
        raise UserError("Give either --model_dir or --export_dir.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
