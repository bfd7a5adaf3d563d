"""The canary recipe of docs/serving.md, executed with the embedded server."""

import re
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.tf_serving.configs import read_models
from t2t_keras.server.tf_serving.development_server import watch_config
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.loading import Loader
from t2t_keras.server.tf_serving.models import Models, WatchOptions
from t2t_keras.server.tf_serving.versions import Retries
from t2t_keras.serving.export.server_files import write_server_files
from tests.forked import REPOSITORY
from tests.server.tf_serving.clients import QUICK, request, wait_until
from tests.server.tf_serving.fake_model import save

POLICY = "model_version_policy { latest { num_versions: 1 } }"


def code_blocks():
    """Returns the recipe's code blocks in order."""
    page = (REPOSITORY / "docs/serving.md").read_text()
    recipe = page.split("### Canary\n")[1].split("### Roll back\n")[0]
    return re.findall(r"```\n(.*?)```", recipe, re.DOTALL)


class Operator:
    """Operator who edits the models.config of an export, and the server that reads it.

    Attributes:
        models: Served models.
    """

    def __init__(self, folder, logged):
        self.base = folder / "export"
        save(self.base, 1)
        write_server_files(self.base, "translate", (1, 2), xla=False)
        self.path = self.base / "models.config"
        written = self.path.read_text()
        self._template = written.replace("/models/translate", str(self.base))
        self.path.write_text(self._template)
        self._logged = logged
        self.models = self.start(QUICK)
        used = read_models(str(self.path))
        self._watch = watch_config(str(self.path), used, 0.02, self.models)

    def start(self, options):
        """Returns the models of a server that starts with the current file."""
        models = Models(Loader(), options)
        try:
            models.wait_until_available(models.configure(read_models(str(self.path))))
        except BaseException:
            models.close()
            raise
        models.start_watching()
        return models

    def edit(self, block):
        """Writes the file and returns the server's log line about it."""
        text = self._template.replace(POLICY, block)
        assert text != self._template
        before = len(self.lines)
        self.path.with_suffix(".new").write_text(text)
        self.path.with_suffix(".new").rename(self.path)
        wait_until(lambda: len(self.lines) > before)
        return self.lines[-1].removeprefix(f"{self.path} was read again")

    @property
    def lines(self):
        """Lines that the server logged about the file."""
        return [line for line in self._logged if line.startswith(str(self.path))]

    def wait_for(self, *versions):
        served = ", ".join(f"translate version {number}" for number in versions)
        wait_until(lambda: self.models.describe() == served, self.models.describe)

    def close(self):
        self._watch.close()
        self.models.close()


@pytest.fixture
def operator(tmp_path, logged):
    operator = Operator(tmp_path, logged)
    yield operator
    operator.close()


def find_version(models, label=""):
    spec = request().model_spec
    if label:
        spec.version_label = label
    with models.use(spec) as (number, _):
        return number


def check_unknown_label(models, label):
    with pytest.raises(ServingError, match="Unrecognized servable version label"):
        find_version(models, label)


def test_the_recipe_works(operator):
    hold, load, name, promote = code_blocks()
    models = operator.models
    assert operator.edit(hold) == ""
    assert find_version(models, "stable") == 1
    save(operator.base, 2)
    assert operator.edit(load) == ""
    operator.wait_for(1, 2)
    assert (find_version(models, "stable"), find_version(models)) == (1, 2)
    check_unknown_label(models, "canary")
    assert operator.edit(name) == ""
    assert (find_version(models, "stable"), find_version(models, "canary")) == (1, 2)
    assert operator.edit(promote) == ""
    assert find_version(models, "stable") == 2
    check_unknown_label(models, "canary")
    assert operator.edit(promote.replace("versions: 1 ", "")) == ""
    operator.wait_for(2)
    # Servers restarted without and with the flag given in the files beside the export.
    with pytest.raises((ServingError, UserError), match="not currently available"):
        operator.start(QUICK)
    again = operator.start(WatchOptions(0.05, Retries(0), True))
    assert find_version(again, "stable") == 2
    again.close()
    for name in ("README.md", "kubernetes.yaml"):
        flag = "--allow_version_labels_for_unavailable_models=true"
        assert flag in (operator.base / name).read_text()


def test_two_steps_at_once_are_refused_and_load_nothing(operator):
    """This is why the page has two separate steps."""
    hold, _, name, _ = code_blocks()
    assert operator.edit(hold) == ""
    save(operator.base, 2)
    assert "Request to assign label to version 2" in operator.edit(name)
    time.sleep(0.3)  # the server polls the folder a few times
    operator.wait_for(1)
