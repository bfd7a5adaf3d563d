"""A file of models, read again when it has changed."""

import threading
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.serving.server.configs import read_models
from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.versions import Log


class ConfigWatch:
    """Looks at a file again and again, and hands a new list of models on.

    A file that cannot be used is said to be so once, and changes nothing.

    Args:
        path: Of the text `ModelServerConfig`.
        poll_seconds: Between two looks.
        models: What is served.
        log: Gets a line for each change.
    """

    def __init__(self, path: str, poll_seconds: float, models: Models, log: Log):
        self._path = Path(path)
        self._poll_seconds = poll_seconds
        self._models = models
        self._log = log
        self._seen = self._content()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Looks no more."""
        self._stopped.set()
        self._thread.join()

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""  # it is being replaced, or gone: no list of models either way

    def _watch(self) -> None:
        while not self._stopped.wait(self._poll_seconds):
            content = self._content()
            if content == self._seen:
                continue
            self._seen = content
            try:
                self._models.configure(read_models(str(self._path)))
                self._log(f"{self._path} was read again")
            except (ServingError, UserError) as error:
                self._log(f"{self._path} was read again and not used: {error}")
