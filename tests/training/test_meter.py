"""Meter: sums, means and times of updates against values worked out by hand."""

import dataclasses
import json
import math

import pytest
import tensorflow as tf

from t2t_keras.training import meter as meter_module
from t2t_keras.training.losses import LossSums
from t2t_keras.training.meter import (
    Meter,
    MeterSums,
    TrainingCost,
    Update,
    read_updates,
)
from t2t_keras.training.update import StepSums
from t2t_keras.typing import BatchShape, BatchSize

# Sources of 3 and 2 tokens, targets of 2 and 3.
SIZE = BatchSize(BatchShape(2, 5, 3), source_tokens=5, target_tokens=5)


def update(
    step=1, loss_sum=6.0, log=4.0, tokens=2.0, norm=1.0, skipped=0.0, reduce=0.0
) -> Update:
    losses = LossSums(loss_sum, log, tokens)
    return Update(step, (SIZE,), StepSums(losses, norm, skipped, 0.0, reduce))


class Clock:
    def __init__(self, monkeypatch):
        self.now = 50.0
        monkeypatch.setattr(meter_module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


def meter(**arguments) -> Meter:
    return Meter(
        lambda size: 100.0 * size.shape.rows * size.shape.source_bound, **arguments
    )


def test_numbers_are_read_in_their_order_and_places() -> None:
    def made(step: int, number) -> Update:
        losses = LossSums(number(step + 0.5), number(step + 0.25), step * 2.0)
        rest = number(step / 4), number(float(step % 2)), 0.0, number(step / 8)
        size = SIZE._replace(shape=SIZE.shape._replace(rows=step))
        return Update(step, (size, SIZE), StepSums(losses, *rest))

    read = read_updates([made(step, tf.constant) for step in (4, 5)])
    assert read == [made(step, float) for step in (4, 5)]
    assert read_updates([]) == []


def test_means_are_of_sums_and_never_of_means(clock) -> None:
    measured = meter()
    clock.now += 8.0
    measured.add(update(1, loss_sum=6.0, log=2.0, tokens=2.0, norm=1.0))
    measured.add(update(2, loss_sum=2.0, log=1.0, tokens=6.0, norm=4.0))
    values = measured.values()
    assert values["loss"] == 1.0  # 8 / 8; the mean of means would be 5 / 3
    assert values["perplexity"] == pytest.approx(math.exp(3 / 8))
    assert values["gradient_norm"] == 2.5
    assert values["skipped"] == 0.0
    # 5 real of 10 source positions, 5 of 6 target positions, twice.
    assert values["padding_share"] == pytest.approx(1 - 20 / 32)
    assert values["source_tokens_per_second"] == 10 / 8
    assert values["target_tokens_per_second"] == 10 / 8
    assert values["step_seconds"] == 4.0
    assert values["flops_per_step"] == 1000.0
    assert values["flops_per_second"] == 2000 / 8
    assert "ceiling_share" not in values
    # The meter has been reset; this update has several batches.
    clock.now += 1.0
    several = update(3, loss_sum=5.0, tokens=1.0)
    measured.add(several._replace(sizes=(SIZE, SIZE, SIZE)))
    values = measured.values()
    assert (values["loss"], values["step_seconds"]) == (5.0, 1.0)
    assert values["flops_per_step"] == 3000.0
    assert values["target_tokens_per_second"] == 15


def test_an_update_that_was_not_made_is_in_no_mean_but_took_its_time(clock) -> None:
    measured = meter(ceiling=500.0)
    measured.add(update(1, loss_sum=6.0, tokens=2.0, norm=1.0))
    measured.add(update(2, math.nan, math.inf, 2.0, math.nan, skipped=1.0))
    clock.now += 4.0
    values = measured.values()
    assert (values["loss"], values["gradient_norm"]) == (3.0, 1.0)
    assert values["skipped"] == 1.0
    assert values["flops_per_second"] == 500.0
    assert values["ceiling_share"] == 1.0
    # Without any that was made there is no loss; with padding alone it is 0.
    measured.add(update(3, math.nan, math.nan, 2.0, math.nan, skipped=1.0))
    assert math.isnan(measured.values()["loss"])
    measured.add(update(4, loss_sum=0.0, log=0.0, tokens=0.0))
    assert measured.values()["loss"] == 0.0


def test_a_gradient_that_overflowed_in_float16_is_in_no_mean() -> None:
    measured = meter()
    measured.add(update(1, loss_sum=6.0, tokens=2.0, norm=math.inf))
    measured.add(update(2, loss_sum=2.0, tokens=2.0, norm=4.0))
    values = measured.values()
    assert (values["loss"], values["gradient_norm"]) == (2.0, 4.0)
    assert values["skipped"] == 0.0


def test_a_huge_loss_has_no_perplexity_that_a_float_could_hold() -> None:
    measured = meter()
    measured.add(update(log=1e6, tokens=1.0))
    assert measured.values()["perplexity"] == math.inf


@pytest.mark.parametrize(
    ("reduced", "expected"),
    [
        ((0.25, 0.25), (3.0, 0.75, 0.25, 4.0)),
        ((0.0, 0.5), (3.0, 0.5, 0.5, 4.0)),  # the mean of the timed step
        ((0.0, 9.0), (3.0, 0.0, 1.0, 4.0)),  # more than a mean step takes
    ],
)
def test_waits_for_batches_and_for_replicas_are_separate(
    clock, reduced, expected
) -> None:
    measured = meter()

    def batches():
        for _ in range(2):
            clock.now += 3.0
            yield SIZE

    for size, seconds in zip(measured.timed(batches()), reduced, strict=True):
        clock.now += 1.0
        measured.add(update(reduce=seconds)._replace(sizes=(size,)))
    values = measured.values()
    parts = ("input_seconds", "compute_seconds", "all_reduce_seconds", "step_seconds")
    assert tuple(values[part] for part in parts) == expected


def test_pauses_are_left_out_of_everything(clock) -> None:
    measured = meter()
    clock.now += 100.0
    measured.start()
    clock.now += 2.0
    measured.add(update())
    with measured.paused():
        clock.now += 40.0
        # State saved during a pause has only the time before it.
        assert measured.cost == TrainingCost(2.0, 1000.0)
    assert measured.values()["step_seconds"] == 2.0


def test_the_cost_is_of_all_updates_and_of_the_run_before(clock) -> None:
    measured = meter(cost=TrainingCost(10.0, 7.0))
    for _ in range(3):
        clock.now += 5.0
        measured.add(update())
        measured.values()
    clock.now += 1.0
    assert measured.cost == TrainingCost(26.0, 3007.0)


def test_sums_continue_in_another_meter(clock) -> None:
    """They are equal bit by bit, with thirds, which are rounded in binary."""
    updates = [
        update(
            i, i / 3, i / 7, i + 2.0, norm=i / 11, skipped=float(i == 3), reduce=i / 13
        )
        for i in range(1, 7)
    ]
    straight = meter(cost=TrainingCost(10.0, 7.0))
    for each in updates:
        clock.now += 2.0
        straight.add(each)
    cost = straight.cost
    expected = straight.values()

    first = meter(cost=TrainingCost(10.0, 7.0))
    for each in updates[:4]:
        clock.now += 2.0
        first.add(each)
    kept = json.loads(json.dumps([first.cost, dataclasses.asdict(first.sums)]))
    clock.now += 100.0  # while nothing ran
    second = meter(cost=TrainingCost(*kept[0]), sums=MeterSums(**kept[1]))
    clock.now += 50.0  # while shapes were compiled
    second.start()
    for each in updates[4:]:
        clock.now += 2.0
        second.add(each)
    assert second.cost == cost
    assert second.values() == expected
    # As always, a log line resets it.
    assert second.sums == MeterSums(seconds=1e-9)
