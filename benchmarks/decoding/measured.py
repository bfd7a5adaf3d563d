"""What every program of this benchmark does alike: sentences, timing, one line of JSON.

Standard library and NumPy only: each peer runs in an environment of its own.
"""

import argparse
import json
import resource
import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

# Base, and the search that the paper translates with.
VOCABULARY, LAYERS, WIDTH, INNER, HEADS = 37_000, 6, 512, 2048, 8
BEAM, ALPHA = 4, 0.6
SENTENCES, LENGTH = 256, 25
EOS = 1
# The longest source, for programs that are compiled for one size.
LONGEST = 30

Sentences = list[list[int]]


def arguments(*, description: str, **choices: Sequence[str]) -> argparse.Namespace:
    """Returns the batch sizes and threads, and what else a program may be told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batch", default="32", help="Batch sizes, comma-separated.")
    parser.add_argument("--model", type=Path, default=Path("runs/decoding_benchmark"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--at_once", type=int, default=1, help="Batches in flight, of one thread each."
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--real_lengths", action="store_true")
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    return parser.parse_args()


def sentences(count: int, *, real_lengths: bool = False) -> Sentences:
    """Returns source ids without EOS, always the same.

    Args:
        count: How many.
        real_lengths: Whether lengths are spread as in news, EOS counted: log-normal,
            from 4 to 90, half of them between 17 and 29, mean 25. If not, they are
            from 20 to 30, mean 25.
    """
    found = []
    for i in range(count):
        # Each its own, so that fewer sentences are the first of more.
        random = np.random.default_rng((0, i))
        if real_lengths:
            length = int(np.clip(round(random.lognormal(3.15, 0.5)), 4, 90))
        else:
            length = random.integers(20, 31)
        found.append(random.integers(3, VOCABULARY, length - 1).tolist())
    return found


def padded(batch: Sentences, longest: int | None = None) -> np.ndarray:
    """Returns [B, S] int32: ids, EOS, then 0 up to the longest or what is given."""
    longest = longest or max(map(len, batch)) + 1
    ids_BS = np.zeros((len(batch), longest), "int32")
    for row, sentence in zip(ids_BS, batch, strict=True):
        row[: len(sentence) + 1] = [*sentence, EOS]
    return ids_BS


def measure(
    translate: Callable[[Sentences], Sentences], given: argparse.Namespace
) -> None:
    """Times a translator at each batch size, and prints what it took as JSON.

    Args:
        translate: Source ids without EOS to the ids of the best hypotheses, EOS
            counted as one of them where the program ends with it.
        given: What `arguments` returned.
    """
    found = {}
    for size in map(int, given.batch.split(",")):
        # One by one they take long, and all take the same.
        count = min(given.sentences, 48) if size == 1 else given.sentences
        found[size] = _at_size(translate, given, size, count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({"batches": found, "peak_gigabytes": peak}))


def _at_size(
    translate: Callable[[Sentences], Sentences],
    given: argparse.Namespace,
    size: int,
    count: int,
) -> dict:
    count = max(count, size * given.at_once)
    given_sentences = sentences(count, real_lengths=given.real_lengths)
    if given.real_lengths:
        given_sentences.sort(key=len, reverse=True)
    batches = [given_sentences[i : i + size] for i in range(0, count, size)]
    latencies: list[float] = []

    def timed(batch: Sentences) -> Sentences:
        start = time.perf_counter()
        found = translate(batch)
        latencies.append(time.perf_counter() - start)
        return found

    rates, cpu_seconds, tokens = [], 0.0, 0
    with ThreadPoolExecutor(given.at_once) as pool:
        # Once for nothing: graphs are pruned, memory is fetched, XLA compiles sizes.
        compiled = getattr(given, "xla", "off") == "on"
        all_sizes = compiled and given.real_lengths
        warm_up = batches if all_sizes else batches[: given.at_once]
        list(pool.map(translate, warm_up))
        for _ in range(given.rounds):
            start, cpu_start = time.perf_counter(), time.process_time()
            found = [one for batch in pool.map(timed, batches) for one in batch]
            seconds = time.perf_counter() - start
            cpu_seconds += time.process_time() - cpu_start
            tokens += sum(map(len, found))
            rates.append(sum(map(len, found)) / seconds)
    return {
        "tokens_per_second": statistics.median(rates),
        "rounds": [round(rate, 1) for rate in rates],
        # What other processes on the machine hardly change.
        "tokens_per_cpu_second": tokens / cpu_seconds,
        "tokens": sum(map(len, found)),
        # What the first sentences begin with: all programs must find the same.
        "first": [zlib.crc32(str(one[:18]).encode()) for one in found[:8]],
        "p50_ms": 1e3 * float(np.percentile(latencies, 50)),
        "p95_ms": 1e3 * float(np.percentile(latencies, 95)),
    }
