"""Training loop with a fake stepper: intervals, log lines, failures, signals."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.training import loop as loop_module
from t2t_keras.training.loop import (
    MAX_PENDING_UPDATES,
    Hooks,
    Intervals,
    TrainingInterrupted,
    train_loop,
)
from t2t_keras.training.losses import LossSums
from t2t_keras.training.meter import Meter
from t2t_keras.training.nonfinite import NonFiniteGuard
from t2t_keras.training.progress import Progress
from t2t_keras.training.update import StepSums
from t2t_keras.typing import BatchShape, BatchSize

NEVER = 10**6


class FakeRun:
    """Fake stepper and hooks that record the calls of the loop.

    Args:
        first: Number of updates made before.
        loss_sums: Loss sum of an update by step. Default: 6, for 3 tokens.
        bad: Steps whose update is not finite.
        folder: Folder for the batches of these steps.
        multi_worker: Whether there are other processes.
        at: Called with ("train", step), ("evaluate", step) or ("save", step).
    """

    def __init__(
        self,
        first=0,
        loss_sums=None,
        bad=(),
        at=None,
        folder=Path("x"),
        multi_worker=False,
    ):
        self.step = first
        self.first = first
        self.calls: list[tuple[str, int]] = []
        self.lines: list[str] = []
        self._loss_sums = loss_sums or {}
        self._bad = bad
        self.folder = folder
        self.recorded: list[tuple[int, dict]] = []
        self._at = at or (lambda *_: None)
        self.multi_worker = multi_worker
        self.ends_early_at: int | None = None
        self.saves_succeed = True
        self.batches_taken = 0

    def train(self, batch, stop=False, timed=False) -> StepSums:
        self.step += 1
        self._record_call("train", self.step)
        loss_sum = self._loss_sums.get(self.step, 6.0)
        if self.step in self._bad:
            return StepSums(LossSums(np.nan, np.inf, 3.0), np.nan, 1.0)
        return StepSums(LossSums(loss_sum, 5.0, 3.0), 0.5)

    def prepare(self, batches) -> None:
        (batch,) = batches
        self._record_call("prepare", batch["decoder_target_tokens"][0, 0])

    def computed_size(self, size: BatchSize) -> BatchSize:
        return size._replace(shape=size.shape._replace(rows=size.shape.rows + 1))

    def evaluate(self, step: int) -> dict[str, float]:
        self._record_call("evaluate", step)
        return {"dev_loss": float(step)}

    def save(self, step: int) -> bool:
        self._record_call("save", step)
        return self.saves_succeed

    def _record_end(self) -> int:
        """Early stopping reads what was recorded at the step before it decides."""
        step, values = self.recorded[-1]
        assert "dev_loss" in values
        return step

    def _record_call(self, what: str, step: int) -> None:
        self.calls.append((what, step))
        self._at(what, step)

    def batches(self):
        while True:
            self.batches_taken += 1
            # 3 real tokens on each side.
            [batch] = self.batches_of(self.batches_taken)
            yield [(batch, BatchSize(BatchShape(2, 3, 2), 3, 3))]

    def batches_of(self, step: int) -> list[dict[str, np.ndarray]]:
        return [{"decoder_target_tokens": np.array([[step, 1], [1, 0]])}]

    def loop(self, stop: int, save_seconds: float = NEVER, skip=False, **steps) -> None:
        progress = Progress(None)
        progress.record = lambda step, values: (
            self.recorded.append((step, values)) if values else None
        )
        intervals = {"log_steps": NEVER, "eval_steps": NEVER, "save_steps": NEVER}
        with log_to(self.lines.append):
            train_loop(
                self,  # type: ignore[arg-type]
                self.batches(),
                steps=range(self.first, stop),
                intervals=Intervals(
                    **{**intervals, **steps}, save_seconds=save_seconds
                ),
                hooks=Hooks(
                    evaluate=self.evaluate,
                    save=self.save,
                    measure=lambda step: {"learning_rate": step / 8},
                    ends_early=lambda: self._record_end() == self.ends_early_at,
                    prepare=self.prepare,
                    before_step=lambda step: self._record_call("before", step),
                    after_step=lambda step, _: self._record_call("after", step),
                    multi_worker=self.multi_worker,
                ),
                guard=NonFiniteGuard(
                    self.folder,
                    skip=skip,
                    load_batches=self.batches_of,
                    load_metadata=lambda _: {},
                ),
                meter=Meter(
                    lambda size: 8e9 * size.shape.rows * size.shape.source_bound
                ),
                progress=progress,
            )

    def steps_of(self, what: str) -> list[int]:
        return [step for name, step in self.calls if name == what]

    @property
    def logged(self) -> list[int]:
        return [step for step, values in self.recorded if "loss" in values]


# --- Intervals


def test_everything_comes_at_its_interval_and_at_the_end() -> None:
    run = FakeRun()
    run.loop(11, log_steps=2, eval_steps=4, save_steps=3)
    assert run.steps_of("train") == list(range(1, 12))
    assert run.logged == [2, 4, 6, 8, 10, 11]
    assert run.steps_of("evaluate") == [4, 8, 11]
    assert run.steps_of("save") == [3, 6, 9, 11]


def test_intervals_count_step_numbers_in_a_resumed_run_too() -> None:
    run = FakeRun(first=5)
    run.loop(10, log_steps=2, eval_steps=4, save_steps=3)
    assert run.steps_of("train") == [6, 7, 8, 9, 10]
    names = ["prepare", "before", "train", "after"]
    # Batches are numbered from where the run goes on.
    assert run.calls[:4] == list(zip(names, [1, 6, 6, 6], strict=True))
    assert run.logged == [6, 8, 10]
    assert run.steps_of("evaluate") == [8, 10]
    assert run.steps_of("save") == [6, 9, 10]


def test_an_evaluation_comes_before_the_save_of_its_step() -> None:
    run = FakeRun()
    run.loop(4, eval_steps=2, save_steps=2)
    after = [call for call in run.calls if call[0] in ("evaluate", "save")]
    assert after == [("evaluate", 2), ("save", 2), ("evaluate", 4), ("save", 4)]


def test_an_early_end_comes_after_an_evaluation_and_saves() -> None:
    run = FakeRun()
    run.ends_early_at = 4
    run.loop(9, eval_steps=2, save_steps=3)
    assert run.steps_of("train") == [1, 2, 3, 4]
    assert run.steps_of("evaluate") == [2, 4]
    assert run.steps_of("save") == [3, 4]
    assert run.batches_taken == 4


def test_no_batch_is_taken_in_vain() -> None:
    run = FakeRun(first=3)
    run.loop(5)
    assert run.batches_taken == 2
    run.loop(3)
    assert run.batches_taken == 2


def test_without_save_steps_the_clock_decides(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop_module.time, "monotonic", lambda: now[0])

    def pass_time(what: str, _: int) -> None:
        # A save takes longer than the interval, which starts after it.
        now[0] += {"train": 10.0, "save": 50.0, "evaluate": 50.0}.get(what, 0.0)

    run = FakeRun(at=pass_time)
    run.loop(8, save_steps=0, save_seconds=25.0)
    assert run.steps_of("save") == [3, 6, 8]


# --- Log lines and records


def test_a_line_has_the_mean_since_the_line_before(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop_module.time, "monotonic", lambda: now[0])

    def pass_time(what: str, step: int) -> None:
        seconds = {"train": 0.5, "evaluate": 100.0, "save": 70.0}
        if step == 1:
            seconds["prepare"] = 9.0
        now[0] += seconds.get(what, 0.0)

    run = FakeRun(loss_sums={1: 9.0, 2: 3.0, 3: 30.0, 4: 12.0}, at=pass_time)
    run.loop(4, log_steps=2, eval_steps=2, save_steps=2)
    first, second = (values for _, values in run.recorded)
    # (9 + 3) / 6 and (30 + 12) / 6: means since the line before, not of the run.
    assert (first["loss"], second["loss"]) == (2.0, 7.0)
    assert (first["learning_rate"], second["learning_rate"]) == (0.25, 0.5)
    # 3 real target and 3 real source tokens in half a second: padding does not count,
    # nor does the time to compile, of evaluations and of checkpoints. The row that the
    # stepper adds to the two rows of a batch counts as padding.
    for values in (first, second):
        assert values["target_tokens_per_second"] == 6.0
        assert values["source_tokens_per_second"] == 6.0
        assert values["gradient_norm"] == 0.5
        assert values["flops_per_second"] == 144e9
        assert values["padding_share"] == pytest.approx(1 - 6 / 15)
    lines = run.lines
    assert lines[1] == (
        "step 2/4  loss 2.000  rate 2.50e-01  6 target tokens/s  144 GFLOP/s  left 1s"
    )
    assert lines[-1].startswith("step 4/4  loss 7.000")


@pytest.mark.parametrize("multi_worker", [False, True])
def test_a_line_comes_after_the_first_update_and_every_few_seconds(
    monkeypatch, multi_worker
) -> None:
    now = [0.0]
    monkeypatch.setattr(loop_module.time, "monotonic", lambda: now[0])
    seconds = loop_module.SILENT_SECONDS

    def pass_time(what: str, step: int) -> None:
        if what == "train":
            now[0] += 9.0 if step == 8 else seconds / 2

    run = FakeRun(first=7, loss_sums={8: 24.0}, at=pass_time, multi_worker=multi_worker)
    run.loop(50)
    lines = run.lines
    # 42 steps at the pace of the slow first one, then 40 at the pace of the others.
    assert lines[0] == "step 8/50  loss 8.000  left 6m18s"
    assert lines[1] == "step 10/50  loss 2.000  left 1m40s"
    assert [line.split("/")[0] for line in lines[2:4]] == ["step 12", "step 14"]
    assert len(lines) == 1 + (50 - 8) // 2
    # Short lines are not recorded.
    assert run.logged == [50]


def test_a_step_is_recorded_once_with_all_that_is_known_of_it() -> None:
    run = FakeRun()
    run.loop(8, log_steps=4, eval_steps=3)
    known = [(n, "loss" in v, v.get("dev_loss")) for n, v in run.recorded]
    assert known == [
        (3, False, 3.0),
        (4, True, None),
        (6, False, 6.0),
        (8, True, 8.0),
    ]


def test_a_wait_for_input_is_logged(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop_module.time, "monotonic", lambda: now[0])

    def pass_time(what: str, _: int) -> None:
        now[0] += {"train": 0.75}.get(what, 0.0)

    run = FakeRun(at=pass_time)
    batches = run.batches

    def slow_batches():
        for batch in batches():
            now[0] += 0.25
            yield batch

    monkeypatch.setattr(run, "batches", slow_batches)
    run.loop(2, log_steps=2)
    assert run.lines[-1].endswith("left 0s  waits 25% for input")
    values = run.recorded[0][1]
    assert (values["input_seconds"], values["compute_seconds"]) == (0.25, 0.75)
    assert values["step_seconds"] == 1.0


# --- Failures


def test_weights_that_went_wrong_are_never_saved(tmp_path) -> None:
    run = FakeRun(bad=(5,), folder=tmp_path)
    with pytest.raises(UserError, match=r"At step 5 .*finite"):
        run.loop(20, save_steps=3)
    assert run.steps_of("save") == [3]
    # Detected when the next checkpoint is due.
    assert run.step == 6
    # The saved batch is that of step 5, not of the step that detected it.
    batch = np.load(tmp_path / "step-5" / "batch.npz")
    assert batch["decoder_target_tokens"].tolist() == [[5, 1], [1, 0]]


def test_weights_that_went_wrong_are_never_evaluated(tmp_path) -> None:
    """An evaluation keeps its checkpoint if its score is the best."""
    run = FakeRun(bad=(2,), folder=tmp_path)
    with pytest.raises(UserError, match="At step 2 "):
        run.loop(20, eval_steps=4)
    assert run.steps_of("evaluate") == []


def test_a_non_finite_update_is_detected_without_any_interval(tmp_path) -> None:
    run = FakeRun(bad=(2,), folder=tmp_path)
    with pytest.raises(UserError, match="At step 2 "):
        run.loop(5 * MAX_PENDING_UPDATES)
    assert run.step == MAX_PENDING_UPDATES


def test_several_processes_detect_a_non_finite_update_at_the_same_step(
    tmp_path,
) -> None:
    """They check every step: saves depend on each process's own clock."""
    run = FakeRun(bad=(2,), folder=tmp_path, multi_worker=True)
    with pytest.raises(UserError, match="At step 2 "):
        run.loop(5 * MAX_PENDING_UPDATES)
    assert run.step == 2


