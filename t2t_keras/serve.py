"""Serves exports over gRPC like tensorflow_model_server, for development and tests.

    python -m t2t_keras.serve --model_base_path=runs/tiny/export --model_name=translate
    python -m t2t_keras.serve --model_config_file=models.config --port=8500 \\
        --rest_api_port=8501 --enable_batching \\
        --batching_parameters_file=batching.config
    python -m t2t_keras.serve --server=tensorflow-serving:8500 \\
        --translation_api_port=5000 --language_pairs=translate:en:de

Services, flags and files are those of TensorFlow Serving. In production, start
tensorflow_model_server with the same flags; clients see no difference. The translation
API, LibreTranslate's interface, is for either server.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_keras.errors import UserError, require_extra
from t2t_keras.files.signals import Interrupted
from t2t_keras.server.tf_serving.other_flags import (
    IgnoredFlags,
    UnsupportedFlags,
    check_other_flags,
)
from t2t_keras.server.tf_serving.settings import (
    GATEWAY,
    MODELS,
    ServerSettings,
    base_path_flag,
    exports_below,
)
from t2t_keras.server.translation_api.options import ApiOptions
from t2t_keras.settings import program
from t2t_keras.settings.flags import check_use, define_flags
from t2t_keras.settings.setting import Settings, setting

if TYPE_CHECKING:
    from t2t_keras.server.translation_api.settings import TranslationApiFlags

# Below the package's, also where this module is run as a program.
logger = logging.getLogger("t2t_keras.serve")


@dataclass(frozen=True)
class ServeOptions(Settings):
    """The translation API, beside the models or before another server's."""

    translation_api_port: int | None = setting(
        None,
        "Port of the translation API, LibreTranslate's interface, with a page at / to "
        "translate by hand; 0 for any free port. Default: none.",
        low=0,
        high=65_535,
    )
    server: str | None = setting(
        None,
        "host:port of another server, TensorFlow Serving for example, whose models the "
        "translation API calls by gRPC. No model is loaded here.",
    )
    language_pairs: str = setting(
        "",
        "Models of the translation API with their languages, such as "
        "translate:en:de,other:de:en. Default: all models here, with the languages of "
        "their exports; with --server, --model_name whose export is --model_base_path.",
    )
    version: bool = setting(False, "Whether to print the version and end.")

    def check(self) -> None:
        if self.server and self.translation_api_port is None:
            raise UserError("--server needs --translation_api_port.")


_SERVER = define_flags(ServerSettings, uses={"": (MODELS,)})
_OPTIONS = define_flags(ServeOptions)
_API = define_flags(ApiOptions)
_IGNORED = define_flags(IgnoredFlags)
_UNSUPPORTED = define_flags(UnsupportedFlags)


def main(_: Sequence[str]) -> int:
    """Serves until a signal arrives, then exits with the status of the signal."""
    options = _OPTIONS.read()
    api = _translation_api(options)
    if options.server and api is not None:
        from t2t_keras.server.translation_api.runner import serve_translation_api

        number = serve_translation_api(api.complete(options.server))
    else:
        from t2t_keras.server.tf_serving.development_server import serve_until_signal

        number = serve_until_signal(_SERVER.read(), api)
    print(Interrupted(number), file=sys.stderr, flush=True)
    # A thread of gRPC, or of a version that is still loading, may be in native code. If
    # it returned after Python has ended, it would abort the process.
    os._exit(128 + number)


def _translation_api(options: ServeOptions) -> "TranslationApiFlags | None":
    """Returns the settings of the translation API; None without it."""
    if options.translation_api_port is None:
        return None
    # Imported here to keep it out of --help.
    from t2t_keras.server.translation_api.settings import TranslationApiFlags

    server = _SERVER.values()
    others = {
        **_API.values(),
        "port": options.translation_api_port,
        "host": server["host"],
        "max_body_bytes": server["max_body_bytes"],
        "access_log": server["access_log"],
    }
    path = server["model_base_path"]
    paths = {server["model_name"]: path} if path else {}
    return TranslationApiFlags(options.language_pairs, paths, others)


def _print_line(line: str) -> None:
    # A closed standard output, or a full disk, must not end a server.
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _check(arguments: Sequence[str]) -> None:
    """Raises `UserError` if flags are invalid; else logs that the program starts."""
    options = _OPTIONS.read()
    if options.version:
        print(program.VERSION_LINE)
        sys.exit(0)
    require_extra("t2t_keras.serve", "serve")
    if arguments:
        flag = base_path_flag(exports_below(Path(arguments[0])))
        raise UserError(
            f"Arguments are given as flags. Received: {' '.join(arguments)}. "
            f"Do you mean {flag}?"
        )
    api, lines = _translation_api(options), []
    if options.server and api is not None:
        check_use([_SERVER], GATEWAY, "is for models, which --server has.")
        api.complete(options.server)
    else:
        _API.read()
        settings = _SERVER.read()
        settings.check_base_path()
        lines = settings.ignored()
    for line in [
        *check_other_flags(_IGNORED.given(), _UNSUPPORTED.given()),
        *lines,
    ]:
        logger.warning(line)
    logger.info("starting …")


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        takes_arguments=True,
        with_tensorflow=lambda: not _OPTIONS.read().server,
        check=_check,
        log_line=_print_line,
    )
