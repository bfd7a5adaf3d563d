"""A server under load: latency, throughput, refusals, wrong answers, memory.

    python -m benchmarks.serving_load --model_base_path=runs/tiny/export \\
        --input=lines.txt
    python -m benchmarks.serving_load --server=host:8500 --input=lines.txt

In the closed loop each of `--clients` asks for one line after another, so that the
load is what the server takes. In the open loop requests come at `--rate` a second,
whether or not those before are answered, as they do from people; above what the
server takes, it must refuse, and not hang. Every answer is held against that to the
same line before the load. Rows of a Markdown table come out on standard output.

Without `--server`, the embedded one is started, with batching.
"""

import argparse
import collections
import contextlib
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from benchmarks.server_process import BATCHING, ServerProcess, started_server
from t2t_keras.serving import signature
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.protos import PredictionServiceStub, PredictRequest
from t2t_keras.serving.client.retries import RetryPolicy
from t2t_keras.serving.client.tensors import nested_values, string_tensor
from t2t_keras.serving.client.translation_client import (
    TranslatedText,
    TranslationClient,
)

Expected = Mapping[bytes, TranslatedText]


@dataclass
class Outcome:
    """What came of all requests of a loop.

    Attributes:
        statuses: How many ended with each status, by its name.
        seconds: Of each answer, from asking to having.
        wrong: Texts whose answer was another than expected, with that answer.
        lost: Requests that did not end, long after their time.
    """

    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[tuple[bytes, TranslatedText]] = field(default_factory=list)
    lost: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, status: str, seconds: float) -> None:
        """Counts a request that ended."""
        with self.lock:
            self.statuses[status] += 1
            if status == "OK":
                self.seconds.append(seconds)

    def check(self, text: bytes, found: TranslatedText, expected: Expected) -> None:
        """Notes an answer that is not as expected: the text, or by 1e-5 its score."""
        wanted = expected[text]
        if found.text != wanted.text or not abs(found.score - wanted.score) <= 1e-5:
            self.wrong.append((text, found))

    def percentile(self, percent: float) -> float:
        """Returns the time, in seconds, that so many answers did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def expected_answers(server: str, texts: Sequence[bytes]) -> Expected:
    """Returns what a server says to each text, when it has time."""
    with TranslationClient(server) as client:
        return {text: client.translate([text])[0] for text in texts}


def closed_loop(
    server: str, expected: Expected, *, clients: int, seconds: float
) -> Outcome:
    """Lets so many clients ask one thing after another; none repeats a call.

    Each has a connection of its own, as if it were on another machine.
    """
    outcome = Outcome()
    end = time.monotonic() + seconds

    def ask(seed: int) -> None:
        texts = list(expected)
        random.Random(seed).shuffle(texts)
        with TranslationClient(server, retry=RetryPolicy(0)) as client:
            for text in itertools.cycle(texts):
                started = time.monotonic()
                if started > end:
                    return
                try:
                    (found,) = client.translate([text])
                except ServerError as error:
                    outcome.note(
                        error.code.name if error.code else "BROKEN",
                        time.monotonic() - started,
                    )
                else:
                    outcome.note("OK", time.monotonic() - started)
                    outcome.check(text, found, expected)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def open_loop(
    server: str, expected: Expected, *, rate: float, seconds: float, timeout: float
) -> Outcome:
    """Sends requests at random times, `rate` of them a second on average."""
    outcome = Outcome()
    generator = random.Random(1)
    texts = list(expected)
    sent = 0
    with grpc.insecure_channel(server) as channel:
        stub = PredictionServiceStub(channel)
        started = due = time.monotonic()
        while due < started + seconds:
            time.sleep(max(due - time.monotonic(), 0))
            text = generator.choice(texts)
            request = PredictRequest()
            request.model_spec.name = "translate"
            request.inputs[signature.TEXT].CopyFrom(string_tensor([text]))
            call = stub.Predict.future(request, timeout=timeout)
            call.add_done_callback(_noting(outcome, text, expected))
            sent += 1
            due += generator.expovariate(rate)
        # No call may take longer than its deadline; a little more for the callbacks.
        patience = time.monotonic() + timeout + 30
        while outcome.statuses.total() < sent and time.monotonic() < patience:
            time.sleep(0.05)
        outcome.lost = sent - outcome.statuses.total()
    return outcome


def _noting(
    outcome: Outcome, text: bytes, expected: Expected
) -> Callable[[grpc.Future], None]:
    asked = time.monotonic()

    def note(call: grpc.Future) -> None:
        seconds = time.monotonic() - asked
        if call.code() is grpc.StatusCode.OK:  # type: ignore[attr-defined]
            outputs = call.result().outputs
            (translation,) = nested_values(outputs[signature.TRANSLATION])
            (score,) = nested_values(outputs[signature.SCORE])
            outcome.check(text, TranslatedText(translation.decode(), score), expected)
        outcome.note(call.code().name, seconds)  # type: ignore[attr-defined]

    return note


@contextlib.contextmanager
def memory_samples(server: ServerProcess) -> Iterator[list[float]]:
    """Yields a list that grows by the server's memory, in 2**20 bytes, each 0.2 s."""
    samples: list[float] = []
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(0.2):
            samples.append(server.memory_mb())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def main(arguments: Sequence[str]) -> None:
    """Measures, and prints a row for each thing measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="")
    parser.add_argument("--model_base_path", type=Path)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--rate", type=float, help="of the open loop; twice what it takes if not given"
    )
    parser.add_argument("--timeout_seconds", type=float, default=2.0)
    chosen = parser.parse_args(arguments)
    texts = list(dict.fromkeys(chosen.input.read_bytes().splitlines()))[:512]
    print("| measured | figure |\n| --- | --- |", flush=True)
    if chosen.server:
        _measure(chosen.server, texts, chosen, [])
        return
    with (
        started_server(chosen.model_base_path, batching=BATCHING) as server,
        memory_samples(server) as samples,
    ):
        _measure(server.address, texts, chosen, samples)


def _measure(
    server: str,
    texts: Sequence[bytes],
    chosen: argparse.Namespace,
    samples: Sequence[float],
) -> None:
    expected = expected_answers(server, texts)
    before = len(samples)
    outcome = closed_loop(
        server, expected, clients=chosen.clients, seconds=chosen.seconds
    )
    _print(f"closed loop, {chosen.clients} clients", outcome, chosen.seconds)
    if samples:
        quarter = max((len(samples) - before) // 4, 1)
        early, late = (
            max(part) for part in (samples[before:][:quarter], samples[-quarter:])
        )
        print(f"| memory, first and last quarter | {early:.0f} MB, {late:.0f} MB |")
    rate = chosen.rate or 2 * outcome.statuses["OK"] / chosen.seconds
    outcome = open_loop(
        server,
        expected,
        rate=rate,
        seconds=chosen.seconds,
        timeout=chosen.timeout_seconds,
    )
    _print(
        f"open loop, {rate:.0f} requests/s, to be answered in "
        f"{chosen.timeout_seconds:g} s",
        outcome,
        chosen.seconds,
    )


def _print(what: str, outcome: Outcome, seconds: float) -> None:
    counts = ", ".join(f"{n} {name}" for name, n in outcome.statuses.most_common())
    times = ", ".join(
        f"p{percent} {1000 * outcome.percentile(percent):.0f} ms"
        for percent in (50, 95, 99)
        if outcome.seconds
    )
    print(
        f"| {what} | {outcome.statuses['OK'] / seconds:.0f} answers/s; {times}; "
        f"{counts}; {len(outcome.wrong)} wrong, {outcome.lost} without an end |",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