def test_skipped_updates_are_counted_and_in_no_mean() -> None:
    run = FakeRun(loss_sums={1: 9.0, 3: 3.0}, bad=(2, 4), first=0)
    run.loop(6, log_steps=3, skip=True)
    first, second = (values for _, values in run.recorded)
    assert (first["loss"], first["skipped"]) == (2.0, 1.0)
    assert (second["loss"], second["skipped"]) == (2.0, 1.0)
    assert first["gradient_norm"] == 0.5
    assert run.lines[1].endswith("  skipped 1")
    assert run.steps_of("save") == [6]


# --- Signals


def send(number: signal.Signals, when: tuple[str, int], times: int = 1):
    def at(what: str, step: int) -> None:
        if (what, step) == when:
            for _ in range(times):
                os.kill(os.getpid(), number)

    return at


@pytest.mark.parametrize(
    ("number", "saved"), [(signal.SIGTERM, True), (signal.SIGINT, False)]
)
def test_a_signal_stops_after_the_step_with_everything_saved(number, saved) -> None:
    """Or says that it could not be saved."""
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    run = FakeRun(at=send(number, ("train", 3)))
    run.saves_succeed = saved
    with pytest.raises(TrainingInterrupted, match=f"stopped by {number.name}") as stop:
        run.loop(9, eval_steps=3)
    assert (stop.value.signal_number, stop.value.step) == (number, 3)
    assert stop.value.saved == saved
    # No evaluation: the sender of a signal should not have to wait for one.
    assert [c for c in run.calls if c[0] in ("evaluate", "save")] == [("save", 3)]
    assert {n: signal.getsignal(n) for n in before} == before


