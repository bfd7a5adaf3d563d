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

from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError, require_extra
from t2t_keras.pictures.request import KINDS, Choice, PictureRequest, parse_heads
from t2t_keras.settings import program

_MODEL = program.define_model_flags(
    about_model_dir="Directory of a training run. Required without --export_dir."
)
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir",
    None,
    "Folder of a text export, or of its versions, to use instead of --model_dir.",
)
_SENTENCE = flags.DEFINE_multi_string(
    "sentence", None, "Sentence to draw; repeat the flag to put several on one page"
)
_TRANSLATION = flags.DEFINE_multi_string(
    "translation", None, "Translation of each --sentence. Default: the model's own"
)
_WHAT = flags.DEFINE_list(
    "what",
    None,
    "Pictures to make, comma-separated: lines, heat_maps, page, summary. "
    "Default: the first three, or the summary without --sentence. The page "
    "has all layers, heads and words to choose from; --layer, --heads and "
    "--words apply to figures only.",
)
_KIND = flags.DEFINE_list(
    "kind",
    None,
    "Kinds of attention, comma-separated: encoder, decoder, memory (from "
    "the decoder to the encoder's output). Default: all three.",
)
_LAYER = flags.DEFINE_integer(
    "layer",
    None,
    "Layer to draw, from 1. Default: the last one, or all layers in heat maps.",
)
_HEADS = flags.DEFINE_list(
    "heads", None, "Heads to draw lines of, comma-separated, from 1. Default: all."
)
_WORDS = flags.DEFINE_list(
    "words", None, "Words to draw lines from, comma-separated. Default: all."
)
_MERGE_SUBWORDS = flags.DEFINE_bool(
    "merge_subwords",
    False,
    "Whether figures show words instead of subwords. The page shows both.",
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "File of sentences for the summary, one a line. Default: the dev set of the run.",
)
_INPUT_TRANSLATION = flags.DEFINE_string(
    "input_translation",
    None,
    "File of the translations of --input, line by line. Default: the model's own.",
)
_SENTENCES = flags.DEFINE_integer(
    "sentences",
    500,
    "Maximum number of sentences in the summary, from the start of the file.",
    lower_bound=1,
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder for the files. Default: pictures below --model_dir, or in the "
    "working directory for an export.",
)
_FORMAT = flags.DEFINE_enum(
    "format", "svg", ["svg", "png", "pdf"], "Format of the figures."
)


def main() -> int:
    """Draws the pictures; returns the exit status."""
    from t2t_keras.pictures import pictures, sentence_attention

    model = sentence_attention.open_attention_model(
        _MODEL.model_dir.value,
        _EXPORT_DIR.value,
        checkpoint=_MODEL.checkpoint.value,
        **_MODEL.search_values(),
    )
    paths = pictures.visualize(model, _build_request(), program.log)
    print("\n".join(map(str, paths)))
    return 0


def _build_request() -> PictureRequest:
    folder = _OUTPUT.value or Path(_MODEL.model_dir.value or "") / "pictures"
    choice = Choice(
        KINDS if _KIND.value is None else _KIND.value,
        _LAYER.value,
        parse_heads(_HEADS.value or ()),
        _WORDS.value or (),
        _MERGE_SUBWORDS.value,
        _FORMAT.value,
    )
    return PictureRequest(
        Path(folder),
        _SENTENCE.value or (),
        _TRANSLATION.value or (),
        _WHAT.value,
        choice,
        _INPUT.value,
        _INPUT_TRANSLATION.value,
        _SENTENCES.value,
    )


def _check() -> None:
    """Raises `UserError` if flags are incompatible, or packages are missing."""
    require_extra("t2t_keras.visualize", "report")
    _build_request()
    if bool(_EXPORT_DIR.value) == bool(_MODEL.model_dir.value):
        raise UserError("Give either --model_dir or --export_dir.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
