"""The versions of one model: loaded, used, replaced without a gap, unloaded."""

import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from t2t_keras.serving.server.errors import ServingError, from_exception, not_found
from t2t_keras.serving.server.loading import Servable

Log = Callable[[str], None]


class State(enum.IntEnum):
    """Where a version is in its life; numbered as in `ModelVersionStatus`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(eq=False)
class Version:
    """A version, as long as the server knows of it.

    Attributes:
        number: The name of its directory.
        directory: Where it is.
        state: In its life.
        error: Why loading failed, if it did for good.
        servable: What answers, from AVAILABLE to UNLOADING.
        wanted: Whether the policy still asks for it.
        users: Requests that are using it.
    """

    number: int
    directory: Path
    state: State = State.START
    error: ServingError | None = None
    servable: Servable | None = None
    wanted: bool = True
    users: int = 0

    def is_no_answer(self) -> bool:
        """Returns whether it neither answers nor may be answering still."""
        return self.state not in (State.AVAILABLE, State.UNLOADING)


@dataclass(frozen=True)
class Retries:
    """How often, after a failure, a version is loaded again.

    Attributes:
        count: Of attempts after the first.
        interval_seconds: Between attempts.
    """

    count: int = 5
    interval_seconds: float = 60.0


class ModelVersions:
    """The versions of a model.

    Versions that are not wanted any more go when one that is wanted can answer, or when
    none is wanted; till then the newest of them stays. Requests that are using one are
    finished first.

    Args:
        name: The model's.
        load: From a directory to what answers.
        retries: If that fails.
        changed: Held while states change, notified when they have.
        log: Gets a line for each version loaded, unloaded or failed.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[Path], Servable],
        retries: Retries,
        changed: threading.Condition,
        log: Log,
    ):
        self.name = name
        self._load = load
        self._retries = retries
        self._changed = changed
        self._log = log
        self._versions: dict[int, Version] = {}

    def want(self, directories: Mapping[int, Path]) -> None:
        """Takes note of which versions there should be, and starts what it takes.

        A version whose loading failed for good is loaded again only after it has
        been away. One that was away while it was loading is begun anew: what was read
        of it may be there no more, or come from another directory.
        """
        with self._changed:
            for number, version in self._versions.items():
                if number not in directories:
                    version.wanted = False
            for number, directory in directories.items():
                known = self._versions.get(number)
                if known is None or (not known.wanted and known.is_no_answer()):
                    version = Version(number, directory)
                    self._versions[number] = version
                    self._start(self._bring_up, version)
                elif known.state < State.UNLOADING:
                    known.wanted = True
            self._retire()
            self._changed.notify_all()

    @contextlib.contextmanager
    def use(self, number: int | None) -> Iterator[tuple[int, Servable]]:
        """Yields a version's number and what answers, which stays until the exit.

        Args:
            number: Of the version; `None` for the largest there is.

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
            kept = [v.servable for v in versions if v.state is State.UNLOADING]
        for servable in kept:
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

    def _bring_up(self, version: Version) -> None:
        """Loads a version, again and again if need be."""
        failure = None
        self._say(version, f"loading from {version.directory} …")
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
                # What comes too late stands in for nobody.
                late = not version.wanted
                version.state = State.UNLOADING if late else State.AVAILABLE
                seconds = time.monotonic() - start
                self._say(version, f"loaded in {seconds:.1f} s")
                self._retire()
                self._changed.notify_all()
            if late:
                self._take_down(version)
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
        self._say(version, f"could not be loaded: {failure}; {next_step}")

    def _pause(self, version: Version) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: not version.wanted, self._retries.interval_seconds
            )

    def _retire(self) -> None:
        """Starts unloading what is not wanted and is not needed to stand in."""
        versions = self._versions.values()
        wanted = [version for version in versions if version.wanted]
        available = [v for v in versions if v.state is State.AVAILABLE]
        old = sorted((v for v in available if not v.wanted), key=lambda v: v.number)
        if wanted and not any(version.wanted for version in available):
            # The newest of them stands in, as in TensorFlow Serving.
            old = old[:-1]
        for version in old:
            version.state = State.UNLOADING
            self._start(self._take_down, version)

    def _take_down(self, version: Version) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not version.users)
            servable, version.servable = version.servable, None
        if servable is not None:
            servable.close()
        with self._changed:
            version.state = State.END
            self._say(version, "unloaded")
            self._changed.notify_all()

    def _say(self, version: Version, what: str) -> None:
        self._log(f"{self.name} version {version.number} {what}")


def no_servable(name: str, number: int | None) -> ServingError:
    """Returns the error of a request for a version that cannot answer."""
    wanted = f"Latest({name})" if number is None else f"Specific({name}, {number})"
    return not_found(f"Servable not found for request: {wanted}")
