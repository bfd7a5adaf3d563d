"""Watch of the model configuration file: its list of models is reloaded."""

import threading

from t2t_keras.errors import UserError
from t2t_keras.serving.server.configs import ModelServerConfig, read_models
from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.versions import Log


class ConfigWatch:
    """Thread that reads a file at intervals and applies its list of models.

    Every reading applies the whole list, as in TensorFlow Serving. It replaces a list
    that a client sent meanwhile, and a label that was refused because its version was
    still loading can be accepted the next time. A refusal is logged once.

    Args:
        path: File with a text `ModelServerConfig`.
        used: Content of the file when it was last applied.
        poll_seconds: Seconds between two readings.
        models: Models of the server.
        log: Called with a line for each change.
    """

    def __init__(
        self,
        path: str,
        used: ModelServerConfig,
        poll_seconds: float,
        models: Models,
        log: Log,
    ):
        self._path = path
        self._used = used
        self._poll_seconds = poll_seconds
        self._models = models
        self._log = log
        self._refusal = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(self._poll_seconds):
            try:
                self._look()
            except (ServingError, UserError) as error:
                if str(error) != self._refusal:
                    self._log(f"{self._path} was read again and not used: {error}")
                self._refusal = str(error)

    def _look(self) -> None:
        config = read_models(self._path)
        self._models.configure(config)
        if config != self._used or self._refusal:
            self._log(f"{self._path} was read again")
        self._used, self._refusal = config, ""
