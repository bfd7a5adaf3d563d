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

from t2t_keras.serving.client.options import ClientOptions, FileOptions, SearchOptions
from t2t_keras.settings import program
from t2t_keras.settings.flags import define_flags

_OPTIONS = define_flags(ClientOptions)
_FILES = define_flags(FileOptions)
_SEARCH = define_flags(SearchOptions)


def main() -> None:
    """Translates, or scores."""
    # Imported here to keep gRPC out of --help.
    from t2t_keras.serving.client import translation_client as tc
    from t2t_keras.serving.client.calls import ModelSpec, RetryPolicy
    from t2t_keras.serving.client.connection import read_credentials
    from t2t_keras.serving.client.file_translation import FileTranslation

    options = _OPTIONS.read()
    search = _SEARCH.read()
    files = FileTranslation(**_FILES.values(), options=search)
    client = tc.TranslationClient(
        options.require("server"),
        ModelSpec(options.model_name, options.model_version, options.version_label),
        timeout_seconds=options.timeout_seconds,
        retry=RetryPolicy(options.retries),
        credentials=read_credentials(
            options.ssl_ca_file, options.ssl_cert_file, options.ssl_key_file
        ),
        max_message_bytes=options.max_message_bytes,
    )
    # Counted only for a visible progress bar: it takes a second pass over the file.
    total = files.count_lines() if sys.stderr.isatty() else None
    with client, program.progress_bar(total, "sentences") as bar:
        languages = options.source_language, options.target_language
        files.translate(client.for_languages(*languages), _warn, bar.update)


def _warn(message: str) -> None:
    # A plain print could break into the line of the progress bar.
    tqdm.tqdm.write(f"warning: {message}", file=sys.stderr)


def _check() -> None:
    """Raises `UserError` if flags are invalid or missing."""
    _OPTIONS.read()
    _FILES.read(options=_SEARCH.read())


if __name__ == "__main__":
    program.run(main, __doc__ or "", with_tensorflow=False, check=_check)
