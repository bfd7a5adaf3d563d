"""The client where only its own packages are installed, as docs/serving.md says."""

import importlib.metadata
import os
import re
import shutil
import subprocess

import pytest
from packaging.requirements import Requirement

from benchmarks.server_process import started_server
from tests.forked import REPOSITORY
from tests.system.shouting import Shouting, save_model
from tests.system.wheels import make_environment

pytestmark = pytest.mark.slow

BY_CLASS = """
import sys
from t2t_keras import TranslationClient
from t2t_keras.serving.client.connection import read_credentials
files = [f"{sys.argv[2]}/{name}" for name in ("server.pem", "client.pem", "client.key")]
with TranslationClient(sys.argv[1], credentials=read_credentials(*files)) as client:
    print([line.text for line in client.translate(["a b", "größer"])])
print(sorted({"numpy", "tensorflow"} & set(sys.modules)))
"""


def documented_packages():
    """Returns the names in the command of docs/serving.md, and all that they need."""
    text = (REPOSITORY / "docs/serving.md").read_text()
    (names,) = re.findall(r"pip install (.*)\n *pip install --no-deps t2t_keras-", text)
    todo, names = names.split(), set()
    while todo:
        name = todo.pop()
        names.add(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                todo += {needed.name} - names
    return names


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the wheel and these packages, copied from the tests'."""
    folder = tmp_path_factory.mktemp("client")
    packages = make_environment(tmp_path_factory, folder / "env")
    for name in documented_packages():
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), packages / file)
    return folder / "env"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address of the embedded server, which verifies its clients; a folder of keys."""
    folder = tmp_path_factory.mktemp("server")
    for name in ("server", "client"):
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name}"
        files = f"-addext subjectAltName=DNS:localhost -keyout {name}.key"
        subprocess.run(
            f"{command} {files} -out {name}.pem".split(),
            cwd=folder,
            check=True,
            capture_output=True,
        )
    texts = [
        f'{field}: "{(folder / name).read_text()}"'.replace("\n", "\\n")
        for field, name in (
            ("server_key", "server.key"),
            ("server_cert", "server.pem"),
            ("custom_ca", "client.pem"),
        )
    ]
    config = folder / "ssl.config"
    config.write_text("\n".join([*texts, "client_verify: true\n"]))
    base = save_model(Shouting(), folder / "base/1").parent
    with started_server(base, f"--ssl_config_file={config}") as server:
        yield server.address, folder


@pytest.fixture
def run(environment, tmp_path):
    def run(name, *arguments, stdin=""):
        return subprocess.run(
            [environment / "bin" / name, *map(str, arguments)],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": os.defpath},
            input=stdin,
            capture_output=True,
            text=True,
        )

    return run


def test_no_tensorflow_is_installed(run):
    for name in ("tensorflow", "tensorflow_serving", "numpy", "keras"):
        done = run("python", "-c", f"import {name}")
        assert done.stderr.endswith(f"No module named '{name}'\n")


def test_the_program_and_the_class_translate(run, server):
    address, folder = server
    files = [
        f"--ssl_{kind}_file={folder / name}"
        for kind, name in (("ca", "server.pem"), ("cert", "client.pem"))
    ]
    files.append(f"--ssl_key_file={folder / 'client.key'}")
    flags = [f"--server={address}", "--retries=0"]
    done = run("t2t-client", *flags, *files, stdin="a b\n\ngrößer\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "A B\n\nGRößER\n", "")
    refused = run("t2t-client", *flags, files[0], stdin="a\n")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "ssl_cert_file and ssl_key_file too if it verifies" in refused.stderr
    done = run("python", "-c", BY_CLASS, address, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['A B', 'GRößER']\n[]\n"


def test_help_and_the_list_of_programs_are_printed(run):
    assert "--ssl_cert_file" in run("t2t-client", "--help").stdout
    assert "t2t-client" in run("python", "-m", "t2t_keras").stdout


def test_another_program_names_the_package_that_it_lacks(run):
    done = run("t2t-translate", "--model_dir=runs/tiny", stdin="a\n")
    assert (done.returncode, done.stdout) == (2, "")
    message = "error: This program needs the package tensorflow, which cannot be import"
    assert done.stderr.startswith(message)
