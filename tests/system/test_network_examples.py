"""The clients of examples/clients: the commands of examples/README.md, executed.

They call the embedded server.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.server_process import BATCHING, started_server
from t2t_keras.runs.training.workers import free_ports
from tests.forked import REPOSITORY
from tests.system.shouting import Shouting, save_model

pytestmark = pytest.mark.slow


class Example(NamedTuple):
    """A client, and what must be installed for it: programs, and files of packages."""

    section: str
    programs: tuple[str, ...]
    files: tuple[str, ...] = ()
    errors: str = "(?i)unavailable"


EXAMPLES = (
    Example("curl", ("curl", "jq"), errors="curl: "),
    Example("Node", ("node", "npm")),
    Example(
        "Go",
        ("go", "make", "protoc"),
        (
            "/usr/share/gocode/src/google.golang.org/grpc",
            "/usr/share/doc/protoc-gen-go-1-3",
        ),
    ),
    Example(
        "Java",
        ("java", "javac", "make", "protoc", "grpc_java_plugin"),
        tuple(
            f"/usr/share/java/{name}.jar"
            for name in (
                "geronimo-annotation-1.3-spec",
                "grpc-netty",
                "guava",
                "netty-transport",
                "perfmark-api",
                "protobuf",
            )
        ),
    ),
)
LINES = (
    "a b",
    "",
    "größer",
    "漢字 \U0001f642",
    " x ",
    "a\rb",
    "tab\tq\"uote' \\ $HOME",
    "x\u2028y",
    "1\x002",
    *(f"line {number}" for number in range(70)),
    "",
    "",
)


def upper(line):
    """Returns the translation of a line: what TensorFlow's op does to its bytes."""
    return line.encode().upper().decode()


@pytest.fixture(params=EXAMPLES, ids=lambda example: example.section)
def example(request):
    missing = [name for name in request.param.programs if not shutil.which(name)]
    missing += [name for name in request.param.files if not Path(name).exists()]
    if missing:
        pytest.skip(f"{request.param.section}: {' and '.join(missing)}: not installed")
    return request.param


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the examples, and of the .proto files that they need."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("node_modules", "build")
    for name in ("examples/clients", "t2t_keras/serving/protos"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Addresses in place of those of the page; batches above 32 are refused."""
    base = save_model(Shouting(), tmp_path_factory.mktemp("saved") / "base/1").parent
    rest = f"--rest_api_port={free_ports(1)[0]}"
    with started_server(base, rest, batching=BATCHING) as server:
        yield {
            "localhost:8500": server.address,
            "localhost:8501": server.rest_address,
        }


def commands(section):
    """Returns the commands in a section of the page: to prepare, and to translate."""
    page = (REPOSITORY / "examples/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^### {section}\n.*?```\n(.*?)```", page, re.M | re.S)
    *prepare, translate = block.replace("\\\n", "").splitlines()
    return prepare, translate


def run(command, folder, servers=None):
    for old, new in (servers or {}).items():
        command = command.replace(old, new)
    # npm would try for minutes to reach its registry.
    environment = os.environ | {"npm_config_fetch_retries": "0"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        env=environment,
        timeout=300,
    )


def install_packages(command, folder):
    """Runs a command; skips the test if npm cannot reach its registry."""
    done = run(command, folder)
    if command.startswith("npm") and done.returncode:
        pytest.skip(f"npm cannot install @grpc/grpc-js: {done.stderr.decode()[-300:]}")
    assert done.returncode == 0, done.stderr.decode()


def test_a_file_is_translated_line_by_line(example, checkout, servers):
    prepare, translate = commands(example.section)
    for command in prepare:
        install_packages(command, checkout)
    source, target = checkout / "source.txt", checkout / "target.txt"
    # bash has no strings with a NUL.
    lines = [line for line in LINES if example.section != "curl" or "\0" not in line]
    for text in ("\n".join([*lines, ""]), "\n".join([*lines, "no end"]), ""):
        source.write_bytes(text.encode())
        done = run(translate, checkout, servers)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        expected = upper(text)
        if text and not text.endswith("\n"):
            expected += "\n"
        assert target.read_bytes().decode() == expected
    source.write_text("a\n")
    nowhere = dict.fromkeys(servers, "localhost:1")
    refused = run(translate, checkout, nowhere)
    assert refused.returncode != 0 and target.read_bytes() == b""
    assert re.search(example.errors, refused.stderr.decode())


def test_an_error_of_the_server_is_printed(checkout, servers):
    (checkout / "source.txt").write_text("a\n")
    _, translate = commands("curl")
    for name in ("curl", "jq"):
        if not shutil.which(name):
            pytest.skip(f"{name}: not installed")
    wrong = translate.replace("models/translate", "models/other")
    refused = run(wrong, checkout, servers)
    assert refused.returncode != 0 and (checkout / "target.txt").read_bytes() == b""
    assert b"Servable not found for request: Latest(other)" in refused.stderr
