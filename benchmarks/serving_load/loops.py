"""Loops that send requests, time the answers, and compare each with the right one."""

import collections
import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc

from benchmarks.serving_load.clients import (
    Connect,
    RefusedError,
    make_request,
    read_answer,
)
from t2t_keras.serving.client.calls import predict_method
from t2t_keras.serving.client.translation_client import TranslatedText

Expected = Mapping[bytes, TranslatedText]


@dataclass
class Outcome:
    """Results of the requests of a loop.

    Attributes:
        statuses: Number of requests by the name of their status.
        seconds: Latency of each answer.
        wrong: Texts with an unexpected answer, that answer, and the expected one.
        lost: Number of requests that had not ended long after their deadline.
    """

    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[tuple[bytes, TranslatedText, TranslatedText]] = field(
        default_factory=list
    )
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
            self.wrong.append((text, answer, right))

    def percentile(self, percent: float) -> float:
        """Returns a percentile of the latency in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def expected_answers(
    connect: Connect, address: str, texts: Sequence[bytes]
) -> Expected:
    """Returns a server's answer to each text, without load."""
    with connect(address) as client:
        return {text: client.translate(text) for text in texts}


def closed_loop(
    connect: Connect,
    address: str,
    expected: Expected,
    *,
    clients: int,
    until: Callable[[], bool],
    fewest: int = 0,
) -> Outcome:
    """Runs clients that each send one text after another, each over its own connection.

    Args:
        connect: Opens a connection.
        address: host:port of the server.
        expected: Texts to send, and the right answers.
        clients: Number of clients, each in a thread.
        until: Returns whether they are to end.
        fewest: Requests that each sends in any case.
    """
    outcome = Outcome()

    def ask(seed: int) -> None:
        texts = list(expected)
        random.Random(seed).shuffle(texts)
        with connect(address) as client:
            for number, text in enumerate(itertools.cycle(texts)):
                if number >= fewest and until():
                    return
                start = time.monotonic()
                try:
                    answer = client.translate(text)
                except RefusedError as error:
                    outcome.record(error.status, time.monotonic() - start)
                    # A server that cannot be reached refuses at once.
                    time.sleep(0.02)
                else:
                    outcome.record("OK", time.monotonic() - start)
                    outcome.check(text, answer, expected)

    with ThreadPoolExecutor(clients) as executor:
        # The results are read so that a client that fails ends the test.
        list(executor.map(ask, range(clients)))
    return outcome


def after(seconds: float) -> Callable[[], bool]:
    """Returns a function that returns whether a time has passed since this call."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def open_loop(
    address: str, expected: Expected, *, rate: float, seconds: float, timeout: float
) -> Outcome:
    """Sends requests over gRPC at random times, on average `rate` per second."""
    outcome = Outcome()
    generator = random.Random(1)
    texts = list(expected)
    sent = 0
    with grpc.insecure_channel(address) as channel:
        predict = predict_method(channel)
        start = due = time.monotonic()
        while due < start + seconds:
            time.sleep(max(due - time.monotonic(), 0))
            text = generator.choice(texts)
            call = predict.future(make_request(text), timeout=timeout)
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
            outcome.check(text, read_answer(call.result()), expected)
        outcome.record(call.code().name, seconds)  # type: ignore[attr-defined]

    return record
