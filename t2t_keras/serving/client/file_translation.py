"""Translation or scoring of whole files by a server: one line in, one line out.

Fields of a line that is written are separated by tabs: the number of the line where
each has several translations, the score if asked for, the text.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from t2t_keras.errors import UserError
from t2t_keras.files.lines import line_seed, open_input, open_output, open_prefixes
from t2t_keras.files.text_checks import CountedLines
from t2t_keras.serving.client.bulk import in_batches
from t2t_keras.serving.client.glossaries import translate_with_glossary
from t2t_keras.serving.client.options import FileOptions
from t2t_keras.serving.client.protection import protected_calls
from t2t_keras.serving.client.translation_client import (
    TargetScore,
    TranslatedText,
    TranslationClient,
)
from t2t_keras.text.glossary import read_glossary
from t2t_keras.text.protected_translation import translate_protected

# Number of a line from 1, its text, and its translation or prefix where there is one.
Line: TypeAlias = tuple[Any, ...]
Call: TypeAlias = Callable[[list[Line]], list[Any]]
# From a line's number and result to the fields of each line to write.
FieldsOf: TypeAlias = Callable[[int, Any], Iterator[list[str]]]
Log: TypeAlias = Callable[[str], object]


class FileTranslation(FileOptions):
    """Translation or scoring of a file; `FileOptions` describes how."""

    def translate(
        self,
        client: TranslationClient,
        warn: Log = lambda _: None,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Translates or scores each line of a file.

        The output is written whole or not at all, unless it is standard output.

        Args:
            client: Client of the server.
            warn: Called with a message for each truncated line, and once if some
                are not UTF-8.
            on_progress: Called with the number of lines done since the last call.

        Raises:
            UserError: If a file cannot be used, or the numbers of lines differ.
            ServerError: If the server does not answer, or its answer is invalid.
        """
        with contextlib.ExitStack() as stack:
            sides = _open_sides(self, stack)
            call, fields_of = _task(client, self, warn)
            output = stack.enter_context(open_output(self.output))
            results = in_batches(
                call,
                _read_lines(self, sides, stack),
                batch_size=self.batch_size,
                concurrency=self.concurrency,
                items_at_once=self.lines_at_once,
                size=lambda line: sum(map(len, line[1:])),
            )
            # Closed before the client is, so that no call is started on the way out.
            stack.enter_context(contextlib.closing(results))
            for number, result in enumerate(results, start=1):
                for fields in fields_of(number, result):
                    # Nothing but LF ends a line, and a line has one end.
                    output.write("\t".join(fields).replace("\n", " ") + "\n")
                output.flush()
                on_progress(1)
            for side in sides:
                if side.warning:
                    warn(side.warning)

    def count_lines(self) -> int | None:
        """Returns the number of input lines, None for what can be read only once."""
        if not Path(self.input).is_file():
            return None
        with open_input(self.input, "input") as source:
            return sum(1 for _ in source)


def _open_sides(
    files: FileTranslation, stack: contextlib.ExitStack
) -> list[CountedLines]:
    """Returns the lines of the input, and those of the target if there are any."""
    paths = {"input": files.input} | ({"target": files.target} if files.target else {})
    return [
        CountedLines(
            stack.enter_context(open_input(path, flag)), path, files.lines_at_once
        )
        for flag, path in paths.items()
    ]


def _read_lines(
    files: FileTranslation, sides: list[CountedLines], stack: contextlib.ExitStack
) -> Iterator[Line]:
    """Returns an iterator over numbered lines, with prefixes if there are any."""
    if files.prefix is None:
        return _pair_lines(*sides)
    pairs = open_prefixes(sides[0], files.prefix, stack, files.lines_at_once)
    return ((number, *pair) for number, pair in enumerate(pairs, start=1))


