"""Early stopping: a pure function of the recorded scores."""

import math

import numpy as np

from t2t_keras.training.early_stopping import find_early_stop, monitored_loss


def records(losses, first: int = 2) -> list[dict]:
    """Records of evaluations at every second step, with lines of training between."""
    lines = []
    for index, loss in enumerate(losses):
        step = first + 2 * index
        lines += [{"step": step - 1, "loss": 9.0}, {"step": step, "dev_loss": loss}]
    return lines


def test_it_stops_after_so_many_evaluations_without_a_better_one() -> None:
    for losses, patience, best in (
        ([3.0, 2.0, 2.5, 2.25], 2, (4, 2.0, 2)),
        ([3.0, 2.0, 2.5, 2.25], 3, None),
        ([3.0, 2.0, 2.5, 1.5], 2, None),
        # An equal score is not a better one.
        ([3.0, 2.0, 2.0, 2.0], 2, (4, 2.0, 2)),
        ([3.0, 2.0, 2.0, 2.0], 0, None),
        ([3.0], 1, None),
        ([3.0, 4.0], 1, (2, 3.0, 1)),
        ([], 1, None),
    ):
        stop = find_early_stop(records(losses), "dev_loss", patience)
        found = stop and (stop.best_step, stop.best, stop.patience)
        assert found == best, losses
        assert stop is None or stop.step == 2 * len(losses)


def test_every_prefix_of_a_run_decides_as_the_run_did() -> None:
    """An interrupted run has the records up to some step, and decides the same."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        losses = rng.integers(0, 6, size=12).tolist()
        patience = int(rng.integers(1, 5))
        stops = [
            find_early_stop(records(losses[:count]), "dev_loss", patience) is not None
            for count in range(13)
        ]
        # By definition, one count at a time.
        best, since, expected = math.inf, 0, [False]
        for loss in losses:
            best, since = (loss, 0) if loss < best else (best, since + 1)
            expected.append(since >= patience)
        assert stops == expected, losses


def test_bleu_is_better_when_it_is_higher() -> None:
    lines = [
        {"step": step, "dev_loss": 1.0 / step, "dev_bleu_greedy": bleu}
        for step, bleu in ((1, 20.0), (2, 31.5), (3, 30.0))
    ]
    stop = find_early_stop(lines, "dev_bleu", 1)
    assert stop is not None
    assert stop.describe() == (
        "stopped early at step 3: no better dev_bleu in 1 evaluations; the best is "
        "31.5 at step 2"
    )
    # By loss, the last is the best.
    assert find_early_stop(lines, "dev_loss", 1) is None


def test_a_parser_is_monitored_by_its_f1() -> None:
    assert monitored_loss({"dev_loss": 1.0, "dev_f1_greedy": 80.0}, "dev_bleu") == -80
    assert monitored_loss({"dev_loss": 1.5}, "dev_loss") == 1.5
    for monitor in ("dev_loss", "dev_bleu"):
        assert monitored_loss({"loss": 1.0}, monitor) == math.inf
