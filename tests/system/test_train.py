"""The train program: flags, log lines, exit status, and a finished run."""

import os
import signal

import pytest
import tensorflow as tf

from t2t_keras.runs import finish
from t2t_keras.runs.training import training_run, workers
from t2t_keras.training.loop import TrainingInterrupted
from tests.devices import fake_strategy
from tests.in_process import run_program


@pytest.mark.slow
def test_the_same_command_again_is_done_at_once(own_short_run):
    """With the run's own flagfile, as the comment at its top says."""
    comment = own_short_run.flagfile.read_text().splitlines()[:3]
    assert any("python -m t2t_keras.train --flagfile=" in line for line in comment)
    done = run_program(
        "train",
        f"--flagfile={own_short_run.flagfile}",
        f"--model_dir={own_short_run.path}",
        "--beam_size=1",
    )
    assert done.status == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "resuming from step 60" in lines
    assert "all 60 steps are done already" in lines
    assert not any(line.startswith(("step", "learning")) for line in lines)
    # Scoring runs again, with the changed settings.
    assert "test: 10 sentences, averaged/step-60, beam 1, alpha 0.6" in done.stdout
    assert own_short_run.config().decoding.beam_size == 1


@pytest.mark.parametrize(
    ("number", "saved", "status", "message"),
    [
        (
            signal.SIGINT,
            True,
            130,
            "stopped by SIGINT; step 1,234 is saved. The same command resumes from "
            "there.\n",
        ),
        (
            signal.SIGTERM,
            False,
            143,
            "stopped by SIGTERM; step 1,234 is not saved. The same command resumes "
            "from the previous checkpoint.\n",
        ),
    ],
)
def test_a_signal_is_reported_and_sets_the_exit_status(
    tmp_path, monkeypatch, number, saved, status, message
):
    def stop(config, model_dir, strategy, **_):
        raise TrainingInterrupted(number, 1234, saved)

    monkeypatch.setattr(training_run, "train", stop)
    done = run_program("train", f"--model_dir={tmp_path / 'run'}")
    assert (done.status, done.output, done.stderr) == (status, b"", message)


@pytest.mark.parametrize(("rank", "status"), [(0, 0), (1, 2)])
def test_a_worker_that_is_left_behind_after_the_last_step(
    tmp_path, monkeypatch, rank, status
):
    """The chief has finished everything by then and ends normally."""
    strategy, finished = fake_strategy(rank), []

    def lost(_):
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    monkeypatch.setattr(workers, "set_up_devices", lambda *_: strategy)
    monkeypatch.setattr(workers, "wait_for_all", lost)
    monkeypatch.setattr(training_run, "train", lambda *_, **__: None)
    monkeypatch.setattr(finish, "finish", lambda *_: finished.append(True))
    done = run_program("train", f"--model_dir={tmp_path / 'run'}")
    assert (done.status, len(finished)) == (status, 1 - rank), done.stderr
    failed = done.stderr.startswith(
        "error: Another worker stopped or can no longer be "
    )
    assert failed == bool(rank)
    assert ("UnavailableError: Socket closed)" in done.stderr) == failed


def test_the_flags_reach_the_run(tmp_path, monkeypatch):
    seen = []

    def record(config, model_dir, strategy, **_):
        seen.append((config, model_dir.path))
        raise TrainingInterrupted(signal.SIGTERM, 0, True)

    monkeypatch.setattr(training_run, "train", record)
    path = tmp_path / "small.flags"
    path.write_text("# A comment\n--d_model=48\n--train_steps=7\n--nojit_compile\n")
    run_program(
        "train",
        f"--flagfile={path}",
        f"--model_dir={tmp_path / 'run'}",
        "--train_steps=9",  # the later one counts
        "--train_source=a.txt,b.txt",
        "--d_k=5",
    )
    ((config, model_dir),) = seen
    assert model_dir == tmp_path / "run"
    assert (config.model.d_model, config.model.d_k, config.model.d_v) == (48, 5, None)
    assert config.training.train_steps == 9
    assert config.training.jit_compile is False
    # Absolute, so that the run's flagfile works from any directory.
    here = os.getcwd()
    assert config.data.train_source == (f"{here}/a.txt", f"{here}/b.txt")
    assert config.data.test_source == ()


def test_a_run_logs_only_known_lines(short_run):
    """Standard error includes that of native code."""
    beginnings = (
        "learning 280 subwords …",
        "warning: --source_language=letters has no tokenization rules. ",
        "warning: --target_language=reversed has no tokenization rules. ",
        "warning: Only 3 batches per epoch. ",
        "corpus text files: 300 pairs: ",
        " batches per epoch, on average ",
        ", one pair per row; ",
        "model: 29,952 parameters on 1 device(s), no XLA",
        " tokens: ",
        " tokens to evaluate: ",
        "trying the largest batches …",
        "tried 1 training and 1 evaluation shape in ",
        "step ",
        "  dev: loss ",
        "trained for ",
        "translating the test set …",
    )
    lines = short_run.stderr.splitlines()
    foreign = [line for line in lines if not any(b in line for b in beginnings)]
    assert foreign == []
    # Only lines of `log_steps`; the number of other, shorter ones depends on speed.
    logged = [line for line in lines if line.startswith("step") and "tokens/s" in line]
    steps = [line.split("  ")[0] for line in logged]
    assert steps == [f"step {n}/60" for n in (20, 40, 60)]
