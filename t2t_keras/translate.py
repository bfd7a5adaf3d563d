"""Translates lines of text: one line in, one line out; empty lines stay empty.

    python -m t2t_keras.translate --model_dir=runs/tiny < source.txt > target.txt
    python -m t2t_keras.translate --model_dir=runs/tiny --input=source.txt.gz \\
        --output=target.txt --beam_size=8 --n_best=3 --scores

With --n_best above 1 each line has that many translations, each after the line's
number. With --scores the score and the log probability precede the text. Fields are
separated by tabs. A parser writes a tree over the words of each line.
"""

from typing import IO

from absl import flags

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
        translator = models.text_translator(trained, decoding, _N_BEST.value)
        with open_output(_OUTPUT.value) as target:
            _translate_all(translator, source, target)
    return 0


def _translate_all(translator, source: IO[bytes], target: IO[str]) -> None:
    number = 0
    counted = CountedLines(strip_line_ends(source))
    for lines in chunks(counted, _LINES_AT_ONCE.value):
        for translated in translator.translate(lines):
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


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=lambda: program.require_flag("model_dir"))
