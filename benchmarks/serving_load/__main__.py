"""Load test of a server: latency, CPU, memory, refusals, wrong answers.

    python -m benchmarks.serving_load --model_base_path=runs/tiny/export \\
        --input=lines.txt
    python -m benchmarks.serving_load --server=host:8500 --input=lines.txt

The first starts the embedded server; the second measures a running one, over gRPC alone
and without CPU and memory.

Over each protocol (gRPC, REST, the translation API), in turn:

- Closed loop: each of `--clients` sends one line after another, so the server's speed
  determines the load.
- Slow clients: 16 clients send one line after another, alone and beside 16 others that
  send or read ten bytes a second.

At last the open loop over gRPC: requests arrive at `--rate` per second, whether or not
earlier ones are answered, like requests from people. Above its capacity the server must
refuse requests and not hang.

Every answer is compared with the answer to the same line before the load. Prints the
rows of a Markdown table.
"""

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.serving_load.clients import PROTOCOLS
from benchmarks.serving_load.loops import (
    Expected,
    Outcome,
    after,
    closed_loop,
    expected_answers,
    open_loop,
)
from benchmarks.serving_load.measuring import (
    NORMAL_CLIENTS,
    SLOW_CLIENTS,
    Usage,
    addresses,
    p95_beside_slow_clients,
    started_everything,
)


def main(argv: Sequence[str]) -> None:
    """Prints a row for each measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model_base_path", type=Path)
    which.add_argument("--server")
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
        _measure({"gRPC": args.server}, contextlib.nullcontext, texts, args)
        return
    with started_everything(args.model_base_path) as server:
        _measure(addresses(server), lambda: Usage(server), texts, args)


# Watches a server while the context lasts; None where it cannot be watched.
Watch = Callable[[], AbstractContextManager[Usage | None]]


def _measure(
    servers: Mapping[str, str],
    watch: Watch,
    texts: Sequence[bytes],
    args: argparse.Namespace,
) -> None:
    rates = {}
    for protocol, address in servers.items():
        expected = expected_answers(PROTOCOLS[protocol], address, texts)
        with watch() as usage:
            outcome = closed_loop(
                PROTOCOLS[protocol],
                address,
                expected,
                clients=args.clients,
                until=after(args.seconds),
            )
        rates[protocol] = outcome.statuses["OK"] / args.seconds
        _print(f"{protocol}, {args.clients} clients", outcome, args.seconds, usage)
        _measure_slow_clients(protocol, address, expected, args.seconds / 6)
    rate = args.rate or 2 * rates["gRPC"]
    expected = expected_answers(PROTOCOLS["gRPC"], servers["gRPC"], texts)
    with watch() as usage:
        outcome = open_loop(
            servers["gRPC"],
            expected,
            rate=rate,
            seconds=args.seconds,
            timeout=args.timeout_seconds,
        )
    what = f"gRPC, {rate:.0f} requests/s, to be answered in {args.timeout_seconds:g} s"
    _print(what, outcome, args.seconds, usage)


def _measure_slow_clients(
    protocol: str, address: str, expected: Expected, seconds: float
) -> None:
    alone, beside = (
        [outcome.percentile(95) for outcome in outcomes]
        for outcomes in p95_beside_slow_clients(protocol, address, expected, seconds)
    )
    ratio = statistics.median(beside) / statistics.median(alone)
    rounds = ", ".join(
        f"{1000 * before:.0f} and {1000 * after_:.0f} ms"
        for before, after_ in zip(alone, beside, strict=True)
    )
    print(
        f"| {protocol}, p95 of {NORMAL_CLIENTS} clients beside {SLOW_CLIENTS} slow "
        f"ones | {ratio:.2f} times that without; alone and beside: {rounds} |",
        flush=True,
    )


def _print(what: str, outcome: Outcome, seconds: float, usage: Usage | None) -> None:
    counts = ", ".join(f"{n} {name}" for name, n in outcome.statuses.most_common())
    times = ", ".join(
        f"p{percent} {1000 * outcome.percentile(percent):.0f} ms"
        for percent in (50, 95, 99)
        if outcome.seconds
    )
    used = ""
    if usage:
        cpu = 1000 * usage.cpu_seconds / max(outcome.statuses.total(), 1)
        used = (
            f"{cpu:.2f} ms of CPU per request; memory {usage.memory_mb[-1]:.0f} MB, "
            f"{100 * usage.growth():+.1f} % in the second half; "
        )
    print(
        f"| {what} | {outcome.statuses['OK'] / seconds:.0f} answers/s; {times}; "
        f"{used}{counts}; {len(outcome.wrong)} wrong, {outcome.lost} without an end |",
        flush=True,
    )
    for text, answer, right in outcome.wrong[:3]:
        print(f"wrong: {text!r}: {answer}, not {right}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