def test_a_signal_during_an_evaluation_stops_after_the_next_step() -> None:
    run = FakeRun(at=send(signal.SIGTERM, ("evaluate", 4)))
    with pytest.raises(TrainingInterrupted) as stop:
        run.loop(9, eval_steps=4, save_steps=4)
    assert stop.value.step == 5
    assert run.steps_of("save") == [4, 5]


@pytest.mark.parametrize("when", [("evaluate", 6), ("save", 6)])
def test_a_signal_after_the_last_step_is_not_lost(when) -> None:
    run = FakeRun(at=send(signal.SIGTERM, when))
    with pytest.raises(TrainingInterrupted) as stop:
        run.loop(6)
    assert (stop.value.step, run.steps_of("save")) == (6, [6])


def test_a_last_checkpoint_that_could_not_be_written_is_an_error() -> None:
    run = FakeRun()
    run.saves_succeed = False
    with pytest.raises(UserError, match=r"last checkpoint, of step 6, could not"):
        run.loop(6)


def test_a_second_ctrl_c_acts_at_once() -> None:
    run = FakeRun(at=send(signal.SIGINT, ("train", 2), times=2))
    with pytest.raises(KeyboardInterrupt):
        run.loop(6)
    assert run.steps_of("save") == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_does_not_save_what_went_wrong(tmp_path) -> None:
    run = FakeRun(bad=(2,), at=send(signal.SIGTERM, ("train", 2)), folder=tmp_path)
    with pytest.raises(UserError, match="finite"):
        run.loop(6)
    assert run.steps_of("save") == []
