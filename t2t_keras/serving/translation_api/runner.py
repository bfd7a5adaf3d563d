"""The API as a server of its own, before a gRPC server of the models."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn

from t2t_keras.errors import UserError
from t2t_keras.files.signals import SignalWaiter
from t2t_keras.serving.translation_api.app import translation_app
from t2t_keras.serving.translation_api.backend import GrpcBackend
from t2t_keras.serving.translation_api.settings import TranslationApiSettings

# By default Kubernetes kills 30 seconds after SIGTERM.
_GRACE_SECONDS = 25


@contextlib.contextmanager
def running_translation_api(settings: TranslationApiSettings) -> Iterator[int]:
    """Yields the port of a server that answers; drains it at the end.

    Args:
        settings: Language pairs, addresses and limits.

    Raises:
        UserError: If the port is taken, or a setting or file cannot be used.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(settings))
        backend = stack.enter_context(GrpcBackend(settings))
        server = uvicorn.Server(
            uvicorn.Config(
                translation_app(backend, settings),
                log_config=None,
                access_log=False,
                # It would believe X-Forwarded-For from this machine.
                proxy_headers=False,
                server_header=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join()

        stack.callback(stop)
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield listener.getsockname()[1]


def serve_translation_api(
    settings: TranslationApiSettings, log: Callable[[str], object]
) -> int:
    """Serves until SIGINT or SIGTERM; returns the signal's number.

    To be called in the main thread. Errors are those of `running_translation_api`.

    Args:
        settings: Language pairs, addresses and limits.
        log: Called with a line when it is ready.
    """
    with running_translation_api(settings) as port:
        signals = SignalWaiter()
        pairs = ", ".join(f"{each.source} to {each.target}" for each in settings.pairs)
        log(f"translating {pairs} on http://{settings.host}:{port}")
        return signals.wait()


def _listen(settings: TranslationApiSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = settings.host, settings.port
    try:
        return socket.create_server(address, family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Cannot listen on {settings.host}:{settings.port}: {error}. Choose "
            "another port with --translation_api_port, or 0 for any free one."
        ) from error
