"""Speed of the input pipeline, without a model.

    python -m benchmarks.input_pipeline
    python -m benchmarks.input_pipeline --pairs=2000000 --batches=500
    python -m benchmarks.input_pipeline --plan_pairs=36000000
    python -m benchmarks.input_pipeline --mapped_pairs=36000000

The text is synthetic: words of a skewed vocabulary, in sentences as long as WMT14's (30
tokens on average, few above 100). It is read in both ways that training supports: as
text, tokenized into memory, and as records, mapped from disk. Prints the rows of a
Markdown table.

`--plan_pairs` measures only the planning of an epoch with that many random lengths.
`--mapped_pairs` opens records of that many pairs and makes batches from them. Their ids
are all zero and take no disk space.
"""

import argparse
import dataclasses
import itertools
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.pipeline import DataPosition, TrainingBatches
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.input_pipeline.records.manifest import (
    SIDES,
    Manifest,
    RecordSpec,
    open_records,
    open_vocabulary,
    read_manifest,
    write_length_counts,
)
from t2t_keras.input_pipeline.records.shards import (
    PAIRS_PER_START,
    ShardMetadata,
    shard_name,
)
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    TokenizedCorpus,
    tokenize_corpus,
)
from t2t_keras.runs.data import begun_records, from_settings, preparation
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.typing import DECODER_TARGET_TOKENS, ENCODER_INPUT_TOKENS

_SEED = 1
_FROM_THE_START = DataPosition()
_LINES_PER_CHUNK = 100_000


def main(argv: Sequence[str]) -> None:
    """Prints a row for each measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--tokens_per_batch", type=int, default=25_000)
    parser.add_argument("--vocabulary_size", type=int, default=8_000)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--pairs_per_shard", type=int, default=None)
    parser.add_argument("--plan_pairs", type=int, default=None)
    parser.add_argument("--mapped_pairs", type=int, default=None)
    args = parser.parse_args(argv)
    print("| measured | figure |\n| --- | --- |")
    if args.plan_pairs:
        _measure_plan(args.plan_pairs, args.tokens_per_batch)
        return
    with tempfile.TemporaryDirectory() as folder:
        if args.mapped_pairs:
            _measure_mapped(Path(folder), args)
        else:
            _measure_corpus(Path(folder), args)


def sample_lengths(num_pairs: int, number: int = 0) -> np.ndarray:
    """Returns [num_pairs, 2] int32 lengths, distributed as in WMT14.

    Args:
        num_pairs: Number of pairs.
        number: Others for each number.
    """
    generator = np.random.default_rng([_SEED, number] if number else _SEED)
    common = generator.normal(3.15, 0.6, num_pairs)
    sides = [common + generator.normal(0.0, 0.2, num_pairs) for _ in range(2)]
    return np.clip(np.exp(np.stack(sides, axis=1)), 2, 255).astype(np.int32) + 1


def write_corpus(folder: Path, num_pairs: int, vocabulary_size: int) -> DataConfig:
    """Writes synthetic text as long as WMT14's; returns settings for training on it."""
    lengths = sample_lengths(num_pairs)
    for side, name in enumerate(("source", "target")):
        with open(folder / name, "w", encoding="utf-8") as file:
            file.writelines(_lines(lengths[:, side], seed=side))
    return DataConfig(
        train_source=(str(folder / "source"),),
        train_target=(str(folder / "target"),),
        vocabulary_size=vocabulary_size,
    )


def _measure_plan(num_pairs: int, tokens_per_batch: int) -> None:
    lengths = sample_lengths(num_pairs)

    def plan_epoch(epoch: int) -> list:
        strategy = BucketBatching.from_lengths(
            lengths,
            max_shapes=DataConfig().max_shapes,
            tokens_per_batch=tokens_per_batch,
        )
        return list(strategy.plan(1, epoch))

    seconds, plan = _time_call(lambda: plan_epoch(0))
    # In a second run, because tracing memory takes time.
    tracemalloc.start()
    plan_epoch(1)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    _print_row(
        f"plan of an epoch of {num_pairs:,} pairs",
        f"{seconds:.1f} s, {len(plan):,} batches, {peak_bytes / 1e9:.2f} GB "
        "above the lengths",
    )


def _measure_mapped(folder: Path, args: argparse.Namespace) -> None:
    manifest = _write_sparse_records(
        folder,
        args.mapped_pairs,
        args.pairs_per_shard or begun_records.PAIRS_PER_SHARD,
    )
    config = DataConfig(tokens_per_batch=args.tokens_per_batch)
    name = f"records of {args.mapped_pairs:,} pairs"
    with _PeakMemory() as memory:
        seconds, corpus = _time_call(lambda: open_records(folder, manifest))
        _print_row(f"{name}: until they are open", f"{seconds:.2f} s")
        strategy = from_settings.build_batching_strategy(config, corpus)
        middle = strategy.num_windows // 2
        start = DataPosition(epoch=3, position=10, window=middle)
        _measure_batches(f"{name}, resumed", corpus, config, args.batches, start)
    _print_row(f"{name}: peak of the memory", f"{memory.gigabytes:.2f} GB more")


