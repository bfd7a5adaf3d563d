"""Translates lines by asking a server of TensorFlow Serving: one line in, one out.

    python -m t2t_keras.client --server=localhost:8500 < source.txt > target.txt
    python -m t2t_keras.client --server=localhost:8500 --input=source.txt.gz \\
        --output=target.txt --concurrency=16 --n_best=3 --scores
    python -m t2t_keras.client --server=localhost:8500 --input=source.txt \\
        --target=target.txt > scores.txt

The model is not needed here. The packages tensorflow and tensorflow-serving-api must be
installed, but TensorFlow is not imported. With --n_best above 1 each line gives that
many, the line's number before each. With --scores the score stands before the text.
With --target nothing is translated: each line gives the score and the log probability
of the target's line. Fields are separated by tabs.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import tqdm
from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.lines import (
    CountedLines,
    opened_input,
    opened_output,
    without_line_ends,
)
from t2t_keras.settings import program

if TYPE_CHECKING:
    import grpc

    from t2t_keras.serving.client.translation_client import (
        TargetScore,
        Translation,
        TranslationClient,
    )

# A text, and its translation where there is one.
Line: TypeAlias = tuple[bytes, ...]
Call: TypeAlias = Callable[[list[Line]], list[Any]]
# Of a line's number and result: the fields of each line to write.
FieldsOf: TypeAlias = Callable[[int, Any], Iterator[list[str]]]

_SERVER = flags.DEFINE_string("server", None, "host:port of its gRPC. Required.")
_INPUT = flags.DEFINE_string(
    "input", "-", "File to translate, plain or .gz, UTF-8; - for standard input."
)
_OUTPUT = flags.DEFINE_string(
    "output", "-", "File to write, replaced if there; - for standard output."
)
_TARGET = flags.DEFINE_string(
    "target", None, "File of translations, line by line; they are scored."
)
_MODEL_NAME = flags.DEFINE_string("model_name", "translate", "Model on the server.")
_MODEL_VERSION = flags.DEFINE_integer(
    "model_version", None, "Its version; the newest if not given."
)
_VERSION_LABEL = flags.DEFINE_string(
    "version_label", "", "Label of its version, such as stable, instead of a number."
)
_SIGNATURE = flags.DEFINE_string(
    "signature", "", "Signature to call, if the export has more than ours."
)
_N_BEST = flags.DEFINE_integer("n_best", 1, "Translations of each line.")
_SCORES = flags.DEFINE_bool("scores", False, "Write the score too.")
_BEAM_SIZE = flags.DEFINE_integer(
    "beam_size", None, "Hypotheses that live at a time; as exported if not given."
)
_ALPHA = flags.DEFINE_float(
    "alpha",
    None,
    "Strength of the length penalty; as exported if not given. For a server that joins "
    "requests, give --beam_size too.",
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "Most tokens of a translation; as exported if not given. For a server that joins "
    "requests, give --beam_size too.",
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Most lines of a request.")
_CONCURRENCY = flags.DEFINE_integer("concurrency", 4, "Requests at a time.")
_LINES_AT_ONCE = flags.DEFINE_integer(
    "lines_at_once",
    1024,
    "Lines that are read, sorted by length, and translated. With 1, and a "
    "--concurrency of 1, each line is answered before the next is read.",
)
_TIMEOUT_SECONDS = flags.DEFINE_float(
    "timeout_seconds", 60.0, "Longest that a request may take, retries counted."
)
_RETRIES = flags.DEFINE_integer(
    "retries", 6, "How often a request is repeated that the server had no time for."
)
_SSL_CA_FILE = flags.DEFINE_string(
    "ssl_ca_file", None, "Certificates (PEM) that the server is trusted by, for TLS."
)
_MAX_MESSAGE_BYTES = flags.DEFINE_integer(
    "max_message_bytes", 64 * 2**20, "Largest request and answer."
)
_OWN = (
    *("server", "input", "output", "target", "model_name", "model_version"),
    *("version_label", "signature", "n_best", "scores", "beam_size", "alpha"),
    *("max_length", "batch_size", "concurrency", "lines_at_once"),
    *("timeout_seconds", "retries", "ssl_ca_file", "max_message_bytes"),
)


def main() -> None:
    """Translates, or scores."""
    # Not for --help, which need not know of gRPC.
    from t2t_keras.serving.client.bulk import in_batches

    server = program.required("server")
    _check_flags()
    with contextlib.ExitStack() as stack:
        sides = _sides(stack)
        lines = _pairs(*sides)
        call, fields_of = _task(stack.enter_context(_client(server)))
        output = stack.enter_context(opened_output(_OUTPUT.value))
        bar = stack.enter_context(program.progress_bar(_total_lines(), "sentences"))
        results = in_batches(
            call,
            lines,
            batch_size=_BATCH_SIZE.value,
            concurrency=_CONCURRENCY.value,
            items_at_once=_LINES_AT_ONCE.value,
            size=lambda line: sum(map(len, line)),
        )
        # Closed before the client is: no call is begun on its way out.
        stack.enter_context(contextlib.closing(results))
        for number, result in enumerate(results, start=1):
            for fields in fields_of(number, result):
                # Nothing but LF ends a line, and a line has one end.
                output.write("\t".join(fields).replace("\n", " ") + "\n")
            output.flush()
            bar.update()
        for side in sides:
            if side.warning:
                _warn(side.warning)


def _check_flags() -> None:
    for flag in (_BATCH_SIZE, _CONCURRENCY, _LINES_AT_ONCE, _N_BEST):
        if flag.value < 1:
            raise UserError(f"--{flag.name} must be at least 1: {flag.value}")
    for flag in (_RETRIES, _MAX_MESSAGE_BYTES):
        if flag.value < 0:
            raise UserError(f"--{flag.name} must be at least 0: {flag.value}")
    translating = (_N_BEST, _SIGNATURE, _BEAM_SIZE, _ALPHA, _MAX_LENGTH)
    given = [f"--{flag.name}" for flag in translating if flag.present]
    if _TARGET.value and given:
        raise UserError(
            f"With --target nothing is translated, so that {' and '.join(given)} mean "
            "nothing. Leave out one or the other."
        )
    if _TARGET.value == _INPUT.value:
        raise UserError(
            f"--input and --target are one and the same: {_TARGET.value}. Give the "
            "texts and their translations."
        )
    if _N_BEST.value > 1 and len(given) > 1:
        raise UserError(
            f"An export gives its n best with its own settings. Received: "
            f"{' and '.join(given)}. Leave out --n_best or the others."
        )


def _client(server: str) -> "TranslationClient":
    from t2t_keras.serving.client.calls import ServedModel
    from t2t_keras.serving.client.retries import RetryPolicy
    from t2t_keras.serving.client.translation_client import TranslationClient

    return TranslationClient(
        server,
        ServedModel(_MODEL_NAME.value, _MODEL_VERSION.value, _VERSION_LABEL.value),
        timeout_seconds=_TIMEOUT_SECONDS.value,
        retry=RetryPolicy(_RETRIES.value),
        credentials=_credentials(),
        max_message_bytes=_MAX_MESSAGE_BYTES.value,
    )


def _credentials() -> "grpc.ChannelCredentials | None":
    import grpc

    path = _SSL_CA_FILE.value
    if not path:
        return None
    certificates = Path(path).read_bytes() if Path(path).is_file() else b""
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise UserError(f"--ssl_ca_file={path} is no file of certificates (PEM).")
    return grpc.ssl_channel_credentials(certificates)


def _sides(stack: contextlib.ExitStack) -> list[CountedLines]:
    """Returns the lines of the input, and those of the target if there are any."""
    files = [opened_input(_INPUT.value)]
    if _TARGET.value:
        files.append(opened_input(_TARGET.value, "target"))
    return [
        CountedLines(without_line_ends(stack.enter_context(file))) for file in files
    ]


def _pairs(*sides: Iterable[bytes]) -> Iterator[Line]:
    """Yields each line of the input, with its translation if there are any."""
    for number, pair in enumerate(itertools.zip_longest(*sides)):
        if None in pair:
            ended = "input" if pair[0] is None else "target"
            raise UserError(
                f"--{ended} ends after {number} lines, and the other goes on. Each "
                "line must have its translation."
            )
        yield pair


def _task(client: "TranslationClient") -> tuple[Call, FieldsOf]:
    """Returns what to ask of the server, and what to write of its answers."""
    from t2t_keras.serving.client.translation_client import SearchOptions

    if _TARGET.value:
        return lambda pairs: client.score(*zip(*pairs, strict=True)), _score_fields
    if _N_BEST.value > 1:
        count = _N_BEST.value
        return lambda lines: client.translate_n_best(_texts(lines), count), _fields
    options = SearchOptions(_BEAM_SIZE.value, _ALPHA.value, _MAX_LENGTH.value)

    def best(lines: list[Line]) -> list[list["Translation"]]:
        found = client.translate(_texts(lines), options, _SIGNATURE.value)
        return [[translation] for translation in found]

    return best, _fields


def _texts(lines: list[Line]) -> list[bytes]:
    return [text for (text,) in lines]


def _fields(number: int, found: list["Translation"]) -> Iterator[list[str]]:
    if found[0].truncated:
        _warn(f"line {number} is too long; its end was not translated")
    for each in found:
        fields = [str(number)] if _N_BEST.value > 1 else []
        fields += [f"{each.score:.6f}"] if _SCORES.value else []
        yield [*fields, each.text]


def _score_fields(number: int, found: "TargetScore") -> Iterator[list[str]]:
    if found.truncated:
        _warn(f"line {number} or its target is too long; its end was not scored")
    yield [f"{found.score:.6f}", f"{found.log_prob:.6f}"]


def _warn(message: str) -> None:
    # Not through the bar, which may stand on the same line.
    tqdm.tqdm.write(f"warning: {message}", file=sys.stderr)


def _total_lines() -> int | None:
    """Returns how many lines there will be, if someone looks and it can be told."""
    if _INPUT.value == "-" or not sys.stderr.isatty():
        return None
    with opened_input(_INPUT.value) as source:
        return sum(1 for _ in source)


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, with_tensorflow=False)
