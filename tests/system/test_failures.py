"""Failures of a training process: full disk, damaged checkpoints, NaN, second trainer.

Kills are in `test_resume.py`, user errors in `test_bad_input.py`.
"""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.training.checkpoints import steps_in
from tests.system import forked_programs
from tests.system.runs import (
    STEPS,
    TIMEOUT_SECONDS,
    Run,
    assert_same_end,
    checkpoint_warnings,
    kill_at_end,
    small_run,
    write_corpus,
)

pytestmark = pytest.mark.slow

# These tests need no dev set.
NO_DEV = ("--dev_source=", "--dev_target=")
DATA = ".data-00000-of-00001"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def straight(corpus, tmp_path_factory) -> Run:
    """A run without any failure."""
    run = small_run(corpus, tmp_path_factory.mktemp("straight") / "run", NO_DEV)
    kill_at_end(forked_programs.start(run.arguments, run.log), run, STEPS)
    return run


def stop_after(run: Run, step: int) -> None:
    """Stops a run after a step, by Ctrl-C."""
    process = forked_programs.start(run.arguments, run.log)
    run.wait_for_step(process, step)
    os.kill(process.pid, signal.SIGINT)
    process.wait(TIMEOUT_SECONDS)
    assert process.returncode == 128 + signal.SIGINT, run.log.read_text()


def test_a_full_disk_is_a_warning_and_nothing_is_lost(
    corpus, straight, tmp_path
) -> None:
    run = small_run(corpus, tmp_path / "run", NO_DEV)
    stop_after(run, 6)
    before = steps_in(run.checkpoints)
    # The weights are larger; flags, run card and log are smaller.
    process = forked_programs.start(run.arguments, run.log, file_limit=32_768)
    process.wait(TIMEOUT_SECONDS)
    log = run.log.read_text()
    assert process.returncode == 2, log
    assert f"step {STEPS}/{STEPS}" in log
    assert f"warning: no checkpoint at step {before[-1] // 3 * 3 + 3}: " in log
    assert "File too large" in log
    assert f"The last checkpoint, of step {STEPS}, could not be written" in log
    assert "Traceback" not in log
    assert steps_in(run.checkpoints) == before
    # Without the limit, the same command ends like an undisturbed run.
    kill_at_end(forked_programs.start(run.arguments, run.log), run, STEPS)
    assert_same_end(straight, run)


def test_the_newest_checkpoint_is_damaged(corpus, straight, tmp_path) -> None:
    run = small_run(corpus, tmp_path / "run", NO_DEV)
    stop_after(run, 12)
    resumed_from, *damaged = steps_in(run.checkpoints)[-4:]
    index, *data = (run.checkpoints / f"step-{step}" / "weights" for step in damaged)
    index.with_suffix(".index").unlink()
    flipped, truncated = (each.with_suffix(DATA) for each in data)
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    os.truncate(truncated, truncated.stat().st_size // 2)
    kill_at_end(forked_programs.start(run.arguments, run.log), run, STEPS)
    log = run.log.read_text()
    faults = ("weights.index is missing", *[f"weights{DATA} has changed"] * 2)
    for step, fault in zip(damaged, faults, strict=True):
        assert f"warning: The checkpoint {run.checkpoints}/step-{step} is" in log
        assert f"step-{step} is damaged: {fault}" in log
    assert len(checkpoint_warnings(log)) == 3
    assert f"resuming from step {resumed_from}" in log
    assert_same_end(straight, run)


def test_the_newest_checkpoint_is_missing(corpus, straight, tmp_path) -> None:
    run = small_run(corpus, tmp_path / "run", NO_DEV)
    shutil.copytree(straight.model_dir, run.model_dir)
    shutil.rmtree(run.checkpoints / f"step-{STEPS}")
    kill_at_end(forked_programs.start(run.arguments, run.log), run, STEPS)
    log = run.log.read_text()
    missing = run.checkpoints / f"step-{STEPS}"
    assert f"warning: The latest checkpoint, {missing}, is missing." in log
    assert f"resuming from step {STEPS - 3}" in log
    assert_same_end(straight, run)


def test_two_trainers_and_one_that_seems_to_hang(corpus, straight, tmp_path) -> None:
    # Tracing the first step takes far longer than a tenth of a second.
    watched = (*NO_DEV, "--watchdog_minutes=0.002")
    run = small_run(corpus, tmp_path / "run", watched)
    first = forked_programs.start(run.arguments, run.log)
    run.wait_for_step(first, 3)
    other_log = tmp_path / "other.log"
    # Otherwise it might finish before the second one reaches the lock.
    os.kill(first.pid, signal.SIGSTOP)
    try:
        other = forked_programs.start(run.arguments, other_log)
        other.wait(TIMEOUT_SECONDS)
        assert first.poll() is None, run.log.read_text()
    finally:
        os.kill(first.pid, signal.SIGCONT)
    refusal = other_log.read_text()
    assert other.returncode == 2, refusal
    assert (
        f"Another process is training in {run.model_dir}: process {first.pid} on"
        in refusal
    )
    kill_at_end(first, run, STEPS)
    assert_same_end(straight, run)
    stacks = (run.model_dir / "stacks.txt").read_text()
    assert "Training is not stopped" in stacks
    # While tracing, only the innermost hundred frames are printed.
    assert "(most recent call first):" in stacks
    assert "(most recent call first):" in run.log.read_text()


def test_a_loss_that_is_not_finite_stops_the_run(corpus, tmp_path) -> None:
    # Weights of 1e27 after the first update: the products overflow.
    settings = (*NO_DEV, "--learning_rate_scale=1e30", "--train_steps=300")
    run = small_run(corpus, tmp_path / "run", settings)
    process = forked_programs.start(run.arguments, run.log)
    process.wait(TIMEOUT_SECONDS)
    log = run.log.read_text()
    assert process.returncode == 2, log
    assert "error: At step 2 the loss or its gradient was not finite" in log
    assert "Traceback" not in log
    folder = run.model_dir / "nonfinite" / "step-2"
    assert str(folder) in log
    statistics = json.loads((folder / "statistics.json").read_text())
    assert statistics["position"] == {"epoch": 0, "position": 1}
    assert statistics["weight_norms"]["transformer/embedding/embeddings"] > 1e25
    with np.load(folder / "batch.npz") as batch:
        assert statistics["shapes"] == {k: list(v.shape) for k, v in batch.items()}
        assert batch["decoder_loss_weights"].sum() == statistics["token_count"]
    # Nothing is saved after it, so the run resumes from before it.
    assert steps_in(run.checkpoints) == []
    process = forked_programs.start((*run.arguments, "--on_nonfinite=skip"), run.log)
    process.wait(TIMEOUT_SECONDS)
    log = run.log.read_text()
    assert process.returncode == 2, log
    assert "From step 2 on, 100 updates in a row" in log
    lines = (run.model_dir / "metrics.jsonl").read_text().splitlines()
    skipped = [json.loads(line)["skipped"] for line in lines]
    assert skipped == [9.0] + [10.0] * 9
    assert "skipped 10" in log
