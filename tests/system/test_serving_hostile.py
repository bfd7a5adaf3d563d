"""Robustness of the server against hostile requests, next to normal traffic."""

import collections
import contextlib
import http.client
import json
import os
import random
import re
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from benchmarks.server_process import BATCHING
from benchmarks.serving_load.measuring import (
    addresses,
    answers_of_all,
    load_of_all,
    started_everything,
)
from tests.system.hostile_http import MAX_BODY_BYTES, REST, hostile_http
from tests.system.hostile_requests import hostile_requests

LONG_DELAY = BATCHING.replace("2000", "5000")
# After that a server that waits for the rest of a request is told that there is none.
PATIENCE_SECONDS = 1


@pytest.fixture(scope="module")
def server(reverse_run):
    flags = f"--max_body_bytes={MAX_BODY_BYTES}", "--noenable_model_warmup"
    base = reverse_run.model_dir.export
    with started_everything(base, *flags, batching=LONG_DELAY) as started:
        limit_memory(started.process.pid)
        yield started


def limit_memory(pid):
    """Allows a process a gigabyte more than it has, beside the stacks of threads."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmData:\s+(\d+) kB$", status, re.M)
    stacks = (os.cpu_count() or 1) * 2**26
    most = int(kilobytes) * 1024 + 2**30 + stacks
    resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))


@pytest.fixture(scope="module")
def texts(reverse_run):
    """What normal clients send."""
    return [source.encode() for source, _ in reverse_run.held_out[:20]]


def few_or_many(few):
    slow = pytest.param(few, marks=pytest.mark.slow, id="few")
    many = [pytest.mark.release, pytest.mark.timeout(1800)]
    return pytest.mark.parametrize(
        "count", [slow, pytest.param(10_000, marks=many, id="many")]
    )


@few_or_many(200)
def test_hostile_requests_do_no_harm(server, texts, count):
    check_hostile_requests(server, texts, count)


@pytest.mark.release
def test_hostile_requests_that_are_not_batched_do_no_harm(reverse_run, texts):
    with started_everything(reverse_run.model_dir.export, batching="") as server:
        check_hostile_requests(server, texts, 1_000)


@contextlib.contextmanager
def normal_clients(server, texts):
    """Runs two clients of each protocol, all of whose answers must be right."""
    expected = answers_of_all(addresses(server), texts)
    # Each client sends each text.
    with load_of_all(addresses(server), expected, 2, len(texts)) as outcomes:
        yield
    for outcome in outcomes.values():
        assert set(outcome.statuses) == {"OK"}
        assert outcome.statuses["OK"] >= 2 * len(texts)
        assert outcome.wrong == []
    assert answers_of_all(addresses(server), texts) == expected


def new_seed():
    """Returns a seed, which pytest shows if the test fails."""
    seed = random.SystemRandom().randrange(2**31)
    print(f"hostile requests: seed {seed}")
    return seed


def check_hostile_requests(server, texts, count):
    """Sends hostile and normal requests at the same time, in the same batches."""
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(server.address, options) as channel:
        stub = PredictionServiceStub(channel)

        def send(hostile):
            """Returns the status, and a description of the fault or an empty text."""
            try:
                outputs = stub.Predict(hostile.request, timeout=120).outputs.values()
            except grpc.RpcError as error:
                code, facts = error.code(), error.details()
                right = code in hostile.proper
            else:
                code, facts = grpc.StatusCode.OK, {first_size(each) for each in outputs}
                right = code in hostile.proper and (
                    hostile.rows is None or facts == {hostile.rows}
                )
            return code.name, "" if right else f"{code}, {facts}: {str(hostile)[:500]}"

        with (
            normal_clients(server, texts),
            ThreadPoolExecutor(16) as hostile_clients,
        ):
            ended = list(hostile_clients.map(send, hostile_requests(count, new_seed())))
    codes = collections.Counter(code for code, _ in ended)
    assert [wrong for _, wrong in ended if wrong] == []
    assert len(ended) == count
    # The generator made enough requests of each kind.
    assert codes["OK"] > count / 2 and codes["INVALID_ARGUMENT"] > count / 20
    assert codes["NOT_FOUND"] > count / 200


def first_size(tensor):
    return tensor.tensor_shape.dim[0].size


@few_or_many(300)
def test_hostile_http_requests_do_no_harm(server, texts, count):
    """Requests to both APIs, beside normal clients."""
    ports = addresses(server)

    def send(hostile):
        """Returns the status, None without one, and a description of a fault."""
        status, content = exchange(ports[hostile.api], hostile)
        fault = ""
        if status is None:
            fault = "no answer" if hostile.answered else ""
        elif status not in hostile.statuses:
            fault = "another status"
        elif hostile.rows is not None and rows_of(hostile.api, content) != hostile.rows:
            fault = "another number of rows"
        what = f"{fault}: {status} {content[:300]!r} to {hostile.api} "
        return status, fault and what + f"{hostile.data[:700]!r}"

    with (
        normal_clients(server, texts),
        ThreadPoolExecutor(16) as hostile_clients,
    ):
        ended = list(hostile_clients.map(send, hostile_http(count, new_seed())))
    assert [fault for _, fault in ended if fault] == []
    statuses = collections.Counter(status for status, _ in ended)
    assert sum(statuses.values()) == count
    # The generator made enough requests of each kind.
    assert statuses[200] > count / 10 and statuses[400] > count / 4
    assert min(statuses[code] for code in (405, 413, 415)) > 0


def exchange(address, hostile):
    """Sends bytes; returns the status of the answer, or None, and its body."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        # The server may refuse, and end the connection, before it has read all.
        with contextlib.suppress(OSError):
            connection.sendall(hostile.data)
        if not hostile.answered:
            connection.settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            connection.recv(1, socket.MSG_PEEK)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        connection.settimeout(120)
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
            return response.status, response.read()
        except (http.client.HTTPException, OSError):
            return None, b""


def rows_of(api, content):
    """Returns the number of translations in an answer."""
    answer = json.loads(content)
    return len(answer["predictions" if api == REST else "translatedText"])
