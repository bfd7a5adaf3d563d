"""Versions of the fake model, and a session of one."""

import shutil

import pytest

from t2t_keras.server.tf_serving.session import ModelSession
from tests.server.tf_serving.fake_model import save


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A folder of versions 1, 2 and 3 to copy from; tests must not change it."""
    base = tmp_path_factory.mktemp("saved")
    for version in (1, 2, 3):
        save(base, version)
    return base


@pytest.fixture
def base(saved, tmp_path):
    """The base directory of a model with versions 1 and 2."""
    for version in ("1", "2"):
        shutil.copytree(saved / version, tmp_path / "base" / version)
    return tmp_path / "base"


@pytest.fixture(scope="session")
def session(saved):
    session = ModelSession(saved / "2")
    yield session
    session.close()
