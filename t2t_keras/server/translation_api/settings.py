"""Settings of the translation API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t2t_keras.errors import UserError, check_at_least
from t2t_keras.server.translation_api.language_pairs import (
    LanguagePair,
    Languages,
    parse_models,
)
from t2t_keras.text.word_alignments import parse_alignment_heads


@dataclass(frozen=True)
class TranslationApiSettings:
    """Models, addresses and limits of the API. A limit of -1 is no limit.

    Attributes:
        pairs: Language pairs and their models: see `parse_models`.
        server: host:port of the gRPC server of the models.
        ssl_ca_file: Certificates (PEM) by which it is trusted; "" for no TLS.
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
        timeout_seconds: Maximum time of a call to the server of the models.
        retries: Maximum number of times that a call is repeated.
        batch_size: Maximum number of sentences in a call.
        concurrency: Calls at a time for one request.
        threads: Requests that are worked on at a time.
        max_waiting: Further requests that may wait; others get status 503.
        char_limit: Maximum number of characters of a text.
        batch_limit: Maximum number of texts in a request.
        alternatives_limit: Maximum of the parameter `alternatives`.
        max_body_bytes: Maximum size of a request's body.
        body_timeout_seconds: Maximum time in which a body arrives.
        requests_per_minute: Requests of one client within any minute.
        api_keys_file: File of API keys; "" for none.
        require_api_key: Whether requests without a key are refused if there is a file.
        trust_forwarded_for: Whether the last address in the header X-Forwarded-For is
            the client's, as a reverse proxy writes it.
        alignment_heads: Heads that align words, as `LAYER:HEAD,...`; "" for all heads
            of the last layer but one, or of the only layer.

    Raises:
        UserError: If a value is invalid.
    """

    pairs: tuple[LanguagePair, ...]
    server: str = "localhost:8500"
    ssl_ca_file: str = ""
    host: str = "127.0.0.1"
    port: int = 5000
    timeout_seconds: float = 60.0
    retries: int = 2
    batch_size: int = 32
    concurrency: int = 2
    threads: int = 64
    max_waiting: int = 128
    char_limit: int = -1
    batch_limit: int = -1
    alternatives_limit: int = -1
    max_body_bytes: int = 16 * 2**20
    body_timeout_seconds: float = 30.0
    requests_per_minute: int = -1
    api_keys_file: str = ""
    require_api_key: bool = True
    trust_forwarded_for: bool = False
    alignment_heads: str = ""

    def __post_init__(self) -> None:
        Languages(self.pairs)
        check_at_least(
            1,
            batch_size=self.batch_size,
            concurrency=self.concurrency,
            threads=self.threads,
            max_body_bytes=self.max_body_bytes,
        )
        check_at_least(0, retries=self.retries, max_waiting=self.max_waiting)
        if not 0 <= self.port < 2**16:
            raise UserError(
                f"translation_api_port must be from 0 to 65535. Received: {self.port}"
            )
        for name in ("timeout_seconds", "body_timeout_seconds"):
            if not getattr(self, name) > 0:
                value = getattr(self, name)
                raise UserError(f"{name} must be positive. Received: {value}")
        for name in ("char_limit", "batch_limit", "requests_per_minute"):
            self._check_limit(name, 1)
        self._check_limit("alternatives_limit", 0)
        if self.alignment_heads:
            parse_alignment_heads(self.alignment_heads)

    def _check_limit(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if value != -1 and value < minimum:
            raise UserError(
                f"{name} must be at least {minimum}, or -1 for no limit. "
                f"Received: {value}"
            )


@dataclass(frozen=True)
class TranslationApiFlags:
    """Settings of the API before its models are known.

    Attributes:
        language_pairs: Models and their languages: see `parse_models`.
        base_paths: Directory of the versions of each model on this machine.
        others: Other settings by name.
    """

    language_pairs: str
    base_paths: Mapping[str, str]
    others: Mapping[str, Any]

    def complete(self, server: str) -> TranslationApiSettings:
        """Returns the settings for a gRPC server of the models.

        Raises:
            UserError: If one is invalid, or the languages of a model are not known.
        """
        pairs = parse_models(self.language_pairs, self.base_paths)
        return TranslationApiSettings(pairs=pairs, server=server, **self.others)
