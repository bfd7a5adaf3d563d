"""Models behind the API: calls to a gRPC server of exports."""

import logging
from collections.abc import Sequence

import grpc

from t2t_keras.server.http.requests import HttpError
from t2t_keras.server.translation_api.language_pairs import LanguagePair
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.serving.client.calls import ModelSpec, RetryPolicy
from t2t_keras.serving.client.connection import read_credentials
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.translation_client import (
    CrossAttention,
    TargetScore,
    TranslatedText,
    TranslationClient,
)

logger = logging.getLogger(__name__)

# Seconds after which a client may try again when the server had no time for it.
BUSY_SECONDS = 1


class GrpcBackend:
    """Models of language pairs, on a server of TensorFlow Serving or `t2t_keras.serve`.

    Methods block, are called from threads, and raise `ServerError`. Sentences of a call
    fit one batch. The first call connects.

    Raises:
        UserError: If the address or the file of certificates cannot be used.
    """

    def __init__(self, settings: TranslationApiSettings):
        credentials = read_credentials(settings.ssl_ca_file)
        self._clients = {
            name: TranslationClient(
                settings.server,
                ModelSpec(name),
                timeout_seconds=settings.timeout_seconds,
                retry=RetryPolicy(settings.retries),
                credentials=credentials,
            )
            for name in {pair.model for pair in settings.pairs}
        }

    def __enter__(self) -> "GrpcBackend":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, and every call that waits."""
        for client in self._clients.values():
            client.close()

    def _client(self, pair: LanguagePair) -> TranslationClient:
        """Returns the client of the model of a pair, for its languages."""
        client = self._clients[pair.model]
        return client if pair.codes is None else client.for_languages(*pair.codes)

    def translate(
        self, pair: LanguagePair, sentences: Sequence[str | bytes]
    ) -> list[TranslatedText]:
        """Returns the best translation of each sentence."""
        return self._client(pair).translate(sentences)

    def translate_n_best(
        self, pair: LanguagePair, sentences: Sequence[str | bytes]
    ) -> list[list[TranslatedText]]:
        """Returns as many translations of each as the export gives, best first."""
        return self._client(pair).translate_n_best(sentences)

    def force_terms(
        self,
        pair: LanguagePair,
        sentences: Sequence[str | bytes],
        terms: Sequence[Sequence[str]],
    ) -> list[list[TranslatedText]]:
        """Returns as many translations of each as the export gives, with its terms.

        Raises:
            HttpError: If the model was exported without the signature.
        """
        try:
            return self._client(pair).translate_n_best(sentences, terms=terms)
        except ServerError as error:
            if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            logger.warning("a glossary was refused: %s", error)
            text = "The model of these languages takes no glossary."
            raise HttpError(400, text) from error

    def attention(
        self, pair: LanguagePair, sources: Sequence[str], targets: Sequence[str]
    ) -> list[CrossAttention]:
        """Returns the attention of each target to its source."""
        return self._client(pair).attention(sources, targets)

    def score(
        self, pair: LanguagePair, sources: Sequence[str], targets: Sequence[str]
    ) -> list[TargetScore]:
        """Returns how likely each target is as a translation of its source."""
        return self._client(pair).score(sources, targets)


def backend_error(error: ServerError) -> HttpError:
    """Returns what a client is told about an error of the server of the models.

    The texts do not repeat the server's: those name machines, ports and flags.
    """
    codes = grpc.StatusCode
    if error.code is codes.DEADLINE_EXCEEDED:
        text = "The translation took too long. Send a shorter text, or try again."
        return HttpError(504, text)
    if error.code is codes.RESOURCE_EXHAUSTED:
        text = "Slowdown: the server of the models has too many requests. Try again."
        return HttpError(429, text, BUSY_SECONDS)
    if error.code in (codes.UNAVAILABLE, codes.CANCELLED):
        text = "The server of the models is not reachable or overloaded. Try again."
        return HttpError(503, text, BUSY_SECONDS)
    if error.code in (codes.NOT_FOUND, codes.FAILED_PRECONDITION):
        text = "The model of these languages is not loaded, or is of another kind."
        return HttpError(503, text)
    return HttpError(500, "Cannot translate text: the server of the models failed.")
