"""The contract of TensorFlow Serving, row by row, against whatever claims to keep it.

Each row of `contract` is asked of the embedded server, and of `tensorflow_model_server`
where one is on PATH. A row that the real server answers otherwise is a fault of the
table, and then of the embedded server.
"""

import re
import shutil
import socket
import subprocess
import sys
from types import MappingProxyType

import grpc
import pytest

from tests.serving.server.clients import Client, refusal, wait_until
from tests.serving.server.contract import ANSWERS, REFUSALS

pytestmark = pytest.mark.slow

REAL = "tensorflow_model_server"
COMMANDS = MappingProxyType(
    {"embedded": [sys.executable, "-m", "t2t_keras.serve"]}
    | ({REAL: [REAL]} if shutil.which(REAL) else {})
)


def test_the_real_server_was_asked_as_well():
    """The one test here that may be left out, and it says why."""
    if REAL not in COMMANDS:
        pytest.skip(f"no {REAL} on PATH: only the embedded server was asked")


MODELS = """model_config_list {{ config {{
  name: "translate" base_path: "{base}" model_platform: "tensorflow"
  model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
  version_labels {{ key: "stable" value: 1 }}
}} }}"""


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def client(request, saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(saved, folder / "base")
    (folder / "models.config").write_text(MODELS.format(base=folder / "base"))
    port = free_port()
    command = [
        *COMMANDS[request.param],
        f"--port={port}",
        f"--model_config_file={folder / 'models.config'}",
        "--allow_version_labels_for_unavailable_models",
        "--enable_grpc_healthcheck_service",
    ]
    with (folder / "lines").open("w") as lines:
        process = subprocess.Popen(command, stdout=lines, stderr=subprocess.STDOUT)
    client = Client(f"localhost:{port}")
    client.base = folder / "base"

    def ready():
        assert process.poll() is None, (folder / "lines").read_text()
        try:
            return client.states() == {2: "AVAILABLE", 1: "AVAILABLE"}
        except grpc.RpcError:
            return False

    try:
        wait_until(ready)
        yield client
    finally:
        client.channel.close()
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("row", REFUSALS)
def test_what_is_refused(client, row):
    call, code, message = REFUSALS[row]
    told = refusal(lambda: call(client))
    assert told[0] == code, told
    assert re.fullmatch(message, told[1]), told[1]


@pytest.mark.parametrize("row", ANSWERS)
def test_what_is_answered(client, row):
    call, expected = ANSWERS[row]
    assert call(client) == expected
