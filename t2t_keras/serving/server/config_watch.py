"""A file of models, read again and again."""

import threading

from t2t_keras.errors import UserError
from t2t_keras.serving.server.configs import ModelServerConfig, read_models
from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.versions import Log


class ConfigWatch:
    """Reads a file again and again, and hands its list of models on.

    At every look, as TensorFlow Serving does: what the file says goes, whoever sent
    another list meanwhile; and what was refused once, as a label for a version that
    is still being loaded, may be taken next time. A refusal is said once.

    Args:
        path: Of the text `ModelServerConfig`.
        used: What the file held when it was last used.
        poll_seconds: Between two looks.
        models: What is served.
        log: Gets a line for each change.
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
        """Looks no more."""
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
