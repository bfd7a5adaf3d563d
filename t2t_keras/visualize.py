"""Draws what a trained model attends to.

    python -m t2t_keras.visualize --model_dir=runs/tiny \\
        --sentence="The old teacher gave the child three red apples."
    python -m t2t_keras.visualize --export_dir=runs/tiny/export --what=lines \\
        --sentence="The dog sleeps." --translation="Der Hund schläft." \\
        --kind=memory --layer=1 --heads=1,3 --words=Hund --merge_subwords
    python -m t2t_keras.visualize --model_dir=runs/tiny --what=summary

With --sentence: lines between words, heat maps of all heads, and a page for a browser.
Without: what each head does over a corpus, the file --input or the run's dev set. The
model translates what comes without a translation. docs/pictures.md shows each picture
and says how to read it.
"""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.lines import opened_input, without_line_ends
from t2t_keras.settings import program

if TYPE_CHECKING:
    from t2t_keras.attention.sentence_attention import Attention
    from t2t_keras.runs.sentence_maps import SentenceMaps

_OWN = (
    "model_dir",
    "checkpoint",
    "export_dir",
    "sentence",
    "translation",
    "what",
    "kind",
    "layer",
    "heads",
    "words",
    "merge_subwords",
    "input",
    "input_translation",
    "sentences",
    "output",
    "format",
    "beam_size",
    "alpha",
)
_OF_SENTENCES = ("lines", "heat_maps", "page")
_MODEL = program.define_model_flags()
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "An export of text, or the folder of its versions, instead."
)
_SENTENCE = flags.DEFINE_multi_string(
    "sentence", None, "What to draw. For several on one page"
)
_TRANSLATION = flags.DEFINE_multi_string(
    "translation", None, "Of each --sentence, the model's own if not given"
)
_WHAT = flags.DEFINE_list(
    "what",
    None,
    "What to make: lines, heat_maps, page, summary. The first three if not given, or "
    "without --sentence the summary. The page has all layers, heads and words to "
    "choose from; --layer, --heads and --words are of figures.",
)
_KIND = flags.DEFINE_list(
    "kind",
    None,
    "Which attention: encoder, decoder, or memory, which is from the decoder to the "
    "encoder's output; all three if not given.",
)
_LAYER = flags.DEFINE_integer(
    "layer", None, "From 1; the last one if not given, and of heat maps all."
)
_HEADS = flags.DEFINE_list(
    "heads", None, "Heads to draw lines of, from 1; all if not given."
)
_WORDS = flags.DEFINE_list(
    "words", None, "Words to draw lines from, those of all others left out."
)
_MERGE_SUBWORDS = flags.DEFINE_bool(
    "merge_subwords", False, "Whether figures show words; the page shows both."
)
_INPUT = flags.DEFINE_string(
    "input", None, "File of sentences for the summary, plain or .gz, one a line."
)
_INPUT_TRANSLATION = flags.DEFINE_string(
    "input_translation", None, "Their translations; the model's own if not given."
)
_SENTENCES = flags.DEFINE_integer(
    "sentences", 500, "Sentences of the summary, from the first.", lower_bound=1
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder for the files; pictures, below MODEL_DIR, if not given.",
)
_FORMAT = flags.DEFINE_enum(
    "format", "svg", ["svg", "png", "pdf"], "What figures are written as."
)


def main() -> int:
    """Draws; returns the exit status."""
    from t2t_keras.attention import visualizing

    sources, targets = _SENTENCE.value or [], _TRANSLATION.value or []
    what, kinds = _what(), _kinds()
    attention, name = _attention()
    sources = [attention.source(sentence) for sentence in sources]
    folder = Path(_OUTPUT.value or Path(_MODEL.model_dir.value or "") / "pictures")
    choice = visualizing.Choice(
        kinds,
        _LAYER.value,
        _numbers(_HEADS.value or ()) or None,
        _WORDS.value or (),
        _MERGE_SUBWORDS.value,
        _FORMAT.value,
    )
    written: list[Path] = []
    if set(what) - {"summary"}:
        targets = targets or attention.translate(sources)
        sentences = _sentences(attention, sources, targets)
        written += visualizing.write_pictures(sentences, what, choice, folder)
    if "summary" in what:
        sources, targets = _corpus(attention)
        heads, cut = visualizing.summarize(attention, sources, targets)
        _warn(cut)
        about = f"{name}, {len(sources):,} sentences"
        written += visualizing.write_summary(heads, about, folder, choice.figure_format)
    print("\n".join(map(str, written)))
    return 0


