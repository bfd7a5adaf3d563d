"""A study runs what is missing, once, and tells of what failed."""

import signal
import threading
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.manifest import MANIFEST_FILE
from t2t_keras.reports.ablation import study as module
from t2t_keras.reports.ablation.resources import ALL, RunResources
from t2t_keras.reports.ablation.results import Ablation
from t2t_keras.reports.ablation.study import Study
from t2t_keras.runs.model_dir import ModelDir
from tests.reports.ablation.rows import finished, small_plan


class Sham:
    """Stands in for processes: makes what they would make, and remembers them."""

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
        finished(run, 8.0 + run.seed)
        return 0

    def trained(self) -> list[str]:
        return [
            next(a for a in arguments if a.startswith("--model_dir"))
            for program, arguments in self.started
            if program == "train"
        ]


class Made:
    """A study of two rows and two seeds, with all that it says and writes."""

    def __init__(self, folder: Path):
        self.rows, self.runs = small_plan(folder)
        self.output = folder / "out"
        self.logged: list[str] = []
        self.written: list[Ablation] = []

    def study(self, *parts: RunResources) -> Study:
        given = ["--train_steps=40"]
        return Study(
            self.rows,
            self.runs,
            self.output,
            given,
            self.logged.append,
            self.written.append,
            parts or (ALL,),
        )


@pytest.fixture
def made(tmp_path) -> Made:
    return Made(tmp_path)


def test_every_run_is_made_on_one_corpus_and_scored_on_dev(made) -> None:
    sham = Sham(made.runs)
    found = made.study().run(sham)
    assert [program for program, _ in sham.started] == ["prepare", *["train"] * 4]
    records = f"--records={made.output / 'records'}"
    for run, (_, arguments) in zip(made.runs, sham.started[1:], strict=True):
        assert arguments[:2] == [f"--flagfile={run.row.flagfile}", "--train_steps=40"]
        assert {records, f"--seed={run.seed}", "--score_split=dev"} <= set(arguments)
        assert "--noexport_at_end" in arguments
    assert [run.perplexity for run in found.runs] == [9.0, 9.0, 10.0, 10.0]
    # There is a table after each run, and after the last.
    assert [len(each.runs) for each in made.written] == [1, 2, 3, 4, 4]
    assert made.logged[1] == "run 1 of 4: base, seed 1, 40 steps"
    assert made.logged[3].startswith("run 2 of 4: a1, seed 1, 40 steps; ")
    assert made.logged[3].endswith(" left")


def test_what_is_done_is_not_repeated(made) -> None:
    for run in made.runs[:3]:
        finished(run, 7.0)
    sham = Sham(made.runs)
    made.study().run(sham)
    assert sham.trained() == [f"--model_dir={made.runs[3].model_dir}"]
    assert made.logged[0] == "3 of 4 runs are done already"
    assert "run 4 of 4: a1, seed 2, 40 steps" in made.logged
    again = Sham(made.runs)
    found = made.study().run(again)
    assert again.started == []
    assert len(found.runs) == 4


def test_a_run_that_fails_leaves_the_others_be_and_is_tried_again(made) -> None:
    sham = Sham(made.runs, fails=("a1, seed 1",))
    found = made.study().run(sham)
    assert len(sham.trained()) == 4
    assert found.failures == (("a1", 1, "the loss is not finite"),)
    assert any("failed with status 2: the loss is not" in line for line in made.logged)
    again = Sham(made.runs)
    found = made.study().run(again)
    assert again.trained() == [f"--model_dir={made.runs[1].model_dir}"]
    assert found.failures == ()


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_that_cannot_even_begin_gives_its_share_back(made, count) -> None:
    """A file is where its folder should be; another's log cannot be opened. Were a
    share lost, the runs after them would wait for it without end."""
    made.output.mkdir()
    (made.output / "a1").write_text("")

    class Full(Sham):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            if log.name == "seed-2.log":
                raise OSError(28, "No space left on device", str(log))
            return super().run(program, arguments, log, poll, resources)

    found: list[Ablation] = []
    parts = [RunResources(cores=(core,)) for core in range(count)]
    study = made.study(*parts)
    thread = threading.Thread(
        target=lambda: found.append(study.run(Full(made.runs))), daemon=True
    )
    thread.start()
    thread.join(60)
    assert found, "It waits for a share that nobody gives back."
    logged = {(row, seed): text for row, seed, text in found[0].failures}
    assert set(logged) == {("a1", 1), ("a1", 2), ("base", 2)}
    assert "a1" in logged["a1", 1]
    assert "No space left on device" in logged["base", 2]
    assert any("a1, seed 1: failed: " in line for line in made.logged)
    assert [run.row for run in found[0].runs] == ["base"]


