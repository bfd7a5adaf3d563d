"""Translates lines of text: one line in, one line out; empty lines stay empty.

    python -m t2t_keras.translate --model_dir=runs/tiny < source.txt > target.txt
    python -m t2t_keras.translate --model_dir=runs/tiny --input=source.txt.gz \\
        --output=target.txt --beam_size=8 --n_best=3 --scores
    python -m t2t_keras.translate --model_dir=runs/tiny --sample --seed=7 < source.txt

With --n_best above 1 each line has that many translations, each after the line's
number. With --scores the score and the log probability precede the text. Fields are
separated by tabs. A parser writes a tree over the words of each line. With
--paragraphs the sentences of each line are translated one by one. docs/decoding.md
describes the options of the search, samples, prefixes and reranking.
"""

import contextlib

from absl import flags

from t2t_keras.files.lines import (
    CountedLines,
    open_input,
    open_output,
    open_prefixes,
    strip_line_ends,
)
from t2t_keras.runs import ensembles
from t2t_keras.settings import program

_MODEL = program.define_model_flags()
_OTHERS = program.define_ensemble_flag()
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
_SAMPLING = program.define_sampling_flags(
    "Whether translations are drawn from the model's distribution instead of searched "
    "for: --n_best samples of each line.",
    with_seed=True,
)
_PREFIX = flags.DEFINE_string(
    "prefix",
    None,
    "Beginnings of the translations: a file with one for each line of --input, or "
    "the word column if each line has one after a tab. An empty one forces nothing.",
)
_RERANK = flags.DEFINE_enum(
    "rerank",
    None,
    ["mbr"],
    "Method of choosing among several translations: mbr (minimum Bayes risk), those "
    "with the highest mean chrF against all others. Default: none.",
)
_CANDIDATES = flags.DEFINE_integer(
    "candidates",
    None,
    "Number of translations that --rerank chooses from. Default: --beam_size, or 32 "
    "samples.",
    lower_bound=1,
)
_LINES_AT_ONCE = flags.DEFINE_integer(
    "lines_at_once",
    1024,
    "Number of lines that are read, sorted by length, and translated together.",
    lower_bound=1,
)

# Flags that exclude others, and why.
_EXCLUDED = (
    ("sample", ("beam_size",), "is not for --sample: it has no beam."),
    (
        "paragraphs",
        ("n_best", "sample", "prefix"),
        "is for lines that are sentences, but --paragraphs splits lines. Leave one "
        "of them out.",
    ),
)


def main() -> int:
    """Translates; returns the exit status."""
    from t2t_keras.decoding.sampling import Sampling
    from t2t_keras.runs import line_translation

    sampling = _SAMPLING.values()
    request = line_translation.TranslationRequest(
        _N_BEST.value,
        None if sampling is None else Sampling(**sampling),
        _RERANK.value,
        _CANDIDATES.value,
        with_prefixes=_PREFIX.value is not None,
        paragraphs=_PARAGRAPHS.value,
        target_tag=_TARGET_TAG.value,
    )
    with contextlib.ExitStack() as stack:
        source = CountedLines(
            strip_line_ends(stack.enter_context(open_input(_INPUT.value)))
        )
        lines = open_prefixes(source, _PREFIX.value, stack)
        which = _MODEL.checkpoint.value
        trained = ensembles.load(_MODEL.model_dir.value, which, _OTHERS.value)
        decoding = _MODEL.decoding(trained.config)
        translator = line_translation.LineTranslator(trained, decoding, request)
        target = stack.enter_context(open_output(_OUTPUT.value))
        translated = translator.translate(lines, _LINES_AT_ONCE.value)
        line_translation.write_translations(
            translated, target, _N_BEST.value > 1, _SCORES.value, program.log
        )
        if source.warning:
            program.log(f"warning: {source.warning}")
    return 0


def _check() -> None:
    """Raises `UserError` if flags are missing or exclude each other."""
    ensembles.check_members(program.require_flag("model_dir"), _OTHERS.value)
    _SAMPLING.check()
    for name, excluded, reason in _EXCLUDED:
        if flags.FLAGS[name].value:
            program.refuse_flags(excluded, reason)
    if _RERANK.value is None:
        program.refuse_flags(("candidates",), "is for --rerank=mbr. Add that.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
