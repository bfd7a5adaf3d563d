"""Translates lines of text: one line in, one line out; empty lines stay empty.

    python -m t2t_keras.translate --model_dir=runs/tiny < source.txt > target.txt
    python -m t2t_keras.translate --model_dir=runs/tiny --input=source.txt.gz \\
        --output=target.txt --beam_size=8 --n_best=3 --scores

With --n_best above 1 each line has that many translations, each after the line's
number. With --scores the score and the log probability precede the text. Fields are
separated by tabs. A parser writes a tree over the words of each line. With --paragraphs
the sentences of each line are translated one by one.
"""

from typing import IO

from absl import flags

from t2t_keras.evaluation.paragraphs import check_paragraphs, make_line_translator
from t2t_keras.files.lines import (
    CountedLines,
    chunks,
    open_input,
    open_output,
    strip_line_ends,
)
from t2t_keras.settings import program

_MODEL = program.define_model_flags()
_INPUT = flags.DEFINE_string(
    "input",
    "-",
    "File to translate: UTF-8, plain or .gz, one sentence a line; - for "
    "standard input.",
)
_OUTPUT = flags.DEFINE_string(
    "output",
    "-",
    "File for the translations, replaced if it exists; - for standard output.",
)
_N_BEST = flags.DEFINE_integer(
    "n_best", 1, "Number of translations of each line.", lower_bound=1
)
_SCORES = flags.DEFINE_bool(
    "scores",
    False,
    "Whether the score and the log probability are written before each translation.",
)
_PARAGRAPHS = flags.DEFINE_bool(
    "paragraphs",
    False,
    "Whether lines are paragraphs, whose sentences are translated one by one. Blank "
    "lines and the spacing between sentences stay as they are.",
)
_TARGET_TAG = flags.DEFINE_string(
    "target_tag",
    None,
    "Tag to put before each sentence, such as that of a language or domain; one "
    "symbol of the vocabulary. Default: none.",
)
_LINES_AT_ONCE = flags.DEFINE_integer(
    "lines_at_once",
    1024,
    "Number of lines that are read, sorted by length, and translated together.",
    lower_bound=1,
)


def main() -> int:
    """Translates; returns the exit status."""
    from t2t_keras.runs import models
    from t2t_keras.runs.model_dir import ModelDir

    model_dir = ModelDir(program.require_flag("model_dir"))
    with open_input(_INPUT.value) as source:
        trained = models.load_trained(model_dir, _MODEL.checkpoint.value)
        decoding = _MODEL.decoding(trained.config)
        translate = make_line_translator(
            models.text_translator(trained, decoding, _N_BEST.value),
            trained.vocabulary,
            paragraphs=_PARAGRAPHS.value,
            language=trained.config.data.source_language,
            target_tag=_TARGET_TAG.value,
        )
        with open_output(_OUTPUT.value) as target:
            _translate_all(translate, source, target)
    return 0


def _translate_all(translate, source: IO[bytes], target: IO[str]) -> None:
    number = 0
    counted = CountedLines(strip_line_ends(source))
    for lines in chunks(counted, _LINES_AT_ONCE.value):
        for translated in translate(lines):
            number += 1
            if translated.truncated:
                program.log(
                    f"warning: line {number} is too long; its end was not translated"
                )
            for hypothesis in translated.hypotheses:
                fields = [str(number)] if _N_BEST.value > 1 else []
                if _SCORES.value:
                    fields += [f"{hypothesis.score:.6f}", f"{hypothesis.log_prob:.6f}"]
                target.write("\t".join([*fields, hypothesis.text]) + "\n")
        target.flush()
    if counted.warning:
        program.log(f"warning: {counted.warning}")


def _check() -> None:
    """Raises `UserError` if flags are missing or incompatible."""
    program.require_flag("model_dir")
    check_paragraphs(_PARAGRAPHS.value, _N_BEST.value)


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
