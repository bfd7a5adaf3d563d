"""A file of models that changes while they are served."""

import pytest

from t2t_keras.serving.server.config_watch import ConfigWatch
from t2t_keras.serving.server.configs import read_models
from t2t_keras.serving.server.loading import Loader
from t2t_keras.serving.server.models import Models
from tests.serving.server.clients import QUICK, wait_until


def text(base, version):
    return f"""model_config_list {{ config {{
      name: "m" base_path: "{base}" model_platform: "tensorflow"
      model_version_policy {{ specific {{ versions: {version} }} }}
    }} }}"""


def replace(path, content):
    """Nobody sees half of a file."""
    path.with_suffix(".new").write_text(content)
    path.with_suffix(".new").rename(path)


@pytest.fixture
def lines():
    return []


@pytest.fixture
def watched(base, tmp_path, lines):
    """The file, and what is served."""
    path = tmp_path / "models.config"
    path.write_text(text(base, 1))
    models = Models(Loader(), QUICK, lambda line: None)
    models.wait_until_available(models.configure(read_models(str(path))), 60)
    watch = ConfigWatch(str(path), 0.02, models, lines.append)
    yield path, models
    watch.close()
    models.close()


def test_a_change_is_taken_up(watched, base, lines):
    path, models = watched
    replace(path, text(base, 2))
    wait_until(lambda: models.describe() == "m version 2")
    wait_until(lambda: lines == [f"{path} was read again"], lambda: lines)


@pytest.mark.parametrize("content", ["model_config_list { config {", "", None])
def test_what_cannot_be_used_changes_nothing_and_is_said_once(
    watched, base, lines, content
):
    path, models = watched
    if content is None:
        path.unlink()
    else:
        replace(path, content)
    wait_until(lambda: len(lines) == 1)
    assert lines[0].startswith(f"{path} was read again and not used: {path} ")
    assert models.describe() == "m version 1"
    replace(path, text(base, 2))
    wait_until(lambda: models.describe() == "m version 2")
    assert len(lines) == 2


def test_a_list_that_is_refused_changes_nothing(watched, base, lines):
    path, models = watched
    replace(path, text("here", 2))
    wait_until(lambda: len(lines) == 1)
    assert "Expected model m to have an absolute path" in lines[0]
    assert models.describe() == "m version 1"
