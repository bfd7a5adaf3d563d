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
import dataclasses

from t2t_keras.decoding.settings import SamplingSettings
from t2t_keras.files.lines import (
    check_outputs,
    check_standard_input,
    open_input,
    open_output,
    open_prefixes,
)
from t2t_keras.files.text_checks import CountedLines
from t2t_keras.runs.translation import ensembles
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.settings import program
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.flags import define_flags, read_if
from t2t_keras.settings.model_options import SearchModelOptions
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class TranslateOptions(Settings):
    """What is translated, and where the translations go."""

    input: str = setting(
        "-",
        "File to translate: UTF-8, plain, .gz, .xz, .bz2 or .zst, one sentence a line; "
        "- for standard input.",
        path=True,
    )
    output: str = setting(
        "-",
        "File for the translations, replaced if it exists; - for standard output.",
        path=True,
    )
    scores: bool = setting(
        False,
        "Whether the score and the log probability are written before each "
        "translation.",
    )
    sample: bool = setting(
        False,
        "Whether translations are drawn from the model's distribution instead of "
        "searched for: --n_best samples of each line.",
    )
    prefix: str | None = setting(
        None,
        "Beginnings of the translations: a file with one for each line of --input, or "
        "the word column if each line has one after a tab. An empty one forces "
        "nothing.",
        path=True,
    )
    alignments: str | None = setting(
        None,
        "File for the word alignment of each line with its best translation, in "
        "Pharaoh format: 0-0 1-2, numbers of words from 0, source first. Default: "
        "none.",
        path=True,
    )
    lines_at_once: int = setting(
        1024,
        "Number of lines that are read, sorted by length, and translated together.",
        low=1,
    )

    def check(self) -> None:
        check_standard_input([("input", self.input), ("prefix", self.prefix)])
        check_outputs(self.output, self.alignments)


_MODEL = define_flags(SearchModelOptions)
_SEARCH = define_flags(DecodingConfig, default_note="that of the run")
_REQUEST = define_flags(TranslationRequest)
_OPTIONS = define_flags(TranslateOptions)
_SAMPLING = define_flags(SamplingSettings)


def main() -> int:
    """Translates; returns the exit status."""
    from t2t_keras.decoding.sampling import Sampling
    from t2t_keras.runs.translation import line_translation

    options = _OPTIONS.read()
    request = _read_request(options)
    if request.sample is not None:
        sampling = Sampling(**dataclasses.asdict(request.sample))
        request = dataclasses.replace(request, sample=sampling)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_input(options.input, "input"))
        source = CountedLines(file, options.input, options.lines_at_once)
        lines = open_prefixes(source, options.prefix, stack, options.lines_at_once)
        trained = ensembles.load(**dataclasses.asdict(_MODEL.read()))
        decoding = trained.config.decoding.override(**_SEARCH.values())
        translator = line_translation.LineTranslator(trained, decoding, request)
        output = stack.enter_context(open_output(options.output))
        path = options.alignments
        links = stack.enter_context(open_output(path)) if path else None
        translated = translator.translate(lines, options.lines_at_once)
        line_translation.write_translations(
            translated, output, links, request.n_best > 1, options.scores
        )
        if source.warning:
            program.log(f"warning: {source.warning}")
    return 0


def _read_request(options: TranslateOptions) -> TranslationRequest:
    return _REQUEST.read(
        sample=read_if(options.sample, _SAMPLING, "sample"),
        with_prefixes=options.prefix is not None,
        alignments=options.alignments is not None,
    )


def _check() -> None:
    """Raises `UserError` if flags are missing or exclude each other."""
    ensembles.check(**dataclasses.asdict(_MODEL.read()))
    search = _SEARCH.values()
    DecodingConfig().override(**search)
    _read_request(_OPTIONS.read()).check_search(search)


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
