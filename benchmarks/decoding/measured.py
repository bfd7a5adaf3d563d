"""Sentences, timing and JSON output that the programs of this benchmark share.

Needs only the standard library and NumPy, because each peer runs in its own
environment.
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

# The base model, and the paper's beam search.
VOCABULARY, LAYERS, WIDTH, INNER, HEADS = 37_000, 6, 512, 2048, 8
# Layers of encoder and decoder: base, and a shallow decoder to compare with.
STACKS = (f"{LAYERS},{LAYERS}", "12,1")
BEAM, ALPHA = 4, 0.6
SENTENCES, LENGTH = 256, 25
EOS = 1
# The longest source, for programs that compile for one size.
LONGEST = 30

Sentences = list[list[int]]


def arguments(*, description: str, **choices: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed command line: common flags and a program's own choices."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batch", default="32", help="Batch sizes, comma-separated.")
    parser.add_argument("--model", type=Path, default=Path("runs/decoding_benchmark"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--at_once", type=int, default=1, help="Batches in flight, one thread each."
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--real_lengths", action="store_true")
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    return parser.parse_args()


def sentences(count: int, *, real_lengths: bool = False) -> Sentences:
    """Returns source ids without EOS, the same at each call.

    Args:
        count: Number of sentences.
        real_lengths: Whether lengths are distributed as in news, including EOS:
            log-normal, from 4 to 90, half of them between 17 and 29, mean 25.
            Otherwise they are from 20 to 30, mean 25.
    """
    sources = []
    for i in range(count):
        # A generator per sentence, so that a smaller count gives the same first ones.
        random = np.random.default_rng((0, i))
        if real_lengths:
            length = int(np.clip(round(random.lognormal(3.15, 0.5)), 4, 90))
        else:
            length = random.integers(20, 31)
        sources.append(random.integers(3, VOCABULARY, length - 1).tolist())
    return sources


def pad_batch(batch: Sentences, longest: int | None = None) -> np.ndarray:
    """Returns [B, S] int32: ids, EOS, then 0 up to `longest`.

    Default of `longest`: length of the longest sentence with EOS.
    """
    longest = longest or max(map(len, batch)) + 1
    ids_BS = np.zeros((len(batch), longest), "int32")
    for row, sentence in zip(ids_BS, batch, strict=True):
        row[: len(sentence) + 1] = [*sentence, EOS]
    return ids_BS


def measure(
    translate: Callable[[Sentences], Sentences], args: argparse.Namespace
) -> None:
    """Times a translator at each batch size and prints the figures as JSON.

    Args:
        translate: Function from source ids without EOS to the ids of the best
            hypotheses, including EOS if the program ends them with it.
        args: Result of `arguments`.
    """
    figures = {}
    for size in map(int, args.batch.split(",")):
        # One sentence at a time takes long, and all take the same time.
        count = min(args.sentences, 48) if size == 1 else args.sentences
        figures[size] = _measure_batch_size(translate, args, size, count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({"batches": figures, "peak_gigabytes": peak}))


def _measure_batch_size(
    translate: Callable[[Sentences], Sentences],
    args: argparse.Namespace,
    size: int,
    count: int,
) -> dict:
    count = max(count, size * args.at_once)
    sources = sentences(count, real_lengths=args.real_lengths)
    if args.real_lengths:
        sources.sort(key=len, reverse=True)
    batches = [sources[i : i + size] for i in range(0, count, size)]
    latencies: list[float] = []

    def translate_timed(batch: Sentences) -> Sentences:
        start = time.perf_counter()
        hypotheses = translate(batch)
        latencies.append(time.perf_counter() - start)
        return hypotheses

    rates, cpu_seconds, tokens = [], 0.0, 0
    with ThreadPoolExecutor(args.at_once) as pool:
        # Warm-up: graphs are pruned, memory is allocated, XLA compiles for each size.
        compiled = getattr(args, "xla", "off") == "on"
        all_sizes = compiled and args.real_lengths
        warm_up = batches if all_sizes else batches[: args.at_once]
        list(pool.map(translate, warm_up))
        for _ in range(args.rounds):
            start, cpu_start = time.perf_counter(), time.process_time()
            hypotheses = [
                one for batch in pool.map(translate_timed, batches) for one in batch
            ]
            seconds = time.perf_counter() - start
            cpu_seconds += time.process_time() - cpu_start
            tokens += sum(map(len, hypotheses))
            rates.append(sum(map(len, hypotheses)) / seconds)
    return {
        "tokens_per_second": statistics.median(rates),
        "rounds": [round(rate, 1) for rate in rates],
        # Other processes on the machine hardly change this.
        "tokens_per_cpu_second": tokens / cpu_seconds,
        "tokens": sum(map(len, hypotheses)),
        # Digests of how the first sentences begin: they must agree between programs.
        "first": [zlib.crc32(str(one[:18]).encode()) for one in hypotheses[:8]],
        "p50_ms": 1e3 * float(np.percentile(latencies, 50)),
        "p95_ms": 1e3 * float(np.percentile(latencies, 95)),
    }
