"""The client where only its own distribution, `t2t-keras-client`, is installed."""

import os
import subprocess

import pytest

from benchmarks.server_process import started_server
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


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the distribution of the client and what it depends on."""
    folder = tmp_path_factory.mktemp("client") / "env"
    make_environment(tmp_path_factory, folder, "client")
    return folder


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


def test_help_and_the_list_of_programs_are_printed(run, environment):
    assert "--ssl_cert_file" in run("t2t-client", "--help").stdout
    listed = run("python", "-m", "t2t_keras").stdout.splitlines()
    assert [line.split()[0] for line in listed if line.startswith("  ")] == [
        "t2t-client"
    ]
    assert [path.name for path in (environment / "bin").glob("t2t-*")] == ["t2t-client"]
