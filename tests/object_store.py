"""Object store in memory, of one test alone, whose requests fail as they are told."""

import collections
import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from t2t_keras.files import remote


@dataclasses.dataclass
class Fault:
    """What happens to the next requests of a method, about names with an ending."""

    method: str
    ending: str
    times: int
    error: BaseException | None
    cut: int | None
    """Bytes after which a transfer ends, with the error or as if it were complete."""


class HttpError(Exception):
    """An error as gcsfs and aiohttp raise them, with a status of HTTP."""

    def __init__(self, status: int):
        super().__init__(f"status {status}")
        self.code = status


class ClientError(Exception):
    """An error as botocore raises them."""

    def __init__(self, status: int):
        super().__init__(f"status {status}")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class FaultyStore(MemoryFileSystem):
    """Contents are in `store` of the instance, unlike those of its class."""

    cachable = False
    store: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.store = {}
        self.pseudo_dirs = [""]
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.ranges: list[tuple[int | None, int | None]] = []
        self.drawn: random.Random | None = None
        """Draws faults all the time, never five about a name one after another."""
        self._in_a_row: collections.Counter[str] = collections.Counter()
        self._written: dict[str, bool] = {}

    def fail(
        self,
        method: str,
        error: BaseException | None = None,
        *,
        ending: str = "",
        times: int = 1,
        cut: int | None = None,
    ) -> None:
        """Lets the next requests fail, or end early."""
        self.faults.append(Fault(method, ending, times, error, cut))

    def names(self) -> list[str]:
        """Returns the names of all objects."""
        return sorted(self.store)

    def contents(self, folder: str) -> dict[str, bytes]:
        """Returns the contents of all objects below a folder, by name."""
        begin = self._strip_protocol(folder) + "/"
        return {
            name.removeprefix(begin): file.getvalue()
            for name, file in self.store.items()
            if name.startswith(begin)
        }

    def _next_fault(self, method: str, path: str) -> Fault | None:
        self.requests.append((method, path))
        if self.drawn is not None:
            return self._draw(method, path)
        for fault in self.faults:
            is_meant = fault.method == method and path.endswith(fault.ending)
            if is_meant and fault.times:
                fault.times -= 1
                return fault
        return None

    def _draw(self, method: str, path: str) -> Fault | None:
        is_faulty = self._in_a_row[path] < 4 and self.drawn.random() < 0.2
        if method == "put_file":
            self._written[path] = not is_faulty
        if is_faulty:
            self._in_a_row[path] += 1
            errors = [HttpError(429), HttpError(500), ConnectionResetError()]
            cut = None
            if method in ("cat_file", "put_file"):
                cut = self.drawn.randrange(99)
                errors.append(None)
            return Fault(method, "", 1, self.drawn.choice(errors), cut)
        # An upload has succeeded when a look at its result has.
        if method != "put_file" and self._written.get(path, True):
            self._in_a_row[path] = 0
        return None

    def _simple(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        fault = self._next_fault(method, path)
        if fault is not None and fault.error is not None:
            raise fault.error
        return call()

    def info(self, path, **settings):
        return self._simple(
            "info", path, lambda: MemoryFileSystem.info(self, path, **settings)
        )

    def find(self, path, **settings):
        return self._simple(
            "find", path, lambda: MemoryFileSystem.find(self, path, **settings)
        )

    def rm_file(self, path):
        return self._simple(
            "rm_file", path, lambda: MemoryFileSystem.rm_file(self, path)
        )

    def cat_file(self, path, start=None, end=None, **settings):
        fault = self._next_fault("cat_file", path)
        self.ranges.append((start, end))
        if fault is not None and fault.error is not None:
            raise fault.error
        content = super().cat_file(path, start=start, end=end, **settings)
        return content if fault is None else content[: fault.cut]

    def put_file(self, lpath, rpath, **settings):
        fault = self._next_fault("put_file", rpath)
        content = Path(lpath).read_bytes()
        if fault is None:
            self.pipe_file(rpath, content)
            return
        if fault.cut is not None:  # worse than a real one, which then has nothing
            self.pipe_file(rpath, content[: fault.cut])
        if fault.error is not None:
            raise fault.error


def use(monkeypatch) -> FaultyStore:
    """Returns a store that `memory://` reaches during a test; waits take no time."""
    store = FaultyStore()
    monkeypatch.setattr(remote, "_file_system", lambda _: store)
    monkeypatch.setattr(remote, "_WAITS", (0.0, 0.0, 0.0, 0.0))
    return store
