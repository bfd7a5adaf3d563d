"""Options of the translation API that are flags, checked before anything is loaded."""

from dataclasses import dataclass

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting


@dataclass(frozen=True)
class ApiOptions(Settings):
    """Limits of the translation API, and how it asks its models."""

    ssl_ca_file: str = setting(
        "",
        "File of certificates (PEM) to verify --server with, for TLS. Default: a "
        "connection without TLS.",
        path=True,
    )
    timeout_seconds: float = setting(
        60.0,
        "Longest time of a call of the translation API to the models, in seconds.",
    )
    alignment_heads: str = setting(
        "",
        "Attention heads that align words on the page of the translation API and in "
        "HTML, LAYER:HEAD,... with numbers from 1. Default: all of the last layer, or "
        "of the last but one if there are more than four.",
    )
    api_keys_file: str = setting(
        "",
        "File of the translation API's keys, one a line, each with a number of "
        "requests per minute of its own if one follows. It is read again when it "
        "changes.",
        path=True,
    )
    require_api_key: bool = setting(
        True,
        "Whether requests without a key are refused, if there is an --api_keys_file.",
    )
    requests_per_minute: int = setting(
        -1,
        "Requests that a client of the translation API may make within any minute; -1 "
        "for no limit.",
    )
    char_limit: int = setting(
        20_000,
        "Longest text that the translation API takes, in characters; -1 for no limit.",
    )
    batch_limit: int = setting(
        -1,
        "Maximum number of texts in a request to the translation API; -1 for no limit.",
    )
    alternatives_limit: int = setting(
        -1,
        "Maximum number of alternatives that the translation API gives; -1 for as many "
        "as the export has.",
    )
    protect: bool = setting(
        True,
        "Whether the translation API returns placeholders, tags in plain text, URLs "
        "and e-mail addresses unchanged and once each, unless a request says not to.",
    )
    trust_forwarded_for: bool = setting(
        False,
        "Whether the translation API counts clients by the last address in the header "
        "X-Forwarded-For, as a reverse proxy writes it.",
    )

    def check(self) -> None:
        if not self.timeout_seconds > 0:
            raise UserError(
                f"--timeout_seconds must be positive. Received: {self.timeout_seconds}"
            )
        for name in ("char_limit", "batch_limit", "requests_per_minute"):
            self._check_limit(name, 1)
        self._check_limit("alternatives_limit", 0)

    def _check_limit(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if value != -1 and value < minimum:
            raise UserError(
                f"--{name} must be at least {minimum}, or -1 for no limit. "
                f"Received: {value}"
            )
