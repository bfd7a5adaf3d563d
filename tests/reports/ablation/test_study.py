"""Ablation study: runs what is missing, once, and reports failures."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.records.manifest import MANIFEST_FILE
from t2t_keras.reports.ablation import study as module
from t2t_keras.reports.ablation.resources import ALL, RunResources
from t2t_keras.reports.ablation.results import Ablation
from t2t_keras.reports.ablation.study import Study
from t2t_keras.runs.model_dir import ModelDir
from tests.reports.ablation.rows import small_plan, write_finished_run


class FakeProcesses:
    """Fake processes: write the output of the real ones, and record the calls."""

    def __init__(self, runs, fails=(), stops_at=None):
        self.signal_number: int | None = None
        self.started: list[tuple[str, list[str]]] = []
        self._runs = {str(run.model_dir): run for run in runs}
        self._fails = fails
        self._stops_at = stops_at

    def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
        self.started.append((program, list(arguments)))
        log.parent.mkdir(parents=True, exist_ok=True)
        value = {a.partition("=")[0]: a.partition("=")[2] for a in arguments}
        if program == "prepare":
            Path(value["--output"]).mkdir(parents=True)
            (Path(value["--output"]) / MANIFEST_FILE).write_text("{}")
            return 0
        run = self._runs[value["--model_dir"]]
        if len(self.started) == self._stops_at:
            self.signal_number = signal.SIGTERM
            return 143
        if run.title in self._fails:
            log.write_text("step 1\nerror: the loss is not finite\n")
            return 2
        poll()
        write_finished_run(run, 8.0 + run.seed)
        return 0

    def trained_model_dirs(self) -> list[str]:
        return [
            next(a for a in arguments if a.startswith("--model_dir"))
            for program, arguments in self.started
            if program == "train"
        ]


class SmallStudy:
    """Study of two rows and two seeds, with its log lines and results."""

    def __init__(self, folder: Path):
        self.rows, self.runs = small_plan(folder)
        self.output = folder / "out"
        self.logged: list[str] = []
        self.reported: list[Ablation] = []

    def study(self, *parts: RunResources) -> Study:
        given = ["--train_steps=40"]
        return Study(
            self.rows,
            self.runs,
            self.output,
            given,
            self.reported.append,
            parts or (ALL,),
        )


@pytest.fixture
def small(tmp_path) -> Iterator[SmallStudy]:
    study = SmallStudy(tmp_path)
    with log_to(study.logged.append):
        yield study


def test_every_run_is_made_on_one_corpus_and_scored_on_dev(small) -> None:
    processes = FakeProcesses(small.runs)
    found = small.study().run(processes)
    assert [program for program, _ in processes.started] == ["prepare", *["train"] * 4]
    records = f"--records={small.output / 'records'}"
    for run, (_, arguments) in zip(small.runs, processes.started[1:], strict=True):
        assert arguments[:2] == [f"--flagfile={run.row.flagfile}", "--train_steps=40"]
        assert {records, f"--seed={run.seed}", "--score_split=dev"} <= set(arguments)
        assert "--noexport_at_end" in arguments
    assert [run.perplexity for run in found.runs] == [9.0, 9.0, 10.0, 10.0]
    # There is a table after each run, and after the last.
    assert [len(each.runs) for each in small.reported] == [1, 2, 3, 4, 4]
    assert small.logged[1] == "run 1 of 4: base, seed 1, 40 steps"
    assert small.logged[3].startswith("run 2 of 4: a1, seed 1, 40 steps; ")
    assert small.logged[3].endswith(" left")


def test_what_is_done_is_not_repeated(small) -> None:
    for run in small.runs[:3]:
        write_finished_run(run, 7.0)
    processes = FakeProcesses(small.runs)
    small.study().run(processes)
    assert processes.trained_model_dirs() == [f"--model_dir={small.runs[3].model_dir}"]
    assert small.logged[0] == "3 of 4 runs are done already"
    assert "run 4 of 4: a1, seed 2, 40 steps" in small.logged
    again = FakeProcesses(small.runs)
    found = small.study().run(again)
    assert again.started == []
    assert len(found.runs) == 4


def test_a_run_that_fails_leaves_the_others_be_and_is_tried_again(small) -> None:
    processes = FakeProcesses(small.runs, fails=("a1, seed 1",))
    found = small.study().run(processes)
    assert len(processes.trained_model_dirs()) == 4
    assert found.failures == (("a1", 1, "the loss is not finite"),)
    assert any("failed with status 2: the loss is not" in line for line in small.logged)
    again = FakeProcesses(small.runs)
    found = small.study().run(again)
    assert again.trained_model_dirs() == [f"--model_dir={small.runs[1].model_dir}"]
    assert found.failures == ()


def test_a_run_that_leaves_no_score_failed(small) -> None:
    class WithoutScore(FakeProcesses):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            status = super().run(program, arguments, log, poll, resources)
            if log.parent.name == "a1":
                write_finished_run(self._runs[str(log.with_suffix(""))], 8.0, steps=30)
            return status

    found = small.study().run(WithoutScore(small.runs))
    assert found.failures == (("a1", 1, "no output"), ("a1", 2, "no output"))
    assert any("a1, seed 1: left no score: no output" in line for line in small.logged)


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_that_cannot_start_releases_its_resources(small, count) -> None:
    """A file is in place of one run's folder, and another's log cannot be opened. If
    resources were not released, later runs would wait for them forever."""
    small.output.mkdir()
    (small.output / "a1").write_text("")

    class FailingToStart(FakeProcesses):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            if log.name == "seed-2.log":
                raise OSError(28, "No space left on device", str(log))
            return super().run(program, arguments, log, poll, resources)

    found: list[Ablation] = []
    parts = [RunResources(cores=(core,)) for core in range(count)]
    study = small.study(*parts)
    thread = threading.Thread(
        target=lambda: found.append(study.run(FailingToStart(small.runs))), daemon=True
    )
    thread.start()
    thread.join(60)
    assert found, "The study waits for resources that are never released."
    logged = {(row, seed): text for row, seed, text in found[0].failures}
    assert set(logged) == {("a1", 1), ("a1", 2), ("base", 2)}
    assert "a1" in logged["a1", 1]
    assert "No space left on device" in logged["base", 2]
    assert any("a1, seed 1: failed: " in line for line in small.logged)
    assert [run.row for run in found[0].runs] == ["base"]


def test_a_signal_ends_it_with_a_table_of_what_is_done(small) -> None:
    processes = FakeProcesses(small.runs, stops_at=3)  # the corpus is the first
    found = small.study().run(processes)
    assert len(processes.trained_model_dirs()) == 2
    assert [run.row for run in found.runs] == ["base"]
    assert found.failures == ()
    assert small.reported[-1] == found


def test_parallel_runs_have_separate_resources(small) -> None:
    """The first two runs wait for each other, so they do run in parallel."""
    parts = RunResources(cores=(0,)), RunResources(cores=(1,))
    together, used = threading.Barrier(2), []

    class Meeting(FakeProcesses):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            if program == "train":
                used.append(resources)
                if len(used) <= 2:
                    together.wait(30)
            return super().run(program, arguments, log, poll, resources)

    found = small.study(*parts).run(Meeting(small.runs))
    assert set(used[:2]) == set(parts)
    assert set(used) == set(parts)
    assert len(found.runs) == len(used) == 4
    numbers = [line.split(":")[0] for line in small.logged if line.startswith("run ")]
    assert sorted(numbers) == [f"run {i} of 4" for i in (1, 2, 3, 4)]
    # There is a table after each run, and after the last.
    assert len(small.reported) == 5
    assert small.reported[-1] == found


def test_a_corpus_that_cannot_be_prepared_ends_it(small) -> None:
    class FailingPrepare(FakeProcesses):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("error: There is no file train.en\n")
            return 2

    message = r"could not be prepared: There is no file train\.en\n.*prepare\.log"
    with pytest.raises(UserError, match=message):
        small.study().run(FailingPrepare(small.runs))


def test_a_run_that_outlived_its_parent_is_waited_for(small, monkeypatch) -> None:
    """Another process holds the lock of the run until the third check."""
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LOOKS", 0.0)
    looked = []
    other = ModelDir(small.runs[0].model_dir).lock()
    other.__enter__()

    def sleep(_: float) -> None:
        looked.append(1)
        if len(looked) == 3:
            other.__exit__(None, None, None)

    monkeypatch.setattr(module.time, "sleep", sleep)
    processes = FakeProcesses(small.runs)
    small.study().run(processes)
    assert len(looked) == 3
    assert len(processes.trained_model_dirs()) == 4
    waiting = [line for line in small.logged if ": waiting: " in line]
    assert len(waiting) == 1
    assert "Another process is training in" in waiting[0]
