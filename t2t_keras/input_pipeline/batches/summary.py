"""Summary of an epoch: how many batches it has, and how much of them is padding."""

import dataclasses
from collections.abc import Callable

import numpy as np

from t2t_keras.input_pipeline.batches.batching_strategy import BatchingStrategy
from t2t_keras.input_pipeline.batches.windows import WindowBatching
from t2t_keras.input_pipeline.records.tokenized import (
    CountedPairs,
    TokenizationReport,
)
from t2t_keras.typing import BatchShape

# With fewer batches what is left over of each bucket would count too much.
_BATCHES_OF_SAMPLE = 500


@dataclasses.dataclass(frozen=True)
class BatchingSummary:
    """Counts of an epoch's batches, for the report at the start."""

    pairs: int
    source_tokens: int
    target_tokens: int
    batches_per_epoch: int
    num_shapes: int
    padding_share: float
    """Fraction of the computed positions of both sides without a token; in [0, 1)."""
    mean_source_tokens: float
    """Real source tokens per batch; the paper reports about 25,000."""
    mean_target_tokens: float
    packed: bool

    def describe(self) -> str:
        """Returns the summary in words, on three lines."""
        shapes = f"{self.num_shapes} batch shape{'' if self.num_shapes == 1 else 's'}"
        rows = "several pairs per row" if self.packed else "one pair per row"
        return (
            f"{self.pairs:,} pairs: {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens\n"
            f"{self.batches_per_epoch:,} batches per epoch, on average "
            f"{self.mean_source_tokens:,.0f} source and "
            f"{self.mean_target_tokens:,.0f} target tokens each\n"
            f"{shapes}, {rows}; {1 - self.padding_share:.1%} of all positions are "
            "real tokens"
        )


def batching_summary(
    corpus: CountedPairs,
    strategy: BatchingStrategy,
    computed_rows: Callable[[BatchShape], int] = lambda shape: shape.rows,
) -> BatchingSummary:
    """Returns the summary of training batches of the same arguments.

    It counts epoch 0 of seed 0. In buckets the number of batches is the same for
    every seed and epoch; with packing it may differ by one or two in a thousand, and
    with a mixture somewhat more. With shuffle windows it counts about five hundred
    batches of pairs from all over the corpus, and takes the others to be like them:
    planning a window takes seconds.

    Args:
        corpus: The training pairs.
        strategy: Plans their batches.
        computed_rows: Returns the number of rows computed for a batch of a shape,
            including the rows added so that all devices have the same number.
    """
    report = corpus.report
    is_sample = isinstance(strategy, WindowBatching)
    if is_sample:
        strategy = _with_small_windows(strategy, report)
    pairs, batches, positions, shapes = 0, 0, 0, set()
    tokens = np.zeros(2, np.int64)
    for planned in strategy.plan(0, 0):
        batches += 1
        positions += computed_rows(planned.shape) * planned.shape.positions
        shapes.add(planned.shape)
        pairs += len(planned.indices)
        if not is_sample:
            tokens += corpus.pair_lengths(planned.indices).sum(axis=0)
    source_tokens, target_tokens = map(int, tokens)
    if is_sample:
        share = report.pairs_kept / pairs
        pairs = report.pairs_kept
        batches, positions = round(batches * share), round(positions * share)
        source_tokens, target_tokens = report.source_tokens, report.target_tokens
    return BatchingSummary(
        pairs=pairs,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        batches_per_epoch=batches,
        num_shapes=len(strategy.shapes if is_sample else shapes),
        padding_share=1.0 - (source_tokens + target_tokens) / positions,
        mean_source_tokens=source_tokens / batches,
        mean_target_tokens=target_tokens / batches,
        packed=strategy.packed,
    )


def _with_small_windows(
    strategy: WindowBatching, report: TokenizationReport
) -> WindowBatching:
    """Returns a strategy whose windows have about as many batches as are counted."""
    positions = max(shape.rows * shape.positions for shape in strategy.shapes)
    tokens_per_pair = (report.source_tokens + report.target_tokens) / report.pairs_kept
    pairs = int(_BATCHES_OF_SAMPLE * positions / tokens_per_pair)
    return dataclasses.replace(
        strategy, pairs_per_window=min(pairs, strategy.pairs_per_window)
    )
