"""Watch of folders and files: threads that look again, whatever they find."""

import logging
import re
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.server.tf_serving.errors import from_exception, invalid_argument
from t2t_keras.server.tf_serving.graphs import GRAPH_FILES

logger = logging.getLogger(__name__)

# What a C++ server reads as an integer of 64 bits.
_NUMBER = re.compile(r"\s*[-+]?[0-9]+\s*", re.ASCII)


class Watch:
    """Thread that calls a function at intervals until it is closed.

    The function may raise whatever it likes: it is called again. An error is logged
    once, and again after another one or a success.

    Args:
        look: Function to call.
        seconds: Seconds between two calls.
        on_end: Called if the thread ends before it is closed, which only a fault of
            Python itself can cause.
    """

    def __init__(
        self,
        look: Callable[[], None],
        seconds: float,
        on_end: Callable[[], None] = lambda: None,
    ):
        self._look = look
        self._seconds = seconds
        self._on_end = on_end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        last = ""
        try:
            while not self._stopped.wait(self._seconds):
                try:
                    self._look()
                    last = ""
                except Exception as error:
                    problem = describe_error(error)
                    if problem != last:
                        logger.info(problem)
                    last = problem
        finally:
            if not self._stopped.is_set():
                self._on_end()


def describe_error(error: Exception) -> str:
    """Returns an error in a line: what was expected needs no name of a class."""
    if isinstance(error, UserError):
        return str(error)
    return str(from_exception(error))


class VersionFolders(NamedTuple):
    """Folders of a model.

    Attributes:
        versions: Folder of each version to serve, by number.
        problems: A line for each folder that may be a version and cannot be read.
    """

    versions: dict[int, Path]
    problems: list[str]


def find_versions(
    name: str, base_path: Path, policy: Any, loaded: Collection[int] = ()
) -> VersionFolders:
    """Returns the versions that a policy asks for and that are there.

    A folder is a version if its name is a number and a graph is in it: one that is
    being copied is left alone until then. A folder that cannot be read counts only if
    the version is loaded: a disk may be missing for a moment.

    Args:
        name: Name of the model, for errors.
        base_path: Directory with a folder for each version, named by its number.
        policy: A `ServableVersionPolicy`; empty for the latest version.
        loaded: Numbers of the versions that are loaded.

    Raises:
        ServingError: If there is no such directory. The versions that are served stay
            then.
    """
    try:
        folders = sorted(base_path.iterdir())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise invalid_argument(
            f"Could not find base path {base_path} for servable {name} with error "
            f"{reason}"
        ) from error
    versions, problems = {}, []
    for folder in folders:
        if not _NUMBER.fullmatch(folder.name) or abs(int(folder.name)) >= 2**63:
            continue
        number = int(folder.name)
        try:
            found = any((folder / file).is_file() for file in GRAPH_FILES)
        except OSError as error:
            problems.append(
                f"{folder} cannot be read: {error.strerror}. It is not served."
            )
            found = number in loaded
        if found:
            versions[number] = folder
    return VersionFolders(_choose(versions, policy), problems)


def _choose(versions: dict[int, Path], policy: Any) -> dict[int, Path]:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return versions
    numbers: Collection[int] = set(policy.specific.versions)
    if choice != "specific":
        numbers = sorted(versions)[-max(policy.latest.num_versions, 1) :]
    return {number: path for number, path in versions.items() if number in numbers}
