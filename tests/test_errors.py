"""UserError and MissingPackage: errors whose message is for the user."""

import importlib

import pytest

from t2t_keras.errors import MissingPackage, UserError, did_you_mean, require_package


def test_a_library_caller_can_catch_it_as_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"^give another$") as caught:
        raise UserError("give another")
    assert type(caught.value) is UserError


def test_the_nearest_name_is_proposed_if_one_is_near() -> None:
    names = ("train.en", "train.de", "newstest")
    assert did_you_mean("trian.en", names) == " Did you mean train.en?"
    assert did_you_mean("wmt", names) == ""


def test_a_missing_package_error_names_the_package_and_its_user() -> None:
    with pytest.raises(MissingPackage, match="pip install some-package") as caught:
        with require_package("A picture", "some-package"):
            importlib.import_module("no_such_module_" + "anywhere")
    assert "A picture needs" in str(caught.value)
    assert "no_such_module_anywhere" in str(caught.value)


def test_an_error_of_another_kind_passes() -> None:
    with pytest.raises(KeyError), require_package("A picture", "some-package"):
        raise KeyError
