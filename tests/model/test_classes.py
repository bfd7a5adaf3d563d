"""Classes of models by name."""

import pytest

from examples import rms_norm_model
from examples.rms_norm_model import GatedTransformer
from t2t_keras.errors import UserError
from t2t_keras.model.classes import class_name, find_class
from t2t_keras.model.transformer import Transformer

NAME = "examples.rms_norm_model:GatedTransformer"


def test_a_class_is_found_by_its_name():
    assert class_name(GatedTransformer) == NAME
    assert find_class(NAME) is GatedTransformer
    assert find_class(None) is Transformer


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("examples.rms_norm_model", "must be package.module:Class, such as"),
        ("no_such.module:Model", "cannot be imported: No module named 'no_such'"),
        ("examples.rms_norm_model:Other", "examples.rms_norm_model has no Other"),
        ("examples.rms_norm_model:GatedFeedForward", "no subclass of t2t_keras.Tra"),
        ("examples.rms_norm_model:keras", "no subclass of t2t_keras.Transformer"),
        ("__main__:Model", "in the program that trained it. Move it to a module"),
    ],
)
def test_a_class_that_is_not_there(name, message):
    with pytest.raises(UserError, match=message):
        find_class(name)


def test_what_no_program_could_find_is_refused():
    class Local(Transformer):
        """A class inside a function."""

    for model_class, message in (
        (Local, "Local is inside a function"),
        (rms_norm_model.GatedFeedForward, "subclass of t2t_keras.Transformer. Rec"),
        (
            Transformer(7, num_layers=1, num_heads=1, d_model=4),
            "A model is a subclass of",
        ),
    ):
        with pytest.raises(UserError, match=message):
            class_name(model_class)
