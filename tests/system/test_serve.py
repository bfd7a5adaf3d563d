"""The serve program: output, shutdown by signals, and refused flags."""

import contextlib
import ctypes
import http.client
import os
import re
import resource
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from t2t_keras.runs.training.workers import free_ports
from tests.forked import ForkedProcess
from tests.in_process import run_program
from tests.server.tf_serving.clients import Client, refusal, wait_until
from tests.server.tf_serving.fake_model import save
from tests.server.tf_serving.warm_up_requests import predict_log, write


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The base directory of a model with versions 1 and 2."""
    folder = tmp_path_factory.mktemp("saved") / "base"
    for version in (1, 2):
        save(folder, version)
    return folder


@pytest.fixture
def base(saved, tmp_path):
    """A copy of it that the test may change."""
    return shutil.copytree(saved, tmp_path / "base")


WITH_FEW_FILES = """
import resource, runpy
_, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, highest))
runpy.run_module("t2t_keras.serve", run_name="__main__", alter_sys=True)
"""


STAMPED = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?:INFO|WARNING|ERROR) (.*)"
)


class Server:
    """Process of the serve program, with its output in files.

    It may open a few files only, unless it asks for more.
    """

    def __init__(self, folder, *arguments, code=WITH_FEW_FILES):
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            command = "-c", code, "--port=0", *arguments
            self.process = ForkedProcess(*command, stdout=out, stderr=err)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def lines(self):
        """Returns the lines of the log without time and level."""
        stamped = [STAMPED.fullmatch(line) for line in self.out.read_text().split("\n")]
        return [match[1] for match in stamped if match]

    def wait_for_line(self, start):
        def printed():
            return any(line.startswith(start) for line in self.lines())

        wait_until(
            lambda: printed() or self.process.poll() is not None,
            lambda: (self.lines(), self.err.read_text()),
        )
        assert printed(), self.err.read_text()

    def client(self):
        self.wait_for_line("serving ")
        port = re.fullmatch(r"serving .* on port (\d+)", self.lines()[-1]).group(1)
        return Client(f"localhost:{port}")


def start(folder, base, *arguments, **options):
    names = f"--model_base_path={base}", "--model_name=translate"
    return Server(folder, *names, *arguments, **options)


def is_closed(client):
    """Returns whether new requests are refused."""
    try:
        # A request that arrives while the server stops may get no answer.
        client.predict(text=[b"a"], timeout=2)
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.UNAVAILABLE
    return False


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_lets_requests_finish(tmp_path, base, number):
    parameters = tmp_path / "batching.config"
    # Two threads, because the waiting request holds one.
    parameters.write_text(
        "num_batch_threads { value: 2 } max_batch_size { value: 4 } "
        "allowed_batch_sizes: [4]"
    )
    with start(
        tmp_path,
        os.path.relpath(base),
        "--enable_batching",
        f"--batching_parameters_file={parameters}",
        "--max_rows=1",
    ) as server:
        client = server.client()
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        assert limits[0] == limits[1] > 256
        # The batching file allows more rows per request than --max_rows.
        assert client.predict("sums", ids=[[1], [2], [3]])["sum"] == [1, 2, 3]
        assert client.predict("sums", ids=[[1, 2]]) == {"sum": [3], "rows": [4]}
        with ThreadPoolExecutor(1) as pool:
            end = tmp_path / "end"
            waiting = client.predict_until(end, pool)
            server.process.send_signal(number)
            wait_until(lambda: is_closed(client))
            end.touch()
            assert waiting.result()["translation"] == [bytes(end).upper()]
        assert server.process.wait(300) == 128 + number
        assert server.err.read_text() == f"stopped by {number.name}\n"
        starting, loading, loaded, serving, unloaded = server.lines()
        assert starting == "starting …"
        assert loading == f"translate version 2 loading from {base / '2'} …"
        assert re.fullmatch(r"translate version 2 loaded in \d+\.\d s", loaded)
        assert serving.startswith("serving translate version 2 on port ")
        assert unloaded == "translate version 2 unloaded"
        assert len(server.out.read_text().splitlines()) == 5


def test_requests_are_logged(tmp_path, base):
    with start(tmp_path, base, "--access_log") as server:
        client = server.client()
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
        with pytest.raises(grpc.RpcError):
            client.predict("missing", text=[b"a"])
        wait_until(lambda: len(server.lines()) == 6)
        ok, refused = server.lines()[-2:]
        method = "PredictionService/Predict"
        assert re.fullmatch(rf"gRPC ipv4:127\S+ {method} OK \d+\.\d ms", ok)
        assert re.fullmatch(
            rf"gRPC ipv4:127\S+ {method} FAILED_PRECONDITION \d+\.\d ms", refused
        )


@pytest.mark.parametrize("files", [64, pytest.param(256, marks=pytest.mark.slow)])
def test_connections_leave_file_descriptors_to_all_else(tmp_path, base, files):
    """The first request comes when connections have taken what they may.

    Those over HTTP wait, those of gRPC are closed.
    """
    (port,) = free_ports(1)
    body = b'{"instances": ["a"]}'
    flags = f"--rest_api_port={port}", "--file_system_poll_wait_seconds=0"

    def ask(connection):
        connection.request("POST", "/v1/models/translate:predict", body)
        with connection.getresponse() as answer:
            return answer.status, answer.read()

    with contextlib.ExitStack() as stack:
        # As by `ulimit -n`.
        limited = WITH_FEW_FILES.replace("(256, highest)", f"({files}, {files})")
        server = stack.enter_context(start(tmp_path, base, *flags, code=limited))
        server.wait_for_line("serving ")
        first, last = (
            stack.enter_context(
                contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                )
            )
            for _ in range(2)
        )
        first.connect()
        with contextlib.ExitStack() as others:
            for _ in range(files):
                other = socket.create_connection(("127.0.0.1", port), timeout=60)
                others.enter_context(other)
            wait_until(lambda: count_waiting(server))
            grpc_port = int(server.lines()[-2].rpartition(" ")[2])
            flood = [
                others.enter_context(
                    socket.create_connection(("127.0.0.1", grpc_port), timeout=60)
                )
                for _ in range(files)
            ]
            # A server begins with its settings, unless it closes the connection.
            open_ones = sum(bool(each.recv(1)) for each in flood)
            assert 0 < open_ones <= files // 4
            status, answer = ask(first)
            assert (status, b"v2:a" in answer) == (200, True)
            time.sleep(2)
            assert count_waiting(server) == 1
        assert ask(last)[0] == 200
        client = Client(f"localhost:{grpc_port}")
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
        assert server.err.read_text() == ""
        assert server.process.poll() is None


def count_waiting(server):
    return sum("connections wait" in line for line in server.lines())


def test_a_full_disk_does_not_end_it(tmp_path, base):
    (port,) = free_ports(1)
    command = "-c", WITH_FEW_FILES, f"--model_base_path={base}", f"--port={port}"
    with open("/dev/full", "wb") as full, (tmp_path / "err").open("wb") as errors:
        process = ForkedProcess(
            *command, "--model_name=translate", stdout=full, stderr=errors
        )
        try:
            client = Client(f"localhost:{port}")
            wait_until(lambda: process.poll() is not None or not is_closed(client))
            assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
            process.terminate()
            assert process.wait(300) == 143
        finally:
            process.kill()
            process.wait()
    assert (tmp_path / "err").read_text() == "stopped by SIGTERM\n"


@pytest.mark.slow
def test_a_second_signal_does_not_wait(tmp_path, base):
    with start(tmp_path, base) as server, ThreadPoolExecutor(1) as pool:
        client = server.client()
        waiting = client.predict_until(tmp_path / "end", pool)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_closed(client))
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == -signal.SIGTERM
        assert isinstance(waiting.exception(), grpc.RpcError)


@pytest.mark.slow
def test_any_thread_may_receive_the_signal(tmp_path, base):
    """On one core, it is often a thread that is busy with a translation."""
    with start(tmp_path, base) as server:
        server.client()
        pid = server.process.pid
        others = {int(each) for each in os.listdir(f"/proc/{pid}/task")} - {pid}
        tgkill = ctypes.CDLL(None).tgkill
        # Some of them may have ended meanwhile.
        assert any(tgkill(pid, each, signal.SIGTERM) == 0 for each in sorted(others))
        assert server.process.wait(300) == 128 + signal.SIGTERM
        assert server.err.read_text() == "stopped by SIGTERM\n"


@pytest.mark.slow
def test_flags_allow_xla_and_limit_the_rows(tmp_path, base):
    flags = ("--xla_cpu_compilation_enabled", "--max_rows=2")
    with start(tmp_path, base, *flags) as server:
        client = server.client()
        assert client.predict("compiled", x=[1.5, 2.0]) == {"y": [3.0, 4.0]}
        code, message = refusal(lambda: client.predict("compiled", x=[1.5] * 3))
        assert code == "INVALID_ARGUMENT"
        assert "x has 3 rows; this server takes at most 2" in message


@pytest.mark.slow
def test_an_export_that_cannot_warm_up_is_not_served(tmp_path, base):
    """Here it needs XLA, which the server does not allow."""
    write(base / "2", predict_log("compiled", x=[1.0]))
    with start(tmp_path, base, "--max_num_load_retries=0") as server:
        assert server.process.wait(300) == 2
        assert "due to error: INTERNAL: XLA compilation disabled" in (
            server.err.read_text()
        )
        start_of_line = "translate version 2 could not be loaded: "
        assert sum(line.startswith(start_of_line) for line in server.lines()) == 1


REFUSED = (
    ((), "Give --model_base_path"),
    (("--model_base_path={base}/none",), "There is no directory {base}/none"),
    (("--model_base_path={run}",), "--model_base_path={run}/export"),
    (("{run}",), "--model_base_path={run}/export"),
    (("{base}", "x"), "--model_base_path={base}"),
    (
        ("--model_base_path={unexported}",),
        "t2t_keras.export --model_dir='{unexported}'",
    ),
    (("--model_config_file={base}/none",), "{base}/none cannot be read as a text"),
    (
        ("--model_base_path={base}", "--batching_parameters_file=x"),
        "--batching_parameters_file needs --enable_batching",
    ),
    (
        (
            "--model_base_path={base}",
            "--enable_batching",
            "--batching_parameters_file={bad}",
        ),
        "last entry was 3; expected 1000",
    ),
    (
        ("--model_config_file={labels}",),
        "The server cannot start: Request to assign label to version 1 of model m",
    ),
    (
        ("--model_base_path={base}", "--port={port}"),
        "127.0.0.1:{port} cannot be listened at",
    ),
    (
        ("--model_base_path={base}", "--ssl_config_file={bad}"),
        "{bad}: Error parsing text-format tensorflow.serving.SSLConfig",
    ),
    (
        ("--model_base_path={base}", "--grpc_channel_arguments=grpc.x"),
        "A channel argument is name=value. Received: grpc.x",
    ),
    (
        ("--model_base_path={base}", "--port=5", "--rest_api_port=5"),
        "--port and --rest_api_port must be different. Received: 5 twice.",
    ),
    (
        ("--model_base_path={base}", "--prefer_tflite_model"),
        "--prefer_tflite_model is not supported here: models of TensorFlow Lite",
    ),
    (
        ("--model_base_path={base}", "--translation_api_port=0"),
        "No version in {base} has a model_card.json. Give its languages",
    ),
    (("--server=a:1",), "--server needs --translation_api_port"),
    (("--server=a:1", "--translation_api_port=0"), "No model to translate with"),
    (
        ("--server=a:1", "--translation_api_port=0", "--port=1"),
        "--port is for models, which --server has.",
    ),
)


def test_bad_flags_are_refused(tmp_path, base):
    bad, labels = tmp_path / "bad", tmp_path / "labels"
    bad.write_text("allowed_batch_sizes: [3]")
    labels.write_text(
        f'model_config_list {{ config {{ name: "m" base_path: "{base}" '
        'model_platform: "tensorflow" version_labels { key: "a" value: 1 } } }'
    )
    names = {"base": base, "bad": bad, "labels": labels}
    for name, folder in (("run", "run"), ("unexported", "un exported")):
        names[name] = tmp_path / folder
        names[name].mkdir()
        (names[name] / "train.flags").touch()
    (names["run"] / "export").mkdir()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        names["port"] = listener.getsockname()[1]
        for arguments, message in REFUSED:
            done = run_program("serve", *[each.format(**names) for each in arguments])
            assert done.status == 2, (arguments, done.stderr)
            assert done.stderr.startswith("error: "), (arguments, done.stderr)
            assert message.format(**names) in done.stderr, (arguments, done.stderr)


def test_what_tensorflow_serving_accepts_is_accepted(tmp_path):
    """As its image starts it, whose base path need not exist beside the file."""
    file = tmp_path / "models.config"
    file.write_text('model_config_list { config { name: "no path" } }')
    done = run_program(
        "serve",
        "--rest_api_port=0",
        "--model_name=model",
        f"--model_base_path={tmp_path}/none",
        f"--model_config_file={file}",
        "--monitoring_config_file=x",
        "--rest_api_timeout_in_ms=-1",
        "--num_request_iterations_for_warmup=-1",
        "--load_retry_interval_micros=-1",
    )
    # Nothing else is wrong than the content of the file.
    assert done.status == 2
    assert "no path" in done.stderr, done.stderr
    lines = [STAMPED.fullmatch(line)[1] for line in done.lines]
    assert lines == [
        "--model_base_path and --model_name have no effect: --model_config_file lists "
        "the models",
        "--monitoring_config_file has no effect without --rest_api_port, where the "
        "metrics would be",
        "starting …",
    ]
