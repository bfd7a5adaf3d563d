"""Load test of a server: latency, throughput, refusals, wrong answers, memory.

    python -m benchmarks.serving_load --model_base_path=runs/tiny/export \\
        --input=lines.txt
    python -m benchmarks.serving_load --server=host:8500 --input=lines.txt

In the closed loop each of `--clients` sends one line after another, so the server's
speed determines the load. In the open loop requests arrive at `--rate` per second,
whether or not earlier ones are answered, like requests from people. Above its capacity
the server must refuse requests and not hang. Every answer is compared with the answer
to the same line before the load. Prints the rows of a Markdown table.

Without `--server`, starts the development server with batching.
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
from t2t_keras.serving.client.calls import RetryPolicy, predict_method
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.tensors import (
    PredictRequest,
    nested_values,
    string_tensor,
)
from t2t_keras.serving.client.translation_client import (
    TranslatedText,
    TranslationClient,
)

Expected = Mapping[bytes, TranslatedText]


@dataclass
class Outcome:
    """Results of the requests of a loop.

    Attributes:
        statuses: Number of requests by the name of their status.
        seconds: Latency of each answer.
        wrong: Texts with an unexpected answer, and that answer.
        lost: Number of requests that had not ended long after their deadline.
    """

    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[tuple[bytes, TranslatedText]] = field(default_factory=list)
    lost: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def record(self, status: str, seconds: float) -> None:
        """Counts a request that ended."""
        with self.lock:
            self.statuses[status] += 1
            if status == "OK":
                self.seconds.append(seconds)

    def check(self, text: bytes, answer: TranslatedText, expected: Expected) -> None:
        """Records an answer whose text differs, or whose score differs by over 1e-5."""
        right = expected[text]
        if answer.text != right.text or not abs(answer.score - right.score) <= 1e-5:
            self.wrong.append((text, answer))

    def percentile(self, percent: float) -> float:
        """Returns a percentile of the latency in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def expected_answers(server: str, texts: Sequence[bytes]) -> Expected:
    """Returns a server's answer to each text, without load."""
    with TranslationClient(server) as client:
        return {text: client.translate([text])[0] for text in texts}


def closed_loop(
    server: str, expected: Expected, *, clients: int, seconds: float
) -> Outcome:
    """Runs clients that each send one text after another, without retries.

    Each has its own connection, as if it were on another machine.
    """
    outcome = Outcome()
    end = time.monotonic() + seconds

    def ask(seed: int) -> None:
        texts = list(expected)
        random.Random(seed).shuffle(texts)
        with TranslationClient(server, retry=RetryPolicy(0)) as client:
            for text in itertools.cycle(texts):
                start = time.monotonic()
                if start > end:
                    return
                try:
                    (answer,) = client.translate([text])
                except ServerError as error:
                    outcome.record(
                        error.code.name if error.code else "BROKEN",
                        time.monotonic() - start,
                    )
                else:
                    outcome.record("OK", time.monotonic() - start)
                    outcome.check(text, answer, expected)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def open_loop(
    server: str, expected: Expected, *, rate: float, seconds: float, timeout: float
) -> Outcome:
    """Sends requests at random times, on average `rate` per second."""
    outcome = Outcome()
    generator = random.Random(1)
    texts = list(expected)
    sent = 0
    with grpc.insecure_channel(server) as channel:
        predict = predict_method(channel)
        start = due = time.monotonic()
        while due < start + seconds:
            time.sleep(max(due - time.monotonic(), 0))
            text = generator.choice(texts)
            request = PredictRequest()
            request.model_spec.name = "translate"
            request.inputs[signature.TEXT].CopyFrom(string_tensor([text]))
            call = predict.future(request, timeout=timeout)
            call.add_done_callback(_make_callback(outcome, text, expected))
            sent += 1
            due += generator.expovariate(rate)
        # No call may exceed its timeout; the callbacks get some more time.
        deadline = time.monotonic() + timeout + 30
        while outcome.statuses.total() < sent and time.monotonic() < deadline:
            time.sleep(0.05)
        outcome.lost = sent - outcome.statuses.total()
    return outcome


def _make_callback(
    outcome: Outcome, text: bytes, expected: Expected
) -> Callable[[grpc.Future], None]:
    start = time.monotonic()

    def record(call: grpc.Future) -> None:
        seconds = time.monotonic() - start
        if call.code() is grpc.StatusCode.OK:  # type: ignore[attr-defined]
            outputs = call.result().outputs
            (translation,) = nested_values(outputs[signature.TRANSLATION])
            (score,) = nested_values(outputs[signature.SCORE])
            outcome.check(text, TranslatedText(translation.decode(), score), expected)
        outcome.record(call.code().name, seconds)  # type: ignore[attr-defined]

    return record


@contextlib.contextmanager
def memory_samples(server: ServerProcess) -> Iterator[list[float]]:
    """Yields a list that gets the server's memory, in 2**20 bytes, every 0.2 s."""
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


def main(argv: Sequence[str]) -> None:
    """Prints a row for each measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="")
    parser.add_argument("--model_base_path", type=Path)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--rate",
        type=float,
        help="Open loop: requests per second. Default: twice the closed loop's.",
    )
    parser.add_argument("--timeout_seconds", type=float, default=2.0)
    args = parser.parse_args(argv)
    texts = list(dict.fromkeys(args.input.read_bytes().splitlines()))[:512]
    print("| measured | figure |\n| --- | --- |", flush=True)
    if args.server:
        _measure(args.server, texts, args, [])
        return
    with (
        started_server(args.model_base_path, batching=BATCHING) as server,
        memory_samples(server) as samples,
    ):
        _measure(server.address, texts, args, samples)


def _measure(
    server: str,
    texts: Sequence[bytes],
    args: argparse.Namespace,
    samples: Sequence[float],
) -> None:
    expected = expected_answers(server, texts)
    before = len(samples)
    outcome = closed_loop(server, expected, clients=args.clients, seconds=args.seconds)
    _print(f"closed loop, {args.clients} clients", outcome, args.seconds)
    if samples:
        quarter = max((len(samples) - before) // 4, 1)
        early, late = (
            max(part) for part in (samples[before:][:quarter], samples[-quarter:])
        )
        print(f"| memory, first and last quarter | {early:.0f} MB, {late:.0f} MB |")
    rate = args.rate or 2 * outcome.statuses["OK"] / args.seconds
    outcome = open_loop(
        server,
        expected,
        rate=rate,
        seconds=args.seconds,
        timeout=args.timeout_seconds,
    )
    _print(
        f"open loop, {rate:.0f} requests/s, to be answered in "
        f"{args.timeout_seconds:g} s",
        outcome,
        args.seconds,
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
