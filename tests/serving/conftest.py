"""Toy translator, exported once per session."""

import pytest

from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.translator_module import TranslatorModule
from t2t_keras.serving.export.validation import open_session
from tests.serving.toy_model import (
    LIMITS,
    SETTINGS,
    toy_model,
    toy_vocabulary,
    toy_weight,
)


@pytest.fixture(scope="session")
def vocabulary():
    return toy_vocabulary()


@pytest.fixture(scope="session")
def weight(vocabulary):
    return toy_weight(vocabulary)


@pytest.fixture(scope="session")
def module(weight, vocabulary):
    return TranslatorModule(toy_model(weight), vocabulary, SETTINGS, LIMITS)


@pytest.fixture(scope="session")
def exported(module, tmp_path_factory):
    """The directory of a version, which tests must not change."""
    return save_version(module, tmp_path_factory.mktemp("export") / "base")


@pytest.fixture(scope="session")
def served(exported):
    """The version in a session, as in a server."""
    with open_session(exported) as session:
        yield session