def _pair_lines(*sides: Iterable[bytes]) -> Iterator[Line]:
    """Yields number and text of each line, with its translation if there are any."""
    for number, pair in enumerate(itertools.zip_longest(*sides)):
        if None in pair:
            ended = "input" if pair[0] is None else "target"
            raise UserError(
                f"--{ended} ends after {number} lines, and the other is longer. Each "
                "line must have its translation."
            )
        yield number + 1, *pair


def _task(
    client: TranslationClient, files: FileTranslation, warn: Log
) -> tuple[Call, FieldsOf]:
    """Returns the call that gives the results, and what writes them."""

    def format_translations(
        number: int, translations: list[TranslatedText]
    ) -> Iterator[list[str]]:
        if translations[0].truncated:
            warn(_truncation_warning(number, files.prefix is not None))
        if unmet := translations[0].unmet:
            warn(f"line {number} lacks terms of the glossary: {', '.join(unmet)}")
        for each in translations:
            fields = [str(number)] if files.n_best > 1 else []
            fields += [f"{each.score:.6f}"] if files.scores else []
            yield [*fields, each.text]

    def format_score(number: int, score: TargetScore) -> Iterator[list[str]]:
        if score.truncated:
            warn(f"line {number} or its target is too long; its end was not scored")
        yield [f"{score.score:.6f}", f"{score.log_prob:.6f}"]

    if files.target:
        return (
            lambda pairs: client.score(*list(zip(*pairs, strict=True))[1:]),
            format_score,
        )
    call = _translation_call(client, files)
    if files.glossary is not None:
        call = _with_glossary(client, call, files)
    if files.protect:
        return (lambda lines: _protect(client, call, lines)), format_translations
    return call, format_translations


def _translation_call(client: TranslationClient, files: FileTranslation) -> Call:
    """Returns the call that gives the translations of each line."""
    if files.sample:
        return lambda lines: _sample(client, files, lines)
    if files.n_best > 1:
        return lambda lines: client.translate_n_best(_texts(lines), files.n_best)
    return lambda lines: _translate(client, files, lines)


def _with_glossary(client: TranslationClient, call: Call, files: FileOptions) -> Call:
    """Returns a call that forces the terms of lines that have some."""
    glossary = read_glossary(files.glossary or "")

    def call_with_glossary(lines: list[Line]) -> list[list[TranslatedText]]:
        return translate_with_glossary(
            _texts(lines),
            glossary,
            lambda texts, terms: client.translate_n_best(texts, files.n_best, terms),
            lambda texts: call([(0, text) for text in texts]),
        )

    return call_with_glossary


def _protect(
    client: TranslationClient, call: Call, lines: list[Line]
) -> list[list[TranslatedText]]:
    """Returns what a call does, with protected spans unchanged and once each."""

    def call_with_numbers(
        numbers: Sequence[int], texts: Sequence[str | bytes]
    ) -> list[list[TranslatedText]]:
        pairs = zip(numbers, texts, strict=True)
        return call([(lines[number][0], text) for number, text in pairs])

    backend = protected_calls(client, call_with_numbers)
    return translate_protected(_texts(lines), backend)


def _truncation_warning(number: int, with_prefix: bool) -> str:
    if with_prefix:
        return f"line {number} or its prefix is too long; the end was cut"
    return f"line {number} is too long; its end was not translated"


def _translate(
    client: TranslationClient, files: FileTranslation, lines: list[Line]
) -> list[list[TranslatedText]]:
    """Returns the one translation of each line."""
    if files.prefix is not None:
        _, texts, prefixes = zip(*lines, strict=True)
        translations = client.translate(texts, prefixes=prefixes)
    else:
        translations = client.translate(_texts(lines), files.options, files.signature)
    return [[translation] for translation in translations]


def _sample(
    client: TranslationClient, files: FileTranslation, lines: list[Line]
) -> list[list[TranslatedText]]:
    seed = 1 if files.seed is None else files.seed
    seeds = [line_seed(seed, number) for number, _ in lines]
    return client.sample(_texts(lines), seeds, files.n_best)


def _texts(lines: list[Line]) -> list[bytes]:
    return [text for _, text in lines]