def _what() -> Sequence[str]:
    """Returns what to make."""
    if _WHAT.value is not None:
        return _WHAT.value
    return _OF_SENTENCES if _SENTENCE.value else ["summary"]


def _kinds() -> Sequence[str]:
    """Returns which attention to draw."""
    from t2t_keras.runs.sentence_maps import KINDS

    kinds = KINDS if _KIND.value is None else _KIND.value
    _check_names("kind", kinds, KINDS)
    return kinds


def _check() -> None:
    """Raises `UserError` if flags are wrong or do not go together."""
    sources, targets = _SENTENCE.value or [], _TRANSLATION.value or []
    what = _what()
    _check_names("what", what, (*_OF_SENTENCES, "summary"))
    _kinds()
    _numbers(_HEADS.value or ())
    if set(what) - {"summary"} and not sources:
        raise UserError(f"--what={','.join(what)} needs a --sentence to draw.")
    if len(targets) not in (0, len(sources)):
        raise UserError(
            "Give a --translation for each --sentence, or none. Received: "
            f"{len(targets)} for {len(sources)}"
        )
    if bool(_EXPORT_DIR.value) == bool(_MODEL.model_dir.value):
        raise UserError("Give either --model_dir or --export_dir.")


def _sentences(
    attention: "Attention", sources: Sequence[str], targets: Sequence[str]
) -> list["SentenceMaps"]:
    """Returns the maps of the sentences to draw."""
    found = list(attention.maps(sources, targets))
    _warn(sum(cut for _, cut in found))
    return [maps for maps, _ in found]


def _attention() -> tuple["Attention", str]:
    """Returns the model and what to call it."""
    from t2t_keras.attention import sentence_attention
    from t2t_keras.runs import models
    from t2t_keras.runs.model_dir import ModelDir

    if _EXPORT_DIR.value:
        directory = Path(_EXPORT_DIR.value)
        return sentence_attention.of_export(directory), directory.name
    model_dir = ModelDir(program.required("model_dir"))
    trained = models.load_trained(model_dir, _MODEL.checkpoint.value)
    decoding = _MODEL.decoding(trained.config)
    checkpoint = f"{trained.checkpoint.parent.name}/{trained.checkpoint.name}"
    name = f"{model_dir.path.resolve().name}, {checkpoint}"
    return sentence_attention.of_trained(trained, decoding), name


def _corpus(attention: "Attention") -> tuple[Sequence[str], Sequence[str]]:
    """Returns the sentences of the summary and their translations."""
    if _INPUT.value:
        sources = [attention.source(line) for line in _lines(_INPUT.value, "input")]
        if not _INPUT_TRANSLATION.value:
            return sources, attention.translate(sources)
        targets = _lines(_INPUT_TRANSLATION.value, "input_translation")
        if len(sources) != len(targets):
            raise UserError(
                f"{_INPUT.value} has {len(sources)} lines, but "
                f"{_INPUT_TRANSLATION.value} has {len(targets)}, of the first "
                f"{_SENTENCES.value}. They belong together line by line."
            )
        return sources, targets
    if _EXPORT_DIR.value:
        raise UserError("An export has no dev set: give --input, a file of sentences.")
    from t2t_keras.runs import corpora, scoring
    from t2t_keras.runs.model_dir import ModelDir

    config = ModelDir(program.required("model_dir")).config()
    dev = scoring.read_split(corpora.build_corpus(config.data, ("dev",)), "dev")
    sources = [text.decode(errors="replace") for text in dev.source]
    return sources[: _SENTENCES.value], dev.references[: _SENTENCES.value]


def _lines(path: str, flag: str) -> list[str]:
    with opened_input(path, flag) as file:
        lines = list(itertools.islice(without_line_ends(file), _SENTENCES.value))
    return [line.decode(errors="replace") for line in lines]


def _warn(cut: int) -> None:
    if cut:
        print(
            f"warning: {cut} sentences or translations are too long; their ends are "
            "not shown",
            file=sys.stderr,
        )


def _check_names(flag: str, given: Sequence[str], known: Sequence[str]) -> None:
    wrong = [name for name in given if name not in known]
    if wrong or not given:
        raise UserError(
            f"--{flag} takes some of {', '.join(known)}, with commas between. "
            f"Received: {','.join(given)}"
        )


def _numbers(values: Sequence[str]) -> list[int]:
    try:
        return [int(value) for value in values]
    except ValueError:
        raise UserError(
            f"--heads takes numbers with commas between. Received: {','.join(values)}"
        ) from None


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, check=_check)
