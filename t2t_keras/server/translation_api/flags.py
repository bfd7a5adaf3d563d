"""Flags of the translation API, for the program that serves it."""

from typing import Any

from absl import flags

from t2t_keras.errors import UserError

# They belong to the program that defines them by calling the function.
flags.disclaim_key_flags()

# Also settings of the API by the same name.
API_FLAGS = (
    "host",
    "max_body_bytes",
    "ssl_ca_file",
    "timeout_seconds",
    "api_keys_file",
    "require_api_key",
    "requests_per_minute",
    "char_limit",
    "batch_limit",
    "alternatives_limit",
    "trust_forwarded_for",
    "alignment_heads",
)


def define_translation_api_flags() -> None:
    """Defines the flags; the program has --host, --max_body_bytes, and its models."""
    flags.DEFINE_integer(
        "translation_api_port",
        None,
        "Port of the translation API, LibreTranslate's interface, with a page at / to "
        "translate by hand; 0 for any free port. Default: none.",
        lower_bound=0,
        upper_bound=65_535,
    )
    flags.DEFINE_string(
        "server",
        None,
        "host:port of another server, TensorFlow Serving for example, whose models the "
        "translation API calls by gRPC. No model is loaded here.",
    )
    flags.DEFINE_string(
        "language_pairs",
        "",
        "Models of the translation API with their languages, such as "
        "translate:en:de,other:de:en. Default: all models here, with the languages of "
        "their exports; with --server, --model_name whose export is --model_base_path.",
    )
    flags.DEFINE_string(
        "ssl_ca_file",
        "",
        "File of certificates (PEM) to verify --server with, for TLS. Default: a "
        "connection without TLS.",
    )
    flags.DEFINE_float(
        "timeout_seconds",
        60.0,
        "Longest time of a call of the translation API to the models, in seconds.",
    )
    flags.DEFINE_string(
        "alignment_heads",
        "",
        "Attention heads that align words on the page of the translation API and in "
        "HTML, LAYER:HEAD,... with numbers from 1. Default: all of the last layer but "
        "one.",
    )
    _define_limits()


def _define_limits() -> None:
    flags.DEFINE_string(
        "api_keys_file",
        "",
        "File of the translation API's keys, one a line, each with a number of "
        "requests per minute of its own if one follows. It is read again when it "
        "changes.",
    )
    flags.DEFINE_bool(
        "require_api_key",
        True,
        "Whether requests without a key are refused, if there is an --api_keys_file.",
    )
    flags.DEFINE_integer(
        "requests_per_minute",
        -1,
        "Requests that a client of the translation API may make within any minute; -1 "
        "for no limit.",
    )
    flags.DEFINE_integer(
        "char_limit",
        -1,
        "Longest text that the translation API takes, in characters; -1 for no limit.",
    )
    flags.DEFINE_integer(
        "batch_limit",
        -1,
        "Maximum number of texts in a request to the translation API; -1 for no limit.",
    )
    flags.DEFINE_integer(
        "alternatives_limit",
        -1,
        "Maximum number of alternatives that the translation API gives; -1 for as many "
        "as the export has.",
    )
    flags.DEFINE_bool(
        "trust_forwarded_for",
        False,
        "Whether the translation API counts clients by the last address in the header "
        "X-Forwarded-For, as a reverse proxy writes it.",
    )


def read_translation_api_flags() -> tuple[Any, str]:
    """Returns the `TranslationApiFlags`, None without the API, and --server or "".

    Raises:
        UserError: If there is a server and no API.
    """
    values = flags.FLAGS.flag_values_dict()
    if values["translation_api_port"] is None:
        if values["server"]:
            raise UserError("--server needs --translation_api_port.")
        return None, ""
    # Imported here to keep it out of --help.
    from t2t_keras.server.translation_api.settings import TranslationApiFlags

    others = {name: values[name] for name in API_FLAGS}
    others["port"] = values["translation_api_port"]
    path = values["model_base_path"]
    paths = {values["model_name"]: path} if path else {}
    api = TranslationApiFlags(values["language_pairs"], paths, others)
    return api, values["server"] or ""
