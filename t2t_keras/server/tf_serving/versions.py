"""Versions of one model: loaded, used, replaced without a gap, unloaded."""

import contextlib
import enum
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from t2t_keras.server.tf_serving.errors import ServingError, from_exception, not_found
from t2t_keras.server.tf_serving.loading import Servable

logger = logging.getLogger(__name__)


class State(enum.IntEnum):
    """State of a version; numbered as in `ModelVersionStatus`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(eq=False)
class Version:
    """A version, as long as the server knows of it.

    Attributes:
        number: Version number, the name of its directory.
        directory: Path of its directory.
        state: State of loading or unloading.
        error: Error of the last attempt, if no other follows.
        servable: Loaded model, from AVAILABLE to UNLOADING.
        wanted: Whether the policy still asks for it.
        users: Number of requests that are using it.
    """

    number: int
    directory: Path
    state: State = State.START
    error: ServingError | None = None
    servable: Servable | None = None
    wanted: bool = True
    users: int = 0

    def is_inactive(self) -> bool:
        """Returns whether it neither answers requests nor may be finishing some."""
        return self.state not in (State.AVAILABLE, State.UNLOADING)


@dataclass(frozen=True)
class Retries:
    """Retries of a version that failed to load.

    Attributes:
        count: Maximum number of attempts after the first.
        interval_seconds: Seconds between attempts.
    """

    count: int = 5
    interval_seconds: float = 60.0


class ModelVersions:
    """The versions of a model.

    Unwanted versions are unloaded once a wanted version is available, or if none is
    wanted; until then the newest stays. Requests that are using a version are finished
    first.

    Args:
        name: Name of the model.
        load: Function that loads the version in a directory.
        retries: Retries after it failed.
        changed: Held while states change, notified when they have.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[Path], Servable],
        retries: Retries,
        changed: threading.Condition,
    ):
        self.name = name
        self._load = load
        self._retries = retries
        self._changed = changed
        self._versions: dict[int, Version] = {}

    def want(self, directories: Mapping[int, Path]) -> None:
        """Sets the wanted versions, and starts to load and unload accordingly.

        A version whose loading failed for good is loaded again only after its
        directory was missing. One whose directory was missing while it was loading is
        loaded from the start: the files read so far may be of another directory.
        """
        with self._changed:
            for number, version in self._versions.items():
                if number not in directories:
                    version.wanted = False
            for number, directory in directories.items():
                known = self._versions.get(number)
                if known is None or (not known.wanted and known.is_inactive()):
                    version = Version(number, directory)
                    self._versions[number] = version
                    self._start(self._load_with_retries, version)
                elif known.state < State.UNLOADING:
                    known.wanted = True
            self._retire()
            self._changed.notify_all()

    @contextlib.contextmanager
    def use(self, number: int | None) -> Iterator[tuple[int, Servable]]:
        """Yields a version's number and its model, which stays loaded until the exit.

        Without a number, that is the largest version that is available.

        Raises:
            ServingError: NOT_FOUND if it is not available.
        """
        with self._changed:
            numbers = self.available()
            chosen = max(numbers, default=None) if number is None else number
            if chosen is None or chosen not in numbers:
                raise no_servable(self.name, number)
            version = self._versions[chosen]
            version.users += 1
        try:
            if version.servable is None:
                raise AssertionError("an available version can answer")
            yield version.number, version.servable
        finally:
            with self._changed:
                version.users -= 1
                if not version.users:
                    self._changed.notify_all()

    def cut_off(self) -> None:
        """Ends the requests that keep versions from being unloaded."""
        with self._changed:
            versions = self._versions.values()
            servables = [v.servable for v in versions if v.state is State.UNLOADING]
        for servable in servables:
            if servable is not None:
                servable.close()

    def available(self) -> list[int]:
        """Returns the numbers of the versions that can answer."""
        with self._changed:
            return [
                version.number
                for version in self._versions.values()
                if version.state is State.AVAILABLE
            ]

    def versions(self) -> list[Version]:
        """Returns all versions that were ever known, the largest number first."""
        with self._changed:
            return sorted(self._versions.values(), key=lambda v: -v.number)

    def _start(self, target: Callable[[Version], None], version: Version) -> None:
        name = f"{self.name}-{version.number}"
        threading.Thread(target=target, args=(version,), name=name, daemon=True).start()

    def _load_with_retries(self, version: Version) -> None:
        """Loads a version; retries while it is wanted."""
        failure = None
        self._log_version(version, f"loading from {version.directory} …")
        for left in range(self._retries.count, -1, -1):
            with self._changed:
                if not version.wanted:
                    break
                version.state = State.LOADING
                self._changed.notify_all()
            start = time.monotonic()
            try:
                servable = self._load(version.directory)
            except Exception as error:
                failure = from_exception(error)
                self._report_failure(version, failure, left)
                if left:
                    self._pause(version)
                continue
            with self._changed:
                version.servable = servable
                # A version that is no longer wanted replaces none.
                late = not version.wanted
                version.state = State.UNLOADING if late else State.AVAILABLE
                seconds = time.monotonic() - start
                self._log_version(version, f"loaded in {seconds:.1f} s")
                self._retire()
                self._changed.notify_all()
            if late:
                self._unload(version)
            return
        with self._changed:
            version.error = failure
            version.state = State.END
            self._changed.notify_all()

    def _report_failure(
        self, version: Version, failure: ServingError, left: int
    ) -> None:
        next_step = "giving up"
        if left:
            next_step = f"trying again in {self._retries.interval_seconds:g} s"
        self._log_version(version, f"could not be loaded: {failure}; {next_step}")

    def _pause(self, version: Version) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: not version.wanted, self._retries.interval_seconds
            )

    def _retire(self) -> None:
        """Starts to unload unwanted versions that no wanted one has to wait for."""
        versions = self._versions.values()
        wanted = [version for version in versions if version.wanted]
        available = [v for v in versions if v.state is State.AVAILABLE]
        old = sorted((v for v in available if not v.wanted), key=lambda v: v.number)
        if wanted and not any(version.wanted for version in available):
            # The newest of them stays until then, as in TensorFlow Serving.
            old = old[:-1]
        for version in old:
            version.state = State.UNLOADING
            self._start(self._unload, version)

    def _unload(self, version: Version) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not version.users)
            servable, version.servable = version.servable, None
        if servable is not None:
            servable.close()
        with self._changed:
            version.state = State.END
            self._log_version(version, "unloaded")
            self._changed.notify_all()

    def _log_version(self, version: Version, what: str) -> None:
        logger.info(f"{self.name} version {version.number} {what}")


def no_servable(name: str, number: int | None) -> ServingError:
    """Returns the error of a request for a version that cannot answer."""
    wanted = f"Latest({name})" if number is None else f"Specific({name}, {number})"
    return not_found(f"Servable not found for request: {wanted}")
