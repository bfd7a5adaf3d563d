"""docs/serving.md's canary, followed word for word with the embedded server."""

import re
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.export.server_files import write_server_files
from t2t_keras.serving.server.config_watch import ConfigWatch
from t2t_keras.serving.server.configs import read_models
from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.loading import Loader
from t2t_keras.serving.server.models import Models, WatchOptions
from t2t_keras.serving.server.versions import Retries
from tests.serving.server.clients import QUICK, request, wait_until
from tests.serving.server.made_up_model import save
from tests.system.conftest import REPOSITORY

POLICY = "model_version_policy { latest { num_versions: 1 } }"


def blocks():
    """Returns what the page has one write, in its order."""
    page = (REPOSITORY / "docs/serving.md").read_text()
    recipe = page.split("### Canary\n")[1].split("### Roll back\n")[0]
    return re.findall(r"```\n(.*?)```", recipe, re.DOTALL)


class Operator:
    """Edits the file that an export has written, and looks what is served.

    Attributes:
        models: What is served.
        lines: What the server said about the file.
    """

    def __init__(self, folder):
        self.base = folder / "export"
        save(self.base, 1)
        write_server_files(self.base, "translate", (1, 2), xla=False)
        self.path = self.base / "models.config"
        written = self.path.read_text()
        self._template = written.replace("/models/translate", str(self.base))
        self.path.write_text(self._template)
        self.lines = []
        self.models = self.started(QUICK)
        used = read_models(str(self.path))
        self._watch = ConfigWatch(
            str(self.path), used, 0.02, self.models, self.lines.append
        )

    def started(self, options):
        """Returns what a server serves that starts with the file as it is."""
        models = Models(Loader(), options, lambda line: None)
        try:
            models.wait_until_available(models.configure(read_models(str(self.path))))
        except BaseException:
            models.close()
            raise
        models.start_watching()
        return models

    def edit(self, block):
        """Writes the file, and returns what the server says when it has seen it."""
        text = self._template.replace(POLICY, block)
        assert text != self._template
        before = len(self.lines)
        self.path.with_suffix(".new").write_text(text)
        self.path.with_suffix(".new").rename(self.path)
        wait_until(lambda: len(self.lines) > before)
        return self.lines[-1].removeprefix(f"{self.path} was read again")

    def wait_for(self, *versions):
        served = ", ".join(f"translate version {number}" for number in versions)
        wait_until(lambda: self.models.describe() == served, self.models.describe)

    def close(self):
        self._watch.close()
        self.models.close()


@pytest.fixture
def operator(tmp_path):
    found = Operator(tmp_path)
    yield found
    found.close()


def version_of(models, label=""):
    spec = request().model_spec
    if label:
        spec.version_label = label
    with models.use(spec) as (number, _):
        return number


def refused_label(models, label):
    with pytest.raises(ServingError, match="Unrecognized servable version label"):
        version_of(models, label)


def test_the_page_works_as_it_stands(operator):
    hold, load, name, promote = blocks()
    models = operator.models
    assert operator.edit(hold) == ""
    assert version_of(models, "stable") == 1
    save(operator.base, 2)
    assert operator.edit(load) == ""
    operator.wait_for(1, 2)
    assert (version_of(models, "stable"), version_of(models)) == (1, 2)
    refused_label(models, "canary")
    assert operator.edit(name) == ""
    assert (version_of(models, "stable"), version_of(models, "canary")) == (1, 2)
    assert operator.edit(promote) == ""
    assert version_of(models, "stable") == 2
    refused_label(models, "canary")
    assert operator.edit(promote.replace("versions: 1 ", "")) == ""
    operator.wait_for(2)
    # A server that starts again with the flag of the lines beside the export, and one
    # without.
    with pytest.raises((ServingError, UserError), match="not currently available"):
        operator.started(QUICK)
    again = operator.started(WatchOptions(0.05, Retries(0), True))
    assert version_of(again, "stable") == 2
    again.close()
    for name in ("README.md", "kubernetes.yaml"):
        flag = "--allow_version_labels_for_unavailable_models=true"
        assert flag in (operator.base / name).read_text()


def test_two_steps_at_once_are_refused_and_load_nothing(operator):
    """Why the page has them one after the other."""
    hold, _, name, _ = blocks()
    assert operator.edit(hold) == ""
    save(operator.base, 2)
    assert "Request to assign label to version 2" in operator.edit(name)
    time.sleep(0.3)  # a few looks at the folder
    operator.wait_for(1)
