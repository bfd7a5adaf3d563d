"""Training on packed rows beside training on buckets: real target tokens a second.

    python -m benchmarks.batching
    python -m benchmarks.batching --config=base --vocabulary_size=37000 --steps=5

One model and one corpus, text made up to the lengths of WMT14. The batches are those
that `--batching=bucket` and `--batching=pack` make, the steps are the product's. First
each way goes through its shapes once, as training does before step 1; then both train
in turn, a few steps at a time, so that a machine that drifts drifts for both. Waiting
for a batch counts, padding does not.
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.input_pipeline import written_corpus
from benchmarks.product_step import named_config, product_step
from t2t_keras.input_pipeline.batches.batching_strategy import batching_summary
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus, tokenize_corpus
from t2t_keras.runs import corpora
from t2t_keras.settings.config import (
    DataConfig,
    ExperimentConfig,
    ModelConfig,
    TrainingConfig,
)
from t2t_keras.training.profiling import training_flops
from t2t_keras.typing import BatchSize

# Two layers, so that all of it takes minutes.
SMALL = ModelConfig(num_layers=2, d_model=256, d_ff=1024, num_heads=4)
# In more of them the made-up text would be shorter than WMT14's. A model may have more.
_MOST_SUBWORDS = 8_000


class TimedStep(NamedTuple):
    """A training step, with the wait for its batch."""

    seconds: float
    target_tokens: float
    """As the loss counted them, without padding."""
    size: BatchSize
    flops: float


def pace(steps: Sequence[TimedStep]) -> float:
    """Returns real target tokens a second."""
    seconds = sum(step.seconds for step in steps)
    return sum(step.target_tokens for step in steps) / seconds


def real_share(steps: Sequence[TimedStep]) -> float:
    """Returns the share of positions, of both sides, that hold a token."""
    tokens = sum(step.size.source_tokens + step.size.target_tokens for step in steps)
    return tokens / sum(step.size.positions for step in steps)


def megaflops_per_token(steps: Sequence[TimedStep]) -> float:
    """Returns the MFLOPs for a real target token, padding counted."""
    tokens = sum(step.target_tokens for step in steps)
    return sum(step.flops for step in steps) / tokens / 1e6


class Way:
    """One way to fill batches, and a model of its own to train on them.

    Attributes:
        rounds: The steps trained so far, by round.
        first_seconds: Of the first step of each shape, which may compile.
    """

    def __init__(self, config: ExperimentConfig, corpus: TokenizedCorpus, words: int):
        self._name = config.data.batching
        self._strategy = corpora.build_batching_strategy(config.data, corpus)
        self._product = product_step(config, words, packed=self._strategy.packed)
        self._batches = TrainingBatches(corpus, self._strategy, seed=0)
        self._coming = iter(self._batches)
        self._description = batching_summary(corpus, self._strategy).describe()
        self.rounds: list[list[TimedStep]] = []
        self.first_seconds: list[float] = []

    def describe(self) -> str:
        """Returns how the corpus falls into batches, in words."""
        return f"{self._name}: {self._description}"

    def rehearse(self) -> None:
        """Goes through every shape once, with a line for each."""
        for shape in self._strategy.shapes:
            begin = time.perf_counter()
            sums = self._product.stepper.compile_step(
                self._batches.padding_batch(shape)
            )
            float(sums.gradient_norm)
            self.first_seconds.append(time.perf_counter() - begin)
            print(
                f"{self._name}: {shape.rows} x ({shape.source_bound} + "
                f"{shape.target_bound}) tokens, first step "
                f"{self.first_seconds[-1]:.1f} s",
                flush=True,
            )

    def train(self, count: int) -> None:
        """Trains a round of so many steps, on the batches that come next."""
        self.rounds.append([self._timed_step() for _ in range(count)])

    def _timed_step(self) -> TimedStep:
        begin = time.perf_counter()
        batch, size = next(self._coming)
        losses = self._product.stepper.train(batch).losses
        tokens = float(losses.token_count)
        seconds = time.perf_counter() - begin
        flops = training_flops(self._product.model.sizes, size)
        return TimedStep(seconds, tokens, size, flops)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures both ways; prints a table, and what follows from it."""
    chosen = arguments(argv)
    with tempfile.TemporaryDirectory() as folder:
        subwords = min(chosen.vocabulary_size, _MOST_SUBWORDS)
        data = written_corpus(Path(folder), chosen.pairs, subwords)
        text = corpora.build_corpus(data)
        vocabulary = corpora.build_vocabulary(data, text)
        corpus = tokenize_corpus(text.pairs("train"), vocabulary, chosen.max_length)
    buckets, packed = (
        Way(config_of(chosen, batching), corpus, chosen.vocabulary_size)
        for batching in ("bucket", "pack")
    )
    for way in (buckets, packed):
        print(way.describe(), flush=True)
        way.rehearse()
    for number in range(chosen.rounds):
        # Who is second begins the next round.
        for way in (packed, buckets) if number % 2 else (buckets, packed):
            way.train(chosen.steps)
    first = sum(buckets.first_seconds), sum(packed.first_seconds)
    print("\n| | buckets | packed |\n| --- | --- | --- |")
    print(f"| shapes | {len(buckets.first_seconds)} | {len(packed.first_seconds)} |")
    print(f"| first steps of all shapes, s | {first[0]:.1f} | {first[1]:.1f} |")
    print(table(buckets.rounds, packed.rounds))
    print("\n" + comparison(buckets.rounds, packed.rounds))
    print(with_first_steps(*first, _whole_pace(buckets), _whole_pace(packed)))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Returns what is to be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="small", help="small, or one of configs/.")
    parser.add_argument("--vocabulary_size", type=int, default=8_000)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--tokens_per_batch", type=int, default=2048)
    parser.add_argument("--max_length", type=int, default=DataConfig().max_length)
    parser.add_argument("--max_shapes", type=int, default=DataConfig().max_shapes)
    parser.add_argument("--steps", type=int, default=20, help="A round, of each way.")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--xla", choices=("on", "off"), default="on")
    return parser.parse_args(argv)


