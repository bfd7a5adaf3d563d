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

import sys

import tqdm
from absl import flags

from t2t_keras.settings import program

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
    from t2t_keras.serving.client import translation_client as tc
    from t2t_keras.serving.client.calls import ServedModel
    from t2t_keras.serving.client.credentials import read_credentials
    from t2t_keras.serving.client.file_translation import FileTranslation
    from t2t_keras.serving.client.retries import RetryPolicy

    server = program.required("server")
    files = FileTranslation(
        input=_INPUT.value,
        output=_OUTPUT.value,
        target=_TARGET.value,
        n_best=_N_BEST.value,
        scores=_SCORES.value,
        options=tc.SearchOptions(_BEAM_SIZE.value, _ALPHA.value, _MAX_LENGTH.value),
        signature_name=_SIGNATURE.value,
        batch_size=_BATCH_SIZE.value,
        concurrency=_CONCURRENCY.value,
        lines_at_once=_LINES_AT_ONCE.value,
    )
    client = tc.TranslationClient(
        server,
        ServedModel(_MODEL_NAME.value, _MODEL_VERSION.value, _VERSION_LABEL.value),
        timeout_seconds=_TIMEOUT_SECONDS.value,
        retry=RetryPolicy(_RETRIES.value),
        credentials=read_credentials(_SSL_CA_FILE.value),
        max_message_bytes=_MAX_MESSAGE_BYTES.value,
    )
    # Counted for a person who looks: it takes a second pass over the file.
    total = files.count_lines() if sys.stderr.isatty() else None
    with client, program.progress_bar(total, "sentences") as bar:
        files.translate(client, _warn, bar.update)


def _warn(message: str) -> None:
    # Not through the bar, which may be on the same line.
    tqdm.tqdm.write(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, with_tensorflow=False)