def test_a_run_that_leaves_no_score_failed(made) -> None:
    class Silent(Sham):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            status = super().run(program, arguments, log, poll, resources)
            if log.parent.name == "a1":
                finished(self._runs[str(log.with_suffix(""))], 8.0, steps=30)
            return status

    found = made.study().run(Silent(made.runs))
    assert found.failures == (
        ("a1", 1, "no output"),
        ("a1", 2, "no output"),
    )
    assert any("a1, seed 1: left no score: no output" in line for line in made.logged)


def test_a_signal_ends_it_with_a_table_of_what_is_done(made) -> None:
    sham = Sham(made.runs, stops_at=3)  # the corpus is the first
    found = made.study().run(sham)
    assert len(sham.trained()) == 2
    assert [run.row for run in found.runs] == ["base"]
    assert found.failures == ()
    assert made.written[-1] == found


def test_several_runs_at_a_time_have_a_share_each(made) -> None:
    """The first two meet, so they run at once; whoever is done starts the third."""
    parts = RunResources(cores=(0,)), RunResources(cores=(1,))
    together, used = threading.Barrier(2), []

    class Meeting(Sham):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            if program == "train":
                used.append(resources)
                if len(used) <= 2:
                    together.wait(30)
            return super().run(program, arguments, log, poll, resources)

    found = made.study(*parts).run(Meeting(made.runs))
    assert set(used[:2]) == set(parts)
    assert set(used) == set(parts)
    assert len(found.runs) == len(used) == 4
    numbers = [line.split(":")[0] for line in made.logged if line.startswith("run ")]
    assert sorted(numbers) == [f"run {i} of 4" for i in (1, 2, 3, 4)]
    # There is a table after each run, and after the last.
    assert len(made.written) == 5
    assert made.written[-1] == found


def test_a_signal_starts_none_of_the_runs_that_wait_for_a_share(made) -> None:
    """Two runs are stopped; of the other two neither is begun."""
    together = threading.Barrier(2)

    class Stopped(Sham):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            if program == "prepare":
                return super().run(program, arguments, log, poll, resources)
            self.started.append((program, list(arguments)))
            together.wait(30)
            self.signal_number = signal.SIGTERM
            return 143

    sham = Stopped(made.runs)
    found = made.study(RunResources(cores=(0,)), RunResources(cores=(1,))).run(sham)
    assert len(sham.trained()) == 2
    assert found.runs == found.failures == ()


def test_a_corpus_that_cannot_be_prepared_ends_it(made) -> None:
    class Broken(Sham):
        def run(self, program, arguments, log, poll=lambda: None, resources=ALL) -> int:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("error: There is no file train.en\n")
            return 2

    message = r"could not be prepared: There is no file train\.en\n.*prepare\.log"
    with pytest.raises(UserError, match=message):
        made.study().run(Broken(made.runs))


def test_a_run_that_outlived_its_parent_is_waited_for(made, monkeypatch) -> None:
    """Another process trains there, and is done the third time we look."""
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LOOKS", 0.0)
    looked = []
    other = ModelDir(made.runs[0].model_dir).lock(print)
    other.__enter__()

    def sleep(_: float) -> None:
        looked.append(1)
        if len(looked) == 3:
            other.__exit__(None, None, None)

    monkeypatch.setattr(module.time, "sleep", sleep)
    sham = Sham(made.runs)
    made.study().run(sham)
    assert len(looked) == 3
    assert len(sham.trained()) == 4
    waiting = [line for line in made.logged if ": waiting: " in line]
    assert len(waiting) == 1
    assert "Another process is training in" in waiting[0]
