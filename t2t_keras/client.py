"""Translates lines with a TensorFlow Serving server: one line in, one line out.

    python -m t2t_keras.client --server=localhost:8500 < source.txt > target.txt
    python -m t2t_keras.client --server=localhost:8500 --input=source.txt.gz \\
        --output=target.txt --concurrency=16 --n_best=3 --scores
    python -m t2t_keras.client --server=localhost:8500 --input=source.txt \\
        --target=target.txt > scores.txt

The client needs neither a model nor TensorFlow. With --n_best above 1 each line has
that many translations, each after the line's number. With --scores the score precedes
the text. With --target nothing is translated: the output has the score and the log
probability of each target line. Fields are separated by tabs.
"""

import sys

import tqdm
from absl import flags

from t2t_keras.settings import program

_SERVER = flags.DEFINE_string(
    "server",
    None,
    "host:port of the server's gRPC service, or unix:PATH of its socket. Required.",
)
_INPUT = flags.DEFINE_string(
    "input",
    "-",
    "File to translate: UTF-8, plain, .gz, .xz or .bz2, one sentence a line; - for "
    "standard input.",
)
_OUTPUT = flags.DEFINE_string(
    "output",
    "-",
    "File for the translations or scores, replaced if it exists; - for "
    "standard output.",
)
_TARGET = flags.DEFINE_string(
    "target",
    None,
    "File of translations of --input, line by line. They are scored, and nothing "
    "is translated.",
)
_MODEL_NAME = flags.DEFINE_string(
    "model_name", "translate", "Name of the model on the server."
)
_MODEL_VERSION = flags.DEFINE_integer(
    "model_version", None, "Version number of the model. Default: the newest."
)
_VERSION_LABEL = flags.DEFINE_string(
    "version_label",
    "",
    "Label of the model's version, such as stable, instead of --model_version.",
)
_SIGNATURE = flags.DEFINE_string(
    "signature",
    "",
    "Signature to call instead of serving_default, with the same inputs and outputs.",
)
_N_BEST = flags.DEFINE_integer("n_best", 1, "Number of translations of each line.")
_SCORES = flags.DEFINE_bool(
    "scores", False, "Whether the score is written before each translation."
)
_SAMPLE = flags.DEFINE_bool(
    "sample",
    False,
    "Whether translations are drawn from the model's distribution: --n_best samples of "
    "each line. The model must be exported with --sample.",
)
_SEED = flags.DEFINE_integer(
    "seed",
    None,
    "Seed of the random numbers of --sample, from 0 to 2^31 - 1. Default: 1.",
)
_PREFIX = flags.DEFINE_string(
    "prefix",
    None,
    "Beginnings of the translations: a file with one for each line of --input, or "
    "the word column if each line has one after a tab. An empty one forces nothing. "
    "The model must be exported with --prefix.",
)
_BEAM_SIZE = flags.DEFINE_integer(
    "beam_size",
    None,
    "Beam size: hypotheses kept at each step of the search. Default: that of the "
    "export.",
)
_ALPHA = flags.DEFINE_float(
    "alpha",
    None,
    "Strength of the length penalty. Default: that of the export. A server that "
    "joins requests also needs --beam_size.",
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "Maximum number of tokens of a translation. Default: that of the export. A "
    "server that joins requests also needs --beam_size.",
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 32, "Maximum number of lines in a request."
)
_CONCURRENCY = flags.DEFINE_integer("concurrency", 4, "Number of requests at a time.")
_LINES_AT_ONCE = flags.DEFINE_integer(
    "lines_at_once",
    1024,
    "Number of lines that are read, sorted by length, and translated "
    "together. Set this and --concurrency to 1 for interactive use.",
)
_TIMEOUT_SECONDS = flags.DEFINE_float(
    "timeout_seconds", 60.0, "Maximum time of a request in seconds, including retries."
)
_RETRIES = flags.DEFINE_integer(
    "retries",
    6,
    "Maximum number of retries of a request when the server is busy or unreachable.",
)
_SSL_CA_FILE = flags.DEFINE_string(
    "ssl_ca_file",
    None,
    "File of certificates (PEM) to verify the server with, for TLS. "
    "Default: a connection without TLS.",
)
_SSL_CERT_FILE = flags.DEFINE_string(
    "ssl_cert_file",
    None,
    "File of the client's own certificate (PEM), for a server that verifies its "
    "clients (client_verify). Needs --ssl_key_file and --ssl_ca_file.",
)
_SSL_KEY_FILE = flags.DEFINE_string(
    "ssl_key_file", None, "File of the private key (PEM) of --ssl_cert_file."
)
_MAX_MESSAGE_BYTES = flags.DEFINE_integer(
    "max_message_bytes",
    64 * 2**20,
    "Maximum size of a request and of a response, in bytes.",
)


def main() -> None:
    """Translates, or scores."""
    # Imported here to keep gRPC out of --help.
    from t2t_keras.serving.client import translation_client as tc
    from t2t_keras.serving.client.calls import ModelSpec, RetryPolicy
    from t2t_keras.serving.client.connection import read_credentials
    from t2t_keras.serving.client.file_translation import FileTranslation

    server = program.require_flag("server")
    files = FileTranslation(
        input=_INPUT.value,
        output=_OUTPUT.value,
        target=_TARGET.value,
        n_best=_N_BEST.value,
        scores=_SCORES.value,
        sample=_SAMPLE.value,
        seed=_SEED.value,
        prefix=_PREFIX.value,
        options=tc.SearchOptions(_BEAM_SIZE.value, _ALPHA.value, _MAX_LENGTH.value),
        signature_name=_SIGNATURE.value,
        batch_size=_BATCH_SIZE.value,
        concurrency=_CONCURRENCY.value,
        lines_at_once=_LINES_AT_ONCE.value,
    )
    client = tc.TranslationClient(
        server,
        ModelSpec(_MODEL_NAME.value, _MODEL_VERSION.value, _VERSION_LABEL.value),
        timeout_seconds=_TIMEOUT_SECONDS.value,
        retry=RetryPolicy(_RETRIES.value),
        credentials=read_credentials(
            _SSL_CA_FILE.value, _SSL_CERT_FILE.value, _SSL_KEY_FILE.value
        ),
        max_message_bytes=_MAX_MESSAGE_BYTES.value,
    )
    # Counted only for a visible progress bar: it takes a second pass over the file.
    total = files.count_lines() if sys.stderr.isatty() else None
    with client, program.progress_bar(total, "sentences") as bar:
        files.translate(client, _warn, bar.update)


def _warn(message: str) -> None:
    # A plain print could break into the line of the progress bar.
    tqdm.tqdm.write(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    program.run(main, __doc__ or "", with_tensorflow=False)