def _write_sparse_records(folder: Path, num_pairs: int, per_shard: int) -> Manifest:
    """Writes records with real lengths; their files of ids are sparse."""
    shards, counts = [], []
    for number, start in enumerate(range(0, num_pairs, per_shard)):
        part = sample_lengths(min(per_shard, num_pairs - start), number)
        path = folder / shard_name(number)
        path.mkdir()
        np.save(path / "lengths.npy", part.astype(np.uint16))
        before = np.cumsum(part, axis=0, dtype=np.uint64) - part
        np.save(path / "starts.npy", before.astype(np.uint64)[::PAIRS_PER_START])
        sizes = [int(size) for size in part.sum(axis=0)]
        for side, size in zip(SIDES, sizes, strict=True):
            np.lib.format.open_memmap(
                path / f"{side}.npy", mode="w+", dtype=np.uint16, shape=(size,)
            )
        report = TokenizationReport(len(part), 0, 0, sizes[0], sizes[1])
        shards.append(ShardMetadata(path.name, len(part), report, {}, "sparse"))
        counts.append(LengthCounts.from_lengths(part))
    total = sum((each.report for each in shards), TokenizationReport())
    lengths_sha256 = write_length_counts(folder, LengthCounts.join(counts))
    spec = RecordSpec({}, "hollow", num_pairs, "", 0, "", per_shard, 256)
    known = "", num_pairs, total, {}, tuple(shards), {}
    return Manifest(spec, *known, lengths_sha256)


class _PeakMemory:
    """Largest growth of this process's memory during a `with` block.

    Pages of mapped files do not count: the kernel drops them when memory is short.
    """

    def __enter__(self) -> "_PeakMemory":
        self._before = self._most = _resident_gigabytes()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ends.wait(0.02):
            self._most = max(self._most, _resident_gigabytes())

    @property
    def gigabytes(self) -> float:
        """The growth."""
        return self._most - self._before


def _measure_corpus(folder: Path, args: argparse.Namespace) -> None:
    config = write_corpus(folder, args.pairs, args.vocabulary_size)
    records = folder / "records"
    seconds, manifest = _time_call(
        lambda: preparation.prepare(
            config,
            records,
            pairs_per_shard=args.pairs_per_shard,
            workers=args.workers,
        )
    )
    _print_row(
        f"prepare {args.pairs:,} pairs, learning the vocabulary",
        f"{args.pairs / seconds:,.0f} pairs/s, {len(manifest.shards)} shards",
    )
    vocabulary = open_vocabulary(records, manifest.spec)
    corpus = from_settings.build_corpus(config)
    from_text: Callable[[], TokenizedCorpus] = lambda: tokenize_corpus(  # noqa: E731
        corpus.pairs("train"), vocabulary, config.max_length
    )
    for name, open_corpus in (
        ("text", from_text),
        ("records", lambda: open_records(records, read_manifest(records))),
    ):
        seconds, opened = _time_call(open_corpus)
        _print_row(f"{name}: until it is open", f"{seconds:.2f} s")
        config = dataclasses.replace(config, tokens_per_batch=args.tokens_per_batch)
        _measure_batches(name, opened, config, args.batches)


def _measure_batches(
    name: str,
    corpus: TokenizedCorpus,
    config: DataConfig,
    count: int,
    start: DataPosition = _FROM_THE_START,
) -> None:
    start_seconds = time.perf_counter()
    strategy = from_settings.build_batching_strategy(config, corpus)
    dataset = TrainingBatches(corpus, strategy, seed=_SEED, start=start).dataset()
    batches: Any = dataset.as_numpy_iterator()
    next(batches)
    _print_row(f"{name}: first batch", f"{time.perf_counter() - start_seconds:.2f} s")
    start_seconds = time.perf_counter()
    tokens = 0
    for batch in itertools.islice(batches, count):
        tokens += int(np.count_nonzero(batch[ENCODER_INPUT_TOKENS]))
        tokens += int(np.count_nonzero(batch[DECODER_TARGET_TOKENS]))
    seconds = time.perf_counter() - start_seconds
    pace = f", {tokens / seconds:,.0f} source and target tokens/s" if tokens else ""
    _print_row(
        f"{name}: {count} batches of {config.tokens_per_batch:,} tokens a side",
        f"{1000 * seconds / count:.1f} ms a batch{pace}",
    )


def _lines(lengths: np.ndarray, seed: int) -> Iterator[str]:
    """Yields lines of about the given numbers of subwords, at 1.3 per word."""
    generator = np.random.default_rng([_SEED, seed])
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = [
        "".join(generator.choice(letters, generator.integers(2, 11)))
        for _ in range(30_000)
    ]
    for start in range(0, len(lengths), _LINES_PER_CHUNK):
        for length in np.maximum(
            1, lengths[start : start + _LINES_PER_CHUNK] * 10 // 13
        ):
            ranks = generator.zipf(1.3, int(length)) % len(words)
            yield " ".join([words[rank] for rank in ranks]) + "\n"


def _time_call(call: Callable[[], Any]) -> tuple[float, Any]:
    start_seconds = time.perf_counter()
    result = call()
    return time.perf_counter() - start_seconds, result


def _resident_gigabytes() -> float:
    """Returns the resident memory of this process, without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(kilobytes) / 1e6


def _print_row(name: str, figure: str) -> None:
    print(f"| {name} | {figure} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
