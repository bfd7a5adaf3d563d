"""Command lines, probes and curl commands of an export's files and of the pages.

All are run with the embedded server, unchanged but for ports and the folder of the
export.
"""

import json
import re
import shutil
import subprocess
import urllib.request
from typing import NamedTuple

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.server_process import started_command
from t2t_keras.runs.training.workers import free_ports
from tests.forked import REPOSITORY

pytestmark = pytest.mark.slow

PAGES = ("README.md", "docs/serving.md", "docs/embedded_server.md")


class Served(NamedTuple):
    """An export that is served by the command line of its kubernetes.yaml."""

    folder: object
    container: dict
    ports: dict[int, int]


@pytest.fixture(scope="module")
def served(reverse_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "export"
    shutil.copytree(reverse_run.model_dir.export, folder)
    for path in folder.glob("*.*"):
        # Not the path of REST, /v1/models/translate.
        text = re.sub("(?<!v1)/models/translate", str(folder), path.read_text())
        path.write_text(text)
    ports = dict(zip((8500, 8501, 5000), free_ports(3), strict=True))
    deployment = next(yaml.safe_load_all((folder / "kubernetes.yaml").read_text()))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    gateway = ("--translation_api_port=5000", "--language_pairs=translate:en:de")
    flags = [with_ports(each, ports) for each in (*container["args"], *gateway)]
    with started_command(flags):
        yield Served(folder, container, ports)


def with_ports(text, ports):
    return re.sub(r"\b(8500|8501|5000)\b", lambda m: str(ports[int(m[1])]), text)


def test_the_probes_of_kubernetes_succeed(served):
    names = {
        each["name"]: served.ports[each["containerPort"]]
        for each in served.container["ports"]
    }
    http = served.container["readinessProbe"]["httpGet"]
    url = f"http://localhost:{names[http['port']]}{http['path']}"
    with urllib.request.urlopen(url, timeout=60) as response:
        assert response.status == 200
    for probe in ("startupProbe", "livenessProbe"):
        port = served.ports[served.container[probe]["grpc"]["port"]]
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_prometheus_finds_its_page(served):
    text = (served.folder / "kubernetes.yaml").read_text()
    path = re.search(r"prometheus.io/path: (.*)", text)[1]
    port = served.ports[int(re.search(r'prometheus.io/port: "(.*)"', text)[1])]
    with urllib.request.urlopen(f"http://localhost:{port}{path}") as response:
        assert b":tensorflow:serving:model_warmup_latency" in response.read()


def test_the_health_check_of_compose_succeeds(served):
    compose = yaml.safe_load((served.folder / "compose.yaml").read_text())
    service = compose["services"]["tensorflow-serving"]
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    command = [with_ports(each, served.ports) for each in command]
    assert subprocess.run(command, timeout=60).returncode == 0
    # It can fail.
    command = [each.replace("AVAILABLE", "AWAY") for each in command]
    assert subprocess.run(command, timeout=60).returncode != 0


def curl_commands(text):
    """Returns the commands of curl in a page, which may have several lines."""
    return re.findall(r"^ *(curl (?:.*\\\n)*.*)$", text, re.M)


def test_the_curl_commands_of_the_pages_answer(served):
    pages = [(REPOSITORY / page).read_text(encoding="utf-8") for page in PAGES]
    pages.append((served.folder / "README.md").read_text(encoding="utf-8"))
    commands = [each for page in pages for each in curl_commands(page)]
    assert len(commands) >= 3
    for command in commands:
        (row,) = run(command, served)["predictions"]
        assert isinstance(row["translation"], str) and row["score"] < 0


def test_the_curl_commands_of_the_translation_api_answer(served):
    page = (REPOSITORY / "docs/translation_api.md").read_text(encoding="utf-8")
    commands = curl_commands(page)
    assert commands
    for command in commands:
        assert isinstance(run(command, served)["translatedText"], str)


def run(command, served):
    """Returns the JSON that a command prints."""
    done = subprocess.run(
        ["bash", "-ec", with_ports(command, served.ports)],
        stdout=subprocess.PIPE,
        timeout=120,
    )
    assert done.returncode == 0, command
    return json.loads(done.stdout)
