"""Classes of models by name: `package.module:Class`, subclasses of `Transformer`."""

import importlib
import sys
from functools import reduce
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.model.transformer import Transformer


def class_name(model_class: type[Transformer]) -> str:
    """Returns the name by which `find_class` finds a class.

    Raises:
        UserError: If it is no subclass of `Transformer`, or Python cannot import it.
    """
    if not (isinstance(model_class, type) and issubclass(model_class, Transformer)):
        raise UserError(
            f"A model is a subclass of t2t_keras.Transformer. Received: {model_class!r}"
        )
    name = model_class.__qualname__
    if "<locals>" in name:
        raise UserError(
            f"The class {name} is inside a function, where no other program finds it. "
            "Define it at the level of a module."
        )
    return f"{model_class.__module__}:{name}"


def find_class(name: str | None) -> type[Transformer]:
    """Returns a class by its name; `Transformer` for None.

    Raises:
        UserError: If there is no such class, or it is no subclass of `Transformer`.
    """
    if name is None:
        return Transformer
    module_name, _, qualified = name.partition(":")
    if not qualified:
        raise UserError(
            "--model must be package.module:Class, such as "
            f"examples.rms_norm_model:GatedTransformer. Received: {name}"
        )
    advice = (
        "It is the class of the model, which must be found: start Python where its "
        "module is, or add that folder to PYTHONPATH."
    )
    if module_name == "__main__":
        advice = (
            "It is the class of the model, in the program that trained it. Move it to "
            "a module of its own, which other programs can import."
        )
    try:
        # A program's own module is __main__, which is never imported anew.
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(
            f"--model={name} cannot be imported: {error}. {advice}"
        ) from error
    try:
        found: Any = reduce(getattr, qualified.split("."), module)
    except AttributeError as error:
        raise UserError(
            f"--model={name} is not there: {module_name} has no {qualified}. {advice}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Transformer)):
        raise UserError(
            f"--model={name} is no subclass of t2t_keras.Transformer. Received: "
            f"{found!r:.60}"
        )
    return found
