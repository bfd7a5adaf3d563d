"""Watching models.config: changes, faults and labels while models are served."""

import re
import threading
import time

import pytest
from tensorflow_serving.apis import predict_pb2

from t2t_keras.server.tf_serving.configs import read_models
from t2t_keras.server.tf_serving.development_server import watch_config
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.loading import Loader
from t2t_keras.server.tf_serving.models import Models
from tests.server.tf_serving.clients import QUICK, wait_until


def text(base, *versions, label=None):
    labels = f'version_labels {{ key: "canary" value: {label} }}' if label else ""
    return f"""model_config_list {{ config {{
      name: "m" base_path: "{base}" model_platform: "tensorflow"
      model_version_policy {{ specific {{ {"".join(f"versions: {v} " for v in versions)}
      }} }} {labels}
    }} }}"""


def replace(path, content):
    """Replaces a file atomically."""
    path.with_suffix(".new").write_text(content)
    path.with_suffix(".new").rename(path)


def find_version(models, spec):
    with models.use(spec) as (number, _):
        return number


@pytest.fixture
def gate():
    """An event that loading of version 2 waits for; set by default."""
    gate = threading.Event()
    gate.set()
    yield gate
    gate.set()


@pytest.fixture
def lines(tmp_path, logged):
    """Returns what the server has logged about the watched file."""
    path = str(tmp_path / "models.config")
    return lambda: [line for line in logged if line.startswith(path)]


@pytest.fixture
def watched(base, tmp_path, gate):
    """The watched file and the served models."""
    path = tmp_path / "models.config"
    path.write_text(text(base, 1))
    loader = Loader()

    def load(directory):
        if directory.name == "2":
            gate.wait(60)
        return loader(directory)

    models = Models(load, QUICK)
    config = read_models(str(path))
    models.wait_until_available(models.configure(config), 60)
    watch = watch_config(str(path), config, 0.02, models)
    yield path, models
    watch.close()
    models.close()


@pytest.mark.parametrize("content", ["model_config_list { config {", "", None])
def test_a_bad_file_changes_nothing_and_is_logged_once(watched, base, lines, content):
    path, models = watched
    if content is None:
        path.unlink()
    else:
        replace(path, content)
    wait_until(lambda: len(lines()) == 1)
    shown = re.escape(str(path))
    assert re.match(
        f"{shown} was read again and not used: {shown}(: Error| )", lines()[0]
    )
    assert models.describe() == "m version 1"
    replace(path, text(base, 2))
    wait_until(lambda: models.describe() == "m version 2")
    wait_until(lambda: lines()[1:] == [f"{path} was read again"], lines)


def test_a_label_is_applied_once_its_version_is_loaded(watched, base, lines, gate):
    path, models = watched
    spec = predict_pb2.PredictRequest().model_spec
    spec.name, spec.version_label = "m", "canary"
    gate.clear()
    replace(path, text(base, 1, 2))
    wait_until(lambda: lines() == [f"{path} was read again"], lines)
    replace(path, text(base, 1, 2, label=2))
    wait_until(lambda: len(lines()) == 2)
    assert "assign label to version 2 of model m, which is not currently" in lines()[1]
    # Reading the same file again logs nothing.
    time.sleep(0.2)
    with pytest.raises(ServingError, match="label: canary"):
        find_version(models, spec)
    gate.set()
    wait_until(lambda: len(lines()) > 2, lines)
    assert lines()[2:] == [f"{path} was read again"]
    assert find_version(models, spec) == 2
