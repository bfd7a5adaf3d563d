"""What the loop does when, with a stepper that only counts."""

import io
import os
import signal

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.training import loop as loop_module
from t2t_keras.training.loop import Interrupted, Intervals, train_loop
from t2t_keras.training.losses import LossSums
from t2t_keras.training.progress import Progress
from t2t_keras.training.step import StepSums

NEVER = 10**6


class FakeRun:
    """A stepper and its surroundings that write down what is called.

    Args:
        first: Updates made before.
        loss_sums: What the updates return, by step; 6 for 3 tokens otherwise.
        at: Called with ("train", step), ("evaluate", step) or ("save", step).
    """

    def __init__(self, first: int = 0, loss_sums=None, norms=None, at=None):
        self.step = first
        self.first = first
        self.calls: list[tuple[str, int]] = []
        self.scalars: list[tuple[int, dict]] = []
        self.stream = io.StringIO()
        self._loss_sums = loss_sums or {}
        self._norms = norms or {}
        self._at = at or (lambda *_: None)
        self.saves_succeed = True
        self.batches_taken = 0

    def train(self, batch) -> StepSums:
        self.step += 1
        self._called("train", self.step)
        loss_sum = self._loss_sums.get(self.step, 6.0)
        norm = self._norms.get(self.step, 0.5)
        return StepSums(LossSums(loss_sum, 5.0, 3.0), norm)

    def evaluate(self, step: int) -> None:
        self._called("evaluate", step)

    def save(self, step: int) -> bool:
        self._called("save", step)
        return self.saves_succeed

    def _called(self, what: str, step: int) -> None:
        self.calls.append((what, step))
        self._at(what, step)

    def batches(self):
        while True:
            self.batches_taken += 1
            yield {"encoder_input_tokens": np.array([[4, 1, 0], [1, 0, 0]])}

    def loop(self, stop: int, save_seconds: float = NEVER, **steps) -> None:
        progress = Progress(None, stop, self.stream)
        progress.scalars = lambda step, values: self.scalars.append((step, values))
        intervals = {"log_steps": NEVER, "eval_steps": NEVER, "save_steps": NEVER}
        train_loop(
            self,  # type: ignore[arg-type]
            self.batches(),
            steps=range(self.first, stop),
            intervals=Intervals(**{**intervals, **steps}, save_seconds=save_seconds),
            evaluate=self.evaluate,
            save=self.save,
            learning_rate=lambda step: step / 8,
            progress=progress,
        )

    def steps_of(self, what: str) -> list[int]:
        return [step for name, step in self.calls if name == what]

    @property
    def logged(self) -> list[int]:
        return [step for step, _ in self.scalars]


# --- What is due


def test_everything_comes_at_its_interval_and_at_the_end() -> None:
    run = FakeRun()
    run.loop(11, log_steps=2, eval_steps=4, save_steps=3)
    assert run.steps_of("train") == list(range(1, 12))
    assert run.logged == [2, 4, 6, 8, 10, 11]
    assert run.steps_of("evaluate") == [4, 8, 11]
    assert run.steps_of("save") == [3, 6, 9, 11]


def test_intervals_are_of_step_numbers_wherever_a_run_goes_on() -> None:
    run = FakeRun(first=5)
    run.loop(10, log_steps=2, eval_steps=4, save_steps=3)
    assert run.steps_of("train") == [6, 7, 8, 9, 10]
    assert run.logged == [6, 8, 10]
    assert run.steps_of("evaluate") == [8, 10]
    assert run.steps_of("save") == [6, 9, 10]


def test_an_evaluation_comes_before_the_save_of_its_step() -> None:
    run = FakeRun()
    run.loop(4, eval_steps=2, save_steps=2)
    after = [call for call in run.calls if call[0] != "train"]
    assert after == [("evaluate", 2), ("save", 2), ("evaluate", 4), ("save", 4)]


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
        # A save takes longer than the interval, which starts when it is done.
        now[0] += 10.0 if what == "train" else 50.0

    run = FakeRun(at=pass_time)
    run.loop(8, save_steps=0, save_seconds=25.0)
    assert run.steps_of("save") == [3, 6, 8]


# --- What is said


