"""Start of a server and first calls of signatures, by what an export warms up.

    python -m benchmarks.warm_up --model_dir=runs/tiny

Exports the run once for each choice of `--warm_up`, starts the embedded server on each
export in turn, and calls each signature twice with one short text. The first call of a
signature is slow, because TensorFlow then optimizes its graph. Prints a Markdown table.
The machine should be idle.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from benchmarks.server_process import ServerProcess, started_server
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.serving import signature
from t2t_keras.settings.decoding_config import DecodingConfig

SIGNATURES = ExportSettings(DecodingConfig()).signatures("text")
CHOICES = ("all", signature.TRANSLATE, "none")
TEXT = b"The old teacher gave the child three red apples."


class Measured(NamedTuple):
    """Times in seconds.

    Attributes:
        ready: From the server's start until it accepts requests.
        load: Its load of the version, warm-up included.
        calls: First and second call of each signature, by its name.
    """

    ready: float
    load: float
    calls: Mapping[str, tuple[float, float]]


def make_request(name: str) -> predict_pb2.PredictRequest:
    """Returns a request of one text to a signature of a text export."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "translate"
    request.model_spec.signature_name = name
    pair = (signature.SCORE_TARGET, signature.ATTENTION)
    texts = (signature.SOURCE, signature.TARGET) if name in pair else (signature.TEXT,)
    numbers: dict[str, Any] = {}
    if name == signature.TRANSLATE_IDS:
        texts, numbers = (), {signature.INPUT_IDS: np.array([[5, 6, 7, 1]], np.int32)}
    if name == signature.TRANSLATE_WITH_OPTIONS:
        numbers = {
            signature.BEAM_SIZE: np.array([2], np.int32),
            signature.ALPHA: np.array([0.6], np.float32),
            signature.MAX_LENGTH: np.array([20], np.int32),
        }
    for alias in texts:
        request.inputs[alias].CopyFrom(tf.make_tensor_proto([TEXT]))
    for alias, value in numbers.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
    return request


def measure(base: Path) -> Measured:
    """Starts a server of the newest version below `base`, and calls it."""
    requests = {name: make_request(name) for name in SIGNATURES}
    start = time.monotonic()
    with started_server(base) as server:
        ready = time.monotonic() - start
        with grpc.insecure_channel(server.address) as channel:
            grpc.channel_ready_future(channel).result(60)
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            calls = {}
            for name, request in requests.items():
                calls[name] = _call(stub, request), _call(stub, request)
    return Measured(ready, _load_seconds(server), calls)


def _call(stub: Any, request: predict_pb2.PredictRequest) -> float:
    start = time.monotonic()
    stub.Predict(request, timeout=600)
    return time.monotonic() - start


def _load_seconds(server: ServerProcess) -> float:
    """Returns the duration of the load that the server printed."""
    match = re.search(r"loaded in ([\d.]+) s", "\n".join(server.lines))
    if match is None:
        raise RuntimeError(f"the server printed no load: {server.lines}")
    return float(match[1])


def export(model_dir: Path, copy: Path, warm_up: str) -> Path:
    """Exports a copy of a run, and returns the directory of the version's parent."""
    ignored = shutil.ignore_patterns("export*")
    shutil.copytree(model_dir, copy, ignore=ignored)
    command = [sys.executable, "-m", "t2t_keras.export", f"--model_dir={copy}"]
    command += ["--format=text", f"--warm_up={warm_up}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return copy / "export"


def print_table(measured: Mapping[str, Sequence[Measured]]) -> None:
    """Prints the smallest and the largest time of each choice and measurement."""
    print("| seconds |", " | ".join(f"`{name}`" for name in measured), "|")
    print("| --- |", " | ".join("---" for _ in measured), "|")
    rows = {
        "start until ready": lambda each: each.ready,
        "load": lambda each: each.load,
    }
    for name in SIGNATURES:
        rows[f"`{name}`, first call"] = lambda each, name=name: each.calls[name][0]
        rows[f"`{name}`, second call"] = lambda each, name=name: each.calls[name][1]
    for title, value in rows.items():
        cells = []
        for runs in measured.values():
            values = [value(each) for each in runs]
            cells.append(f"{min(values):.2f} to {max(values):.2f}")
        print(f"| {title} |", " | ".join(cells), "|")


def main(argv: Sequence[str]) -> None:
    """Measures each choice of --warm_up and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--starts", type=int, default=3, help="starts of each export")
    parser.add_argument("--choices", nargs="+", default=CHOICES)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        bases = {
            name: export(arguments.model_dir, Path(folder, str(index)), name)
            for index, name in enumerate(arguments.choices)
        }
        measured: dict[str, list[Measured]] = {name: [] for name in bases}
        # The choices take turns, so that load on the machine concerns all of them.
        for _ in range(arguments.starts):
            for name, base in bases.items():
                measured[name].append(measure(base))
    print_table(measured)


if __name__ == "__main__":
    main(sys.argv[1:])
