"""Registration of classes with Keras, without an import of Keras or of their modules.

Also the check that the environment chooses a Keras that the project can use, and an
import of it without matplotlib.

`keras.models.load_model` finds custom classes only if they are registered. Importing
them for that would make `import t2t_keras` slow. Importing them when Keras is imported
fails if it is one of their modules that imports Keras.
"""

import contextlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from t2t_keras.errors import UserError

LoadClass = Callable[[str], Any]


@contextlib.contextmanager
def matplotlib_hidden() -> Iterator[None]:
    """Hides matplotlib from an import of Keras, or of TensorFlow, which imports Keras.

    Keras 3.15 imports it where it is installed, for pictures that no program here
    draws: a sixth of the time in which TensorFlow is imported. Imports after the block
    find it.
    """
    if "matplotlib" in sys.modules:
        yield
        return
    sys.modules["matplotlib"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop("matplotlib")


def check_backend(backend: str, received: str | None = None) -> None:
    """Raises `UserError` if Keras uses another backend, or TensorFlow another Keras.

    Args:
        backend: The backend that is needed.
        received: The backend of Keras if it is imported. Default: that of the
            environment.
    """
    received = received or os.environ.get("KERAS_BACKEND") or backend
    if received != backend:
        raise UserError(
            f"KERAS_BACKEND must be {backend}, or not be set: this program does not "
            f"run on another backend of Keras. Received: {received}. Start the command "
            'with "env -u KERAS_BACKEND", or unset the variable.'
        )
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "")
    if legacy.lower() in ("1", "true"):
        raise UserError(
            "TF_USE_LEGACY_KERAS must not be set: TensorFlow would look for Keras 2, "
            f"and this program needs Keras 3. Received: {legacy}. Start the command "
            'with "env -u TF_USE_LEGACY_KERAS", or unset the variable.'
        )


def register_on_import(package: str, names: Sequence[str], load: LoadClass) -> None:
    """Registers classes with Keras, now if it is imported, else when it is imported.

    Args:
        package: The package under which the classes register themselves.
        names: Names of the classes.
        load: Imports and returns the class of a name. It is called when a model with
            such an object is loaded.
    """

    def register(keras: Any) -> None:
        classes = keras.saving.get_custom_objects()
        for name in names:
            # A class takes the place of its stand-in when it is imported.
            classes.setdefault(f"{package}>{name}", _stand_in(name, load))

    if "keras" in sys.modules:
        register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _KerasFinder(register))


def _stand_in(name: str, load: LoadClass) -> type:
    """Returns a class with the only method of a registered class that Keras calls."""

    def from_config(config: dict[str, Any]) -> Any:
        return load(name).from_config(config)

    return type(name, (), {"from_config": staticmethod(from_config)})


class _KerasFinder:
    """Finds Keras as Python does, and calls a function once it is imported."""

    def __init__(self, after_import: Callable[[Any], None]):
        self._after_import = after_import

    def find_spec(
        self, name: str, path: Any = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the specification that other finders have for Keras."""
        if name != "keras":
            return None
        finders = [each for each in sys.meta_path if each is not self]
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_call(module: types.ModuleType) -> None:
            execute(module)
            # The loader of an archive has other modules, too.
            if module.__name__ == "keras" and self in sys.meta_path:
                sys.meta_path.remove(self)
                self._after_import(module)

        loader.exec_module = execute_and_call