def test_a_line_has_the_mean_since_the_line_before(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop_module.time, "monotonic", lambda: now[0])

    def pass_time(what: str, step: int) -> None:
        now[0] += {"train": 0.5, "evaluate": 100.0, "save": 0.0}[what]

    run = FakeRun(loss_sums={1: 9.0, 2: 3.0, 3: 30.0, 4: 12.0}, at=pass_time)
    run.loop(4, log_steps=2, eval_steps=2)
    first, second = (values for _, values in run.scalars)
    # (9 + 3) / 6 and (30 + 12) / 6: of steps, not of the run.
    assert (first["loss"], second["loss"]) == (2.0, 7.0)
    assert (first["learning_rate"], second["learning_rate"]) == (0.25, 0.5)
    # 6 target tokens in a second, and 2 x 3 real source tokens: padding is none,
    # and the evaluation's 100 seconds do not count.
    for values in (first, second):
        assert values["target_tokens_per_second"] == 6.0
        assert values["source_tokens_per_second"] == 6.0
        assert values["gradient_norm"] == 0.5
    lines = run.stream.getvalue().splitlines()
    expected = "step 2/4  loss 2.000  rate 2.50e-01  6 target tokens/s  left ?"
    assert lines[0] == expected
    assert lines[1].startswith("step 4/4  loss 7.000")


def test_a_batch_of_padding_has_a_loss_of_zero(monkeypatch) -> None:
    run = FakeRun()
    monkeypatch.setattr(run, "train", lambda _: StepSums(LossSums(0.0, 0.0, 0.0), 0.0))
    run.loop(1, log_steps=1)
    assert run.scalars[0][1]["loss"] == 0.0


# --- What goes wrong


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("what", ["loss_sums", "norms"])
def test_weights_that_went_wrong_are_never_saved(what, bad) -> None:
    run = FakeRun(**{what: {5: bad}})
    with pytest.raises(UserError, match=r"before step 6 .*finite.*--warmup_steps"):
        run.loop(20, save_steps=3)
    assert run.steps_of("save") == [3]
    assert run.step == 6


def test_weights_that_went_wrong_are_never_evaluated() -> None:
    # An evaluation keeps its checkpoint if it is the best.
    run = FakeRun(norms={2: float("inf")})
    with pytest.raises(UserError, match=r"gradient norms inf"):
        run.loop(20, eval_steps=4)
    assert run.steps_of("evaluate") == []


def test_a_line_is_enough_to_notice() -> None:
    run = FakeRun(loss_sums={2: float("nan")})
    with pytest.raises(UserError, match=r"loss sum nan.*--learning_rate_scale"):
        run.loop(20, log_steps=4)
    assert (run.step, run.logged) == (4, [])


# --- Signals


def send(number: signal.Signals, when: tuple[str, int], times: int = 1):
    def at(what: str, step: int) -> None:
        if (what, step) == when:
            for _ in range(times):
                os.kill(os.getpid(), number)

    return at


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_the_step_with_everything_saved(number) -> None:
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    run = FakeRun(at=send(number, ("train", 3)))
    with pytest.raises(Interrupted, match=f"stopped by {number.name}") as stop:
        run.loop(9, eval_steps=3)
    assert (stop.value.signal_number, stop.value.step) == (number, 3)
    assert stop.value.saved
    # No evaluation: whoever sends a signal does not want to wait for one.
    assert [call for call in run.calls if call[0] != "train"] == [("save", 3)]
    assert {n: signal.getsignal(n) for n in before} == before


def test_a_signal_during_an_evaluation_stops_after_the_next_step() -> None:
    run = FakeRun(at=send(signal.SIGTERM, ("evaluate", 4)))
    with pytest.raises(Interrupted) as stop:
        run.loop(9, eval_steps=4, save_steps=4)
    assert stop.value.step == 5
    assert run.steps_of("save") == [4, 5]


@pytest.mark.parametrize("when", [("evaluate", 6), ("save", 6)])
def test_a_signal_after_the_last_step_is_not_lost(when) -> None:
    run = FakeRun(at=send(signal.SIGTERM, when))
    with pytest.raises(Interrupted) as stop:
        run.loop(6)
    assert (stop.value.step, run.steps_of("save")) == (6, [6])


def test_a_signal_says_if_nothing_could_be_saved() -> None:
    run = FakeRun(at=send(signal.SIGTERM, ("train", 2)))
    run.saves_succeed = False
    with pytest.raises(Interrupted) as stop:
        run.loop(6)
    assert not stop.value.saved


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


def test_a_signal_does_not_save_what_went_wrong() -> None:
    run = FakeRun(loss_sums={2: float("nan")}, at=send(signal.SIGTERM, ("train", 2)))
    with pytest.raises(UserError, match="finite"):
        run.loop(6)
    assert run.steps_of("save") == []
