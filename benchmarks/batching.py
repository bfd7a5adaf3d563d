"""Speed of packing compared with bucketing: real target tokens trained per second.

    python -m benchmarks.batching
    python -m benchmarks.batching --config=base --vocabulary_size=37000 --steps=5

Both train the same model on the same corpus, synthetic text with the lengths of WMT14.
Batches are made as by `--batching=bucket` and `--batching=pack`, updates as by `train`.
Each strategy first compiles its shapes, as training does before step 1. Then both train
alternately, a few steps each, so that a change in the machine's speed affects both.
Times include the wait for a batch. Padding does not count as tokens.
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.input_pipeline import write_corpus
from benchmarks.product_step import build_product_step, load_config
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.batches.summary import batching_summary
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus, tokenize_corpus
from t2t_keras.runs.data import from_settings
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.training.profiling import training_flops
from t2t_keras.typing import BatchSize

# Two layers, so that the benchmark takes minutes.
SMALL = ModelConfig(num_layers=2, d_model=256, d_ff=1024, num_heads=4)
# With more subwords the synthetic text would have fewer tokens than WMT14's. The
# embedding may still be larger.
_MAX_SUBWORDS = 8_000


class TimedStep(NamedTuple):
    """Time and work of a training step, including the wait for its batch."""

    seconds: float
    target_tokens: float
    """Number of target tokens in the loss, without padding."""
    size: BatchSize
    flops: float


def tokens_per_second(steps: Sequence[TimedStep]) -> float:
    """Returns real target tokens per second."""
    seconds = sum(step.seconds for step in steps)
    return sum(step.target_tokens for step in steps) / seconds


def real_token_fraction(steps: Sequence[TimedStep]) -> float:
    """Returns the fraction of positions that hold a token, over both sides."""
    tokens = sum(step.size.source_tokens + step.size.target_tokens for step in steps)
    return tokens / sum(step.size.positions for step in steps)


def megaflops_per_token(steps: Sequence[TimedStep]) -> float:
    """Returns the MFLOPs per real target token; padding counts as work."""
    tokens = sum(step.target_tokens for step in steps)
    return sum(step.flops for step in steps) / tokens / 1e6


class StrategyTrial:
    """Timed training with one batching strategy, on a model of its own.

    Attributes:
        rounds: Steps trained so far, by round.
        first_seconds: Duration of the first step of each shape, which may compile.
    """

    def __init__(self, config: ExperimentConfig, corpus: TokenizedCorpus, words: int):
        self._name = config.data.batching
        self._strategy = from_settings.build_batching_strategy(config.data, corpus)
        self._product = build_product_step(config, words, packed=self._strategy.packed)
        self._batches = TrainingBatches(corpus, self._strategy, seed=0)
        self._upcoming = iter(self._batches)
        self._description = batching_summary(corpus, self._strategy).describe()
        self.rounds: list[list[TimedStep]] = []
        self.first_seconds: list[float] = []

    def describe(self) -> str:
        """Returns a line on how the corpus is batched."""
        return f"{self._name}: {self._description}"

    def compile_shapes(self) -> None:
        """Runs a step of each shape once and prints a line for each."""
        for shape in self._strategy.shapes:
            start = time.perf_counter()
            sums = self._product.stepper.compile_step(
                self._batches.padding_batch(shape)
            )
            float(sums.gradient_norm)
            self.first_seconds.append(time.perf_counter() - start)
            print(
                f"{self._name}: {shape.rows} x ({shape.source_bound} + "
                f"{shape.target_bound}) tokens, first step "
                f"{self.first_seconds[-1]:.1f} s",
                flush=True,
            )

    def train(self, count: int) -> None:
        """Trains a round of `count` steps on the next batches."""
        self.rounds.append([self._timed_step() for _ in range(count)])

    def _timed_step(self) -> TimedStep:
        start = time.perf_counter()
        batch, size = next(self._upcoming)
        losses = self._product.stepper.train(batch).losses
        tokens = float(losses.token_count)
        seconds = time.perf_counter() - start
        flops = training_flops(self._product.model.sizes, size)
        return TimedStep(seconds, tokens, size, flops)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures both strategies and prints a table with its interpretation."""
    args = parse_arguments(argv)
    with tempfile.TemporaryDirectory() as folder:
        subwords = min(args.vocabulary_size, _MAX_SUBWORDS)
        data = write_corpus(Path(folder), args.pairs, subwords)
        text = from_settings.build_corpus(data)
        vocabulary = from_settings.build_vocabulary(data, text)
        corpus = tokenize_corpus(text.pairs("train"), vocabulary, args.max_length)
    buckets, packed = (
        StrategyTrial(make_config(args, batching), corpus, args.vocabulary_size)
        for batching in ("bucket", "pack")
    )
    for trial in (buckets, packed):
        print(trial.describe(), flush=True)
        trial.compile_shapes()
    for number in range(args.rounds):
        # The order alternates between rounds.
        for trial in (packed, buckets) if number % 2 else (buckets, packed):
            trial.train(args.steps)
    first = sum(buckets.first_seconds), sum(packed.first_seconds)
    print("\n| | buckets | packed |\n| --- | --- | --- |")
    print(f"| shapes | {len(buckets.first_seconds)} | {len(packed.first_seconds)} |")
    print(f"| first steps of all shapes, s | {first[0]:.1f} | {first[1]:.1f} |")
    print(table(buckets.rounds, packed.rounds))
    print("\n" + comparison(buckets.rounds, packed.rounds))
    print(
        compare_with_first_steps(
            *first, _total_tokens_per_second(buckets), _total_tokens_per_second(packed)
        )
    )


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Returns the parsed command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--config", default="small", help="small, or a flagfile in configs/."
    )
    parser.add_argument("--vocabulary_size", type=int, default=8_000)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--tokens_per_batch", type=int, default=2048)
    parser.add_argument("--max_length", type=int, default=DataConfig().max_length)
    parser.add_argument("--max_shapes", type=int, default=DataConfig().max_shapes)
    parser.add_argument(
        "--steps", type=int, default=20, help="Steps per round, for each strategy."
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--xla", choices=("on", "off"), default="on")
    return parser.parse_args(argv)


def make_config(args: argparse.Namespace, batching: str) -> ExperimentConfig:
    """Returns the settings of a strategy, "bucket" or "pack"."""
    data = DataConfig(
        batching=batching,
        tokens_per_batch=args.tokens_per_batch,
        max_length=args.max_length,
        max_shapes=args.max_shapes,
    )
    jit_compile = args.xla == "on"
    if args.config == "small":
        return ExperimentConfig(data, SMALL, TrainingConfig(jit_compile=jit_compile))
    config = load_config(args.config, jit_compile=jit_compile)
    return dataclasses.replace(config, data=data)


Rounds = Sequence[Sequence[TimedStep]]


def table(buckets: Rounds, packed: Rounds) -> str:
    """Returns rows of a Markdown table over the steps of all rounds."""
    rows = (
        ("real tokens of all positions", real_token_fraction, "{:.1%}"),
        ("MFLOP a real target token", megaflops_per_token, "{:.1f}"),
        ("seconds a step, median", _median_seconds, "{:.3f}"),
        ("real target tokens/s", tokens_per_second, "{:,.0f}"),
    )
    both = _flatten(buckets), _flatten(packed)
    return "\n".join(
        f"| {name} | "
        + " | ".join(format_spec.format(measure(steps)) for steps in both)
        + " |"
        for name, measure, format_spec in rows
    )


def comparison(buckets: Rounds, packed: Rounds) -> str:
    """Returns the ratio of speeds, and how much tokens and FLOPs explain of it."""
    both = _flatten(buckets), _flatten(packed)
    ratio = tokens_per_second(both[1]) / tokens_per_second(both[0])
    by_round = [
        tokens_per_second(b) / tokens_per_second(a)
        for a, b in zip(buckets, packed, strict=True)
    ]
    by_tokens = real_token_fraction(both[1]) / real_token_fraction(both[0])
    by_flops = megaflops_per_token(both[0]) / megaflops_per_token(both[1])
    return (
        f"Packed rows train {ratio:.3f} times as many real target tokens a second as "
        f"buckets (rounds {min(by_round):.3f} to {max(by_round):.3f}, median "
        f"{statistics.median(by_round):.3f}). The shares of real tokens would make it "
        f"{by_tokens:.3f}; FLOPs, of attention over whole rows too, {by_flops:.3f}. "
        f"A FLOP takes {by_flops / ratio:.3f} times as long. Not in the count: softmax "
        "and masks over every pair of positions of a row, and Adam, which costs a step "
        "the same whatever its tokens."
    )


def compare_with_first_steps(
    bucket_first: float, packed_first: float, bucket_speed: float, packed_speed: float
) -> str:
    """Returns which strategy is ahead if first steps count, and up to how many tokens.

    Args:
        bucket_first: Seconds that the first steps of all shapes take with buckets.
        packed_first: The same for packed rows.
        bucket_speed: Target tokens per second after the first steps, with buckets.
        packed_speed: The same for packed rows.
    """
    start = bucket_first - packed_first
    gain = 1 / bucket_speed - 1 / packed_speed
    if (start > 0) == (gain > 0):
        ahead = "packed rows are" if start > 0 else "buckets are"
        return f"With the first steps counted, {ahead} ahead from the start."
    first, then = "buckets", "packed rows"
    if start > 0:
        first, then = then, first
    tokens = -start / gain
    return (
        f"With the first steps counted, {first} are ahead for {tokens:,.0f} target "
        f"tokens, {then} from there on."
    )


def _flatten(rounds: Rounds) -> list[TimedStep]:
    return [step for steps in rounds for step in steps]


def _median_seconds(steps: Sequence[TimedStep]) -> float:
    return statistics.median(step.seconds for step in steps)


def _total_tokens_per_second(trial: StrategyTrial) -> float:
    return tokens_per_second(_flatten(trial.rounds))


if __name__ == "__main__":
    main()
