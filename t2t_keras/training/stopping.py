"""Early stopping, by a score that also chooses the best checkpoints."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class EarlyStop(NamedTuple):
    """Reason to stop early.

    Attributes:
        step: Number of updates at the last evaluation.
        best_step: Number of updates at the best evaluation.
        best: The monitored score there.
        patience: Number of evaluations since then.
        monitor: "dev_loss" or "dev_bleu".
    """

    step: int
    best_step: int
    best: float
    patience: int
    monitor: str

    def describe(self) -> str:
        """Returns a line for the log."""
        return (
            f"stopped early at step {self.step:,}: no better {self.monitor} in "
            f"{self.patience} evaluations; the best is {self.best:.4g} at step "
            f"{self.best_step:,}"
        )


def monitored_loss(scores: Mapping[str, Any], monitor: str) -> float:
    """Returns the monitored score so that lower is better; infinity if it is missing.

    Args:
        scores: Scores of an evaluation by name.
        monitor: "dev_loss", or "dev_bleu" for the score of greedy translations, which
            is another than BLEU for a parser.
    """
    if monitor == "dev_loss":
        return scores.get("dev_loss", math.inf)
    greedy = (
        value
        for name, value in scores.items()
        if name.startswith("dev_") and name.endswith("_greedy")
    )
    return -next(greedy, -math.inf)


def find_early_stop(
    records: Iterable[Mapping[str, Any]], monitor: str, patience: int
) -> EarlyStop | None:
    """Returns the reason to stop after the last record; None to continue.

    A pure function of the lines of `metrics.jsonl`, so that a run that was interrupted
    stops at the same step as one that was not.

    Args:
        records: Values by name, in the order of their steps. Those without the
            monitored score are no evaluations.
        monitor: "dev_loss" or "dev_bleu".
        patience: Number of evaluations in a row without a better score, 0 for no limit.
    """
    evaluations = [
        (loss, record["step"])
        for record in records
        if math.isfinite(loss := monitored_loss(record, monitor))
    ]
    if not patience or not evaluations:
        return None
    # The first of equal ones: a score has to be better, not equal.
    best = min(evaluations)
    since = len(evaluations) - 1 - evaluations.index(best)
    if since < patience:
        return None
    value = best[0] if monitor == "dev_loss" else -best[0]
    return EarlyStop(evaluations[-1][1], best[1], value, since, monitor)