def config_of(chosen: argparse.Namespace, batching: str) -> ExperimentConfig:
    """Returns the settings of one way."""
    data = DataConfig(
        batching=batching,
        tokens_per_batch=chosen.tokens_per_batch,
        max_length=chosen.max_length,
        max_shapes=chosen.max_shapes,
    )
    jit_compile = chosen.xla == "on"
    if chosen.config == "small":
        return ExperimentConfig(data, SMALL, TrainingConfig(jit_compile=jit_compile))
    config = named_config(chosen.config, jit_compile=jit_compile)
    return dataclasses.replace(config, data=data)


Rounds = Sequence[Sequence[TimedStep]]


def table(buckets: Rounds, packed: Rounds) -> str:
    """Returns rows of a Markdown table, over the steps of all rounds."""
    rows = (
        ("real tokens of all positions", real_share, "{:.1%}"),
        ("MFLOP a real target token", megaflops_per_token, "{:.1f}"),
        ("seconds a step, median", _median_seconds, "{:.3f}"),
        ("real target tokens/s", pace, "{:,.0f}"),
    )
    both = _all(buckets), _all(packed)
    return "\n".join(
        f"| {name} | " + " | ".join(form.format(of(steps)) for steps in both) + " |"
        for name, of, form in rows
    )


def comparison(buckets: Rounds, packed: Rounds) -> str:
    """Returns the ratio of paces, and what of it tokens and FLOPs explain."""
    both = _all(buckets), _all(packed)
    ratio = pace(both[1]) / pace(both[0])
    by_round = [pace(b) / pace(a) for a, b in zip(buckets, packed, strict=True)]
    by_tokens = real_share(both[1]) / real_share(both[0])
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


def with_first_steps(
    bucket_first: float, packed_first: float, bucket_pace: float, packed_pace: float
) -> str:
    """Returns which way is ahead when first steps count, and until when.

    Args:
        bucket_first: Seconds of the first steps of all shapes.
        packed_first: The same of the other way.
        bucket_pace: Target tokens a second after them.
        packed_pace: The same of the other way.
    """
    start = bucket_first - packed_first
    gain = 1 / bucket_pace - 1 / packed_pace
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


def _all(rounds: Rounds) -> list[TimedStep]:
    return [step for steps in rounds for step in steps]


def _median_seconds(steps: Sequence[TimedStep]) -> float:
    return statistics.median(step.seconds for step in steps)


def _whole_pace(way: Way) -> float:
    return pace(_all(way.rounds))


if __name__ == "__main__":
    main()
