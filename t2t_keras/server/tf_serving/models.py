"""Models of a server: configuration, labels, and a watch of their folders."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from t2t_keras.server.tf_serving.configs import check_models
from t2t_keras.server.tf_serving.errors import (
    ServingError,
    aborted,
    deadline_exceeded,
    failed_precondition,
    from_exception,
    invalid_argument,
    not_found,
)
from t2t_keras.server.tf_serving.loading import Servable
from t2t_keras.server.tf_serving.versions import (
    ModelVersions,
    Retries,
    State,
    Version,
    no_servable,
)
from t2t_keras.server.tf_serving.watching import Watch, find_versions

logger = logging.getLogger(__name__)

# Problems that are logged after one look at the folders.
_MOST_LINES = 20


@dataclass(frozen=True)
class WatchOptions:
    """Settings of the watch of the models' folders.

    Attributes:
        poll_seconds: Seconds between two checks of the folders; 0 to check only once.
        retries: Retries of a version that cannot be loaded.
        labels_for_unavailable: Whether a label may name a version that is not
            available, if the label is new.
    """

    poll_seconds: float = 1.0
    retries: Retries = field(default_factory=Retries)
    labels_for_unavailable: bool = False


@dataclass(frozen=True)
class Problems:
    """What a look at the folders of a model found wrong.

    Attributes:
        error: Why no version could be found; None if one was.
        lines: All problems, also of single versions, for the log.
    """

    error: ServingError | None = None
    lines: tuple[str, ...] = ()


class Models:
    """Models of a server; `load` loads the version in a directory."""

    def __init__(self, load: Callable[[Path], Servable], options: WatchOptions):
        self._load = load
        self._options = options
        self._changed = threading.Condition()
        self._configuring = threading.RLock()
        self._configs: dict[str, Any] = {}
        self._labels: dict[tuple[str, str], int] = {}
        self._models: dict[str, ModelVersions] = {}
        self._problems: dict[str, Problems] = {}
        self._closed = False
        self._watch: Watch | None = None

    def configure(self, config: Any, starting: bool = False) -> list[str]:
        """Replaces the models by those of `config`; returns names not available yet.

        Args:
            config: The new list of models.
            starting: Whether the server is starting, and waits for folders and versions
                that are missing.

        Raises:
            ServingError: If the configuration is invalid, or a new model has no version
                to load; nothing changes.
        """
        with self._configuring:
            configs = check_models(config, self._configs)
            labels = self._check_labels(configs)
            if not starting:
                for name, model in configs.items():
                    current = self._configs.get(name)
                    if current is None or current.base_path != model.base_path:
                        self._find_versions(name, model)
            gone = [name for name in self._configs if name not in configs]
            with self._changed:
                self._configs, self._labels = configs, labels
                for name in configs:
                    if name not in self._models:
                        self._models[name] = self._create_versions(name)
            for name in gone:
                self._problems.pop(name, None)
                self._models[name].want({})
            self._look()
            return [name for name in configs if not self._models[name].available()]

    def start_watching(self, on_end: Callable[[], None] = lambda: None) -> None:
        """Starts to check the folders; calls `on_end` if that ends before `close`."""
        seconds = self._options.poll_seconds
        if seconds > 0:
            self._watch = Watch(self._look_if_open, seconds, on_end)

    def wait_until_available(
        self,
        names: Sequence[str],
        timeout_seconds: float | None = None,
        patient: bool = False,
    ) -> None:
        """Waits until each of the models can answer.

        Args:
            names: Names of the models.
            timeout_seconds: Maximum time to wait; None for no limit.
            patient: Whether to wait for a version of a model that has none.

        Raises:
            ServingError: UNKNOWN if versions were found and none could be loaded;
                NOT_FOUND if there are none; DEADLINE_EXCEEDED; ABORTED if a model was
                removed meanwhile.
        """
        deadline = None
        if timeout_seconds is not None:
            deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while waiting := [n for n in names if not self._models[n].available()]:
                failed = [v for name in waiting for v in self._failed_versions(name)]
                if failed:
                    raise _unavailable_error(failed)
                for name in waiting:
                    if name not in self._configs:
                        raise aborted(f"Another reload has removed model {name}.")
                    problem = self._problems.get(name, Problems()).error
                    if problem is not None and not patient:
                        raise problem
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise deadline_exceeded()
                # No longer, so that a signal is seen while nothing changes.
                self._changed.wait(0.2 if left is None else min(left, 0.2))

    @contextlib.contextmanager
    def use(self, model_spec: Any) -> Iterator[tuple[int, Servable]]:
        """Yields the version that a `ModelSpec` asks for: its number and its model.

        Raises:
            ServingError: If there is no such version.
        """
        if not model_spec.name:
            raise invalid_argument("ModelSpec has no name specified.")
        number = self._number(model_spec)
        model = self._models.get(model_spec.name)
        if model is None:
            raise no_servable(model_spec.name, number)
        with model.use(number) as used:
            yield used

    def versions(self, model_spec: Any) -> list[Version]:
        """Returns the version of a `ModelSpec`'s number, or all versions, in any state.

        A label is ignored, as in TensorFlow Serving.

        Raises:
            ServingError: NOT_FOUND if none is known.
        """
        name = model_spec.name
        number = model_spec.version.value if model_spec.HasField("version") else None
        model = self._models.get(name)
        known = model.versions() if model else []
        if number is None:
            if not known:
                raise not_found(f"Could not find any versions of model {name}")
            return known
        chosen = [version for version in known if version.number == number]
        if not chosen:
            raise not_found(f"Could not find version {number} of model {name}")
        return chosen

    def is_known(self, name: str) -> bool:
        """Returns whether there is, or was, a model of this name."""
        return name in self._models

    def describe(self) -> str:
        """Returns the available models and versions in words."""
        return ", ".join(f"{name} version {each}" for name, each in self.available())

    def available(self) -> list[tuple[str, int]]:
        """Returns name and number of each version that is available, sorted."""
        return [
            (name, number)
            for name, model in sorted(self._models.items())
            for number in sorted(model.available())
        ]

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Unloads everything; cancels requests that take longer than a time."""
        if self._watch is not None:
            self._watch.close()
        with self._configuring:
            self._closed = True
            for model in self._models.values():
                model.want({})
        if not self._wait_for_end(timeout_seconds):
            for model in self._models.values():
                model.cut_off()
            self._wait_for_end(timeout_seconds)

    def _wait_for_end(self, timeout_seconds: float) -> bool:
        def ended() -> bool:
            return all(
                version.state is State.END
                for model in self._models.values()
                for version in model.versions()
            )

        with self._changed:
            return self._changed.wait_for(ended, timeout_seconds)

    def _create_versions(self, name: str) -> ModelVersions:
        return ModelVersions(name, self._load, self._options.retries, self._changed)

    def _number(self, model_spec: Any) -> int | None:
        choice = model_spec.WhichOneof("version_choice")
        if choice == "version":
            return model_spec.version.value
        if choice == "version_label":
            label = model_spec.version_label
            number = self._labels.get((model_spec.name, label))
            if number is None:
                raise invalid_argument(f"Unrecognized servable version label: {label}")
            return number
        return None

    def _check_labels(self, configs: dict[str, Any]) -> dict[tuple[str, str], int]:
        labels = {}
        for name, config in configs.items():
            model = self._models.get(name)
            available = model.available() if model else []
            for label, number in config.version_labels.items():
                moved = self._labels.get((name, label), number) != number
                free = self._options.labels_for_unavailable and not moved
                if number not in available and not free:
                    raise failed_precondition(
                        f"Request to assign label to version {number} of model {name}, "
                        "which is not currently available for inference"
                    )
                labels[name, label] = number
        return labels

    def _look_if_open(self) -> None:
        with self._configuring:
            if not self._closed:
                self._look()

    def _look(self) -> None:
        """Checks the folders of all models once; a fault of one concerns no other."""
        lines = []
        for name, config in self._configs.items():
            problems: list[str] = []
            error = None
            try:
                versions = self._find_versions(name, config, problems)
                self._models[name].want(versions)
            except Exception as caught:
                error = from_exception(caught)
                problems.append(error.message)
            if error and error.code is grpc.StatusCode.NOT_FOUND:
                self._models[name].want({})
            known = self._problems.get(name, Problems())
            lines += [f"{name}: {line}" for line in problems if line not in known.lines]
            self._problems[name] = Problems(error, tuple(problems))
        self._log_some(lines)

    def _find_versions(
        self, name: str, config: Any, problems: list[str] | None = None
    ) -> dict[int, Path]:
        """Returns the folders of a model's versions, at least one; adds problems."""
        model = self._models.get(name)
        path = Path(config.base_path)
        found = find_versions(
            name,
            path,
            config.model_version_policy,
            model.available() if model else (),
        )
        if problems is not None:
            problems += found.problems
        if not found.versions:
            raise not_found(
                f"No versions of servable {name} found under base path {path}. Did you "
                "forget to name your leaf directory as a number (eg. '/1/')?"
            )
        return found.versions

    def _log_some(self, lines: Sequence[str]) -> None:
        """Logs lines, of very many the first ones only."""
        for line in lines[:_MOST_LINES]:
            logger.info(line)
        if len(lines) > _MOST_LINES:
            logger.info(f"… and {len(lines) - _MOST_LINES:,} more such problems")

    def _failed_versions(self, name: str) -> list[tuple[str, Version]]:
        """Returns the versions of a model that failed, if no other is loading."""
        wanted = [v for v in self._models[name].versions() if v.wanted]
        if any(version.state is not State.END for version in wanted):
            return []
        return [(name, version) for version in wanted if version.error]


def _unavailable_error(failed: list[tuple[str, Version]]) -> ServingError:
    each = "".join(
        f"{{{{name: {name} version: {version.number}}} "
        f"due to error: {version.error}}}, "
        for name, version in failed
    )
    return ServingError(
        grpc.StatusCode.UNKNOWN,
        f"{len(failed)} model(s) did not become available: {{{each}}}",
    )
