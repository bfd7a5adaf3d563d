"""Models of a server: configuration, labels, and a watch of their folders."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from t2t_keras.serving.server.configs import check_models
from t2t_keras.serving.server.errors import (
    ServingError,
    deadline_exceeded,
    failed_precondition,
    invalid_argument,
    not_found,
)
from t2t_keras.serving.server.loading import Servable
from t2t_keras.serving.server.version_policy import versions_to_serve
from t2t_keras.serving.server.versions import (
    Log,
    ModelVersions,
    Retries,
    State,
    Version,
    no_servable,
)


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


class Models:
    """Models of a server.

    Args:
        load: Function that loads the version in a directory.
        options: Settings of the watch.
        log: Called with a line for each event that an operator should know of.
    """

    def __init__(
        self, load: Callable[[Path], Servable], options: WatchOptions, log: Log
    ):
        self._load = load
        self._options = options
        self._log = log
        self._changed = threading.Condition()
        self._configuring = threading.RLock()
        self._configs: dict[str, Any] = {}
        self._labels: dict[tuple[str, str], int] = {}
        self._models: dict[str, ModelVersions] = {}
        self._problems: dict[str, ServingError] = {}
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def configure(self, config: Any) -> list[str]:
        """Replaces the models by those of a `ModelServerConfig`.

        Returns:
            The names of the models that are new; they are not loaded yet.

        Raises:
            ServingError: If the configuration is invalid; nothing changes.
        """
        with self._configuring:
            configs = check_models(config, self._configs)
            labels = self._check_labels(configs)
            new = [name for name in configs if name not in self._configs]
            gone = [name for name in self._configs if name not in configs]
            with self._changed:
                self._configs, self._labels = configs, labels
                for name in new:
                    self._models.setdefault(name, self._create_versions(name))
            for name in gone:
                self._problems.pop(name, None)
                self._models[name].want({})
            self._look()
            return new

    def start_watching(self) -> None:
        """Starts to check the folders at intervals."""
        if self._options.poll_seconds > 0:
            self._watcher.start()

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
                NOT_FOUND if there are none; DEADLINE_EXCEEDED.
        """
        deadline = None
        if timeout_seconds is not None:
            deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while waiting := [n for n in names if not self._models[n].available()]:
                failed = [v for name in waiting for v in self._failed_versions(name)]
                if failed:
                    raise _unavailable_error(failed)
                missing = [self._problems[n] for n in waiting if n in self._problems]
                if missing and not patient:
                    raise missing[0]
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

    def describe(self) -> str:
        """Returns the available models and versions in words."""
        return ", ".join(
            f"{name} version {number}"
            for name, model in sorted(self._models.items())
            for number in sorted(model.available())
        )

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Unloads everything.

        Args:
            timeout_seconds: Longest wait for requests; then they are canceled.
        """
        self._stopped.set()
        with self._configuring:
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
        return ModelVersions(
            name, self._load, self._options.retries, self._changed, self._log
        )

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

    def _watch(self) -> None:
        while not self._stopped.wait(self._options.poll_seconds):
            with self._configuring:
                if not self._stopped.is_set():
                    self._look()

    def _look(self) -> None:
        """Checks the folders of all models once."""
        for name, config in self._configs.items():
            path = Path(config.base_path)
            try:
                versions = versions_to_serve(name, path, config.model_version_policy)
                self._models[name].want(versions)
                if not versions:
                    raise not_found(
                        f"No versions of servable {name} found under base path {path}. "
                        "Did you forget to name your leaf directory as a number "
                        "(eg. '/1/')?"
                    )
                self._problems.pop(name, None)
            except ServingError as error:
                if str(self._problems.get(name)) != str(error):
                    self._log(f"{name}: {error.message}")
                self._problems[name] = error

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
