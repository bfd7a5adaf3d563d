"""Dockerfile of the translation API."""

import re
import shlex
import tomllib
from pathlib import Path

import yaml

from t2t_keras.serving.export.server_files import write_server_files
from tests.forked import REPOSITORY


def read_steps(path: Path) -> list[list[str]]:
    """Returns the steps of a Dockerfile, each with its arguments in one text."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    return [line.split(maxsplit=1) for line in lines if re.match("[A-Z]+ ", line)]


def copied_files(steps: list[list[str]]) -> set[str]:
    """Returns the files of the repository that the steps copy."""
    copied = (shlex.split(rest) for step, rest in steps if step == "COPY")
    return {source for *sources, _ in copied for source in sources}


def test_the_image_of_the_gateway_is_built_from_files_of_the_repository(tmp_path):
    """Without Docker: whether the files exist, and the image has what compose uses."""
    write_server_files(tmp_path, "m", (1,), xla=False)
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    readme = (tmp_path / "README.md").read_text()
    (build,) = re.findall(r"`docker build (.+?)`", readme)
    arguments = shlex.split(build)
    path = REPOSITORY / arguments[arguments.index("-f") + 1]
    assert arguments[arguments.index("-t") + 1] == services["gateway"]["image"]
    text = path.read_text()
    assert f"docker build {build}\n" in text
    steps = read_steps(path)
    copied = copied_files(steps)
    assert all((REPOSITORY / source).exists() for source in copied)
    # What pip needs of the repository to install it.
    assert copied >= {"pyproject.toml", "README.md", "LICENSE", "t2t_keras"}
    found = dict(steps)
    assert found["ENTRYPOINT"] == '["t2t-serve"]'
    assert found["EXPOSE"] == "5000"
    assert found["USER"] == "1000:1000"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    serve = set(project["optional-dependencies"]["serve"])
    installed = set(re.findall(r'"(\S+?[<>=]\S+)"', text))
    assert serve <= installed <= {*serve, *project["dependencies"]}
