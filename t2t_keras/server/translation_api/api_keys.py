"""API keys from a file, read again when it changes."""

import hashlib
import hmac
import logging
from dataclasses import dataclass
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.lines import read_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiKey:
    """Key of a client.

    Attributes:
        digest: SHA-256 of the key.
        requests_per_minute: Its own limit; None for that of the settings.
    """

    digest: bytes
    requests_per_minute: int | None = None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(path: str) -> tuple[ApiKey, ...]:
    """Returns the keys of a file: one a line, perhaps with its requests per minute.

    Empty lines and what follows a "#" at the begin of a line or after white space are
    ignored.

    Raises:
        UserError: If the file cannot be read, a line is malformed, or a key is there
            twice.
    """
    keys: dict[bytes, ApiKey] = {}
    text = read_text(path, f"--api_keys_file={path}", "UTF-8")
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        comment = next((i for i, w in enumerate(words) if w.startswith("#")), None)
        words = words[:comment]
        if not words:
            continue
        limit = words[1] if len(words) == 2 else "-1"
        if len(words) > 2 or not (limit == "-1" or (limit.isdecimal() and int(limit))):
            # Not the line itself: the message may go to a log.
            raise UserError(
                f"Line {number} of --api_keys_file={path} must be a key, and perhaps "
                "the requests per minute of that key: a positive number, or -1 for no "
                f"limit. Received: {len(words)} words"
            )
        key = ApiKey(_digest(words[0]), int(limit) if len(words) == 2 else None)
        if key.digest in keys:
            raise UserError(f"Line {number} of --api_keys_file={path} repeats a key.")
        keys[key.digest] = key
    return tuple(keys.values())


class ApiKeyFile:
    """Keys of a file. A change takes effect with the next request.

    If a changed file cannot be used, the keys before it stay, and the log says why.

    Raises:
        UserError: If the file cannot be used at the start.
    """

    def __init__(self, path: str):
        self._path = path
        self._state = self._file_state()
        self._keys = read_keys(path)

    def find(self, key: str) -> ApiKey | None:
        """Returns a key of the file, None if it is not there.

        The time does not depend on how much of a key is right.
        """
        self._read_again()
        digest, found = _digest(key), None
        for each in self._keys:
            if hmac.compare_digest(each.digest, digest):
                found = each
        return found

    def _read_again(self) -> None:
        state = self._file_state()
        if state == self._state:
            return
        self._state = state
        try:
            self._keys = read_keys(self._path)
        except UserError as error:
            logger.error("%s The keys before the change stay valid.", error)

    def _file_state(self) -> tuple[int, int, int] | None:
        try:
            status = Path(self._path).stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
