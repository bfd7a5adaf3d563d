"""The API as a server of its own, before a gRPC server of the models."""

import contextlib
import logging
from collections.abc import Iterator

from anyio.from_thread import start_blocking_portal

from t2t_keras.files import descriptors
from t2t_keras.files.signals import SignalWaiter
from t2t_keras.server.http.server import HttpServer
from t2t_keras.server.translation_api.app import translation_app
from t2t_keras.server.translation_api.backend import GrpcBackend
from t2t_keras.server.translation_api.settings import TranslationApiSettings

logger = logging.getLogger(__name__)

# By default Kubernetes kills 30 seconds after SIGTERM.
_GRACE_SECONDS = 25


@contextlib.contextmanager
def running_translation_api(settings: TranslationApiSettings) -> Iterator[int]:
    """Yields the port of a server that answers; drains it at the end.

    Raises:
        UserError: If the port is taken, or a setting or file cannot be used.
    """
    with GrpcBackend(settings) as backend, start_blocking_portal() as portal:
        app = translation_app(backend, settings)
        server = HttpServer(app, settings.host, settings.port, _GRACE_SECONDS)
        port = portal.call(server.start)
        try:
            yield port
        finally:
            portal.call(server.stop)


def serve_translation_api(settings: TranslationApiSettings) -> int:
    """Serves until SIGINT or SIGTERM; returns the signal's number.

    To be called in the main thread. Errors are those of `running_translation_api`.
    """
    descriptors.allow_many()
    with running_translation_api(settings) as port:
        signals = SignalWaiter()
        logger.info(describe_translation_api(settings, port))
        return signals.wait()


def describe_translation_api(settings: TranslationApiSettings, port: int) -> str:
    """Returns a line about a server that answers."""
    pairs = ", ".join(f"{each.source} to {each.target}" for each in settings.pairs)
    return f"translation API of {pairs} on port {port}"
