"""Translates lines of text: one line in, one line out; empty lines stay empty.

    python -m t2t_keras.translate --model_dir=runs/tiny < source.txt > target.txt
    python -m t2t_keras.translate --model_dir=runs/tiny --input=source.txt.gz \\
        --output=target.txt --beam_size=8 --n_best=3 --scores
    python -m t2t_keras.translate --model_dir=runs/tiny --sample --seed=7 < source.txt

With --n_best above 1 each line has that many translations, each after the line's
number. With --scores the score and the log probability precede the text. Fields are
separated by tabs. A parser writes a tree over the words of each line. With
--paragraphs the sentences of each line are translated one by one. With --alignments
the links between the words of both sides are written to a file. docs/decoding.md
describes the options of the search, samples, prefixes and reranking,
docs/alignments.md word alignments.
"""

import contextlib

from absl import flags

from t2t_keras.files.lines import (
    CountedLines,
    check_outputs,
    check_standard_input,
    open_input,
    open_prefixes,
)
from t2t_keras.runs.translation import ensembles
from t2t_keras.settings import program

_MODEL = program.define_model_flags()
program.define_search_model_flags()
_INPUT = flags.DEFINE_string(
    "input",
    "-",
    "File to translate: UTF-8, plain, .gz, .xz or .bz2, one sentence a line; - for "
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
flags.DEFINE_bool(
    "paragraphs",
    False,
    "Whether lines are paragraphs, whose sentences are translated one by one. Blank "
    "lines and the spacing between sentences stay as they are.",
)
flags.DEFINE_string(
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
flags.DEFINE_enum(
    "rerank",
    None,
    ["mbr"],
    "Method of choosing among several translations: mbr (minimum Bayes risk), those "
    "with the highest mean chrF against all others. Default: none.",
)
flags.DEFINE_integer(
    "candidates",
    None,
    "Number of translations that --rerank chooses from. Default: --beam_size, or 32 "
    "samples.",
    lower_bound=1,
)
_ALIGNMENTS = flags.DEFINE_string(
    "alignments",
    None,
    "File for the word alignment of each line with its best translation, in Pharaoh "
    "format: 0-0 1-2, numbers of words from 0, source first. Default: none.",
)
flags.DEFINE_string("alignment_heads", None, program.ABOUT_HEADS)
_LINES_AT_ONCE = flags.DEFINE_integer(
    "lines_at_once",
    1024,
    "Number of lines that are read, sorted by length, and translated together.",
    lower_bound=1,
)

# Flags that are fields of `TranslationRequest`.
_REQUESTED = (
    "n_best",
    "rerank",
    "candidates",
    "paragraphs",
    "target_tag",
    "alignment_heads",
)
# Flags that need another.
_NEEDED = (
    ("candidates", "rerank", "--rerank=mbr"),
    ("alignment_heads", "alignments", "--alignments"),
)
# Flags that exclude others, and why.
_EXCLUDED = (
    ("sample", ("beam_size",), "is not for --sample: it has no beam."),
    (
        "paragraphs",
        ("n_best", "sample", "prefix", "alignments"),
        "is for lines that are sentences, but --paragraphs splits lines. Leave one "
        "of them out.",
    ),
)


def main() -> int:
    """Translates; returns the exit status."""
    from t2t_keras.decoding.sampling import Sampling
    from t2t_keras.runs.translation import line_translation

    sampling = _SAMPLING.values()
    request = line_translation.TranslationRequest(
        sample=None if sampling is None else Sampling(**sampling),
        with_prefixes=_PREFIX.value is not None,
        alignments=_ALIGNMENTS.value is not None,
        **program.flag_values(_REQUESTED),
    )
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_input(_INPUT.value, "input"))
        source = CountedLines(file, _INPUT.value, _LINES_AT_ONCE.value)
        lines = open_prefixes(source, _PREFIX.value, stack, _LINES_AT_ONCE.value)
        which = _MODEL.checkpoint.value
        trained = ensembles.load(checkpoint=which, **program.search_model_values())
        decoding = _MODEL.decoding(trained.config)
        translator = line_translation.LineTranslator(trained, decoding, request)
        outputs = line_translation.open_outputs(_OUTPUT.value, _ALIGNMENTS.value, stack)
        translated = translator.translate(lines, _LINES_AT_ONCE.value)
        line_translation.write_translations(
            translated, outputs, _N_BEST.value > 1, _SCORES.value, program.log
        )
        if source.warning:
            program.log(f"warning: {source.warning}")
    return 0


def _check() -> None:
    """Raises `UserError` if flags are missing or exclude each other."""
    ensembles.check(**program.search_model_values())
    _SAMPLING.check()
    check_standard_input([("input", _INPUT.value), ("prefix", _PREFIX.value)])
    check_outputs(_OUTPUT.value, _ALIGNMENTS.value)
    for name, excluded, reason in _EXCLUDED:
        if flags.FLAGS[name].value:
            program.refuse_flags(excluded, reason)
    for name, needed, usage in _NEEDED:
        if flags.FLAGS[needed].value is None:
            program.refuse_flags((name,), f"is for {usage}. Add that.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
