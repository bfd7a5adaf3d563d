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
from t2t_keras.server.translation_api.options import ApiOptions
from t2t_keras.text.word_alignments import parse_alignment_heads


@dataclass(frozen=True)
class TranslationApiSettings(ApiOptions):
    """Models, addresses and limits of the API.

    Attributes:
        pairs: Language pairs and their models: see `parse_models`.
        server: host:port of the gRPC server of the models.
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
        retries: Maximum number of times that a call is repeated.
        batch_size: Maximum number of sentences in a call.
        concurrency: Calls at a time for one request.
        threads: Requests that are worked on at a time.
        max_waiting: Further requests that may wait; others get status 503.
        max_body_bytes: Maximum size of a request's body.
        body_timeout_seconds: Maximum time in which a body arrives.
        access_log: Whether each request is logged.

    Raises:
        UserError: If a value is invalid.
    """

    pairs: tuple[LanguagePair, ...] = ()
    server: str = "localhost:8500"
    host: str = "127.0.0.1"
    port: int = 5000
    retries: int = 2
    batch_size: int = 32
    concurrency: int = 2
    threads: int = 64
    max_waiting: int = 128
    max_body_bytes: int = 16 * 2**20
    body_timeout_seconds: float = 30.0
    access_log: bool = False

    def check(self) -> None:
        super().check()
        Languages(self.pairs)
        check_at_least(
            1,
            batch_size=self.batch_size,
            concurrency=self.concurrency,
            threads=self.threads,
            max_body_bytes=self.max_body_bytes,
        )
        check_at_least(0, retries=self.retries, max_waiting=self.max_waiting)
        if not self.body_timeout_seconds > 0:
            raise UserError(
                "body_timeout_seconds must be positive. Received: "
                f"{self.body_timeout_seconds}"
            )
        if self.alignment_heads:
            parse_alignment_heads(self.alignment_heads)


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
