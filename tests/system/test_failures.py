"""Failures of a training process: full disk, damaged checkpoints, second trainer.

Kills are in `test_resume.py`, user errors in `test_bad_input.py`.
"""

import os
import shutil
import signal

import pytest

from t2t_keras.training.checkpoints import steps_in
from tests import forked_programs
from tests.runs.small_runs import (
    STEPS,
    TIMEOUT_SECONDS,
    Run,
    assert_same_end,
    checkpoint_warnings,
    kill_at_end,
)

pytestmark = pytest.mark.slow

DATA = ".data-00000-of-00001"


def test_a_full_disk_is_a_warning_and_nothing_is_lost(short_run, tmp_path) -> None:
    run = Run(tmp_path / "run", short_run.flags)
    # The weights are larger; flags, run card and log are smaller.
    process = forked_programs.start(run.arguments, run.log, file_limit=32_768)
    process.wait(TIMEOUT_SECONDS)
    log = run.log.read_text()
    assert process.returncode == 2, log
    assert f"step {STEPS}/{STEPS}" in log
    assert "warning: no checkpoint at step 15: " in log
    assert "File too large" in log
    assert f"The last checkpoint, of step {STEPS}, could not be written" in log
    assert "Traceback" not in log
    assert steps_in(run.checkpoints) == []
    # Without the limit, the same command ends like an undisturbed run.
    kill_at_end(forked_programs.start(run.arguments, run.log), run, STEPS)
    assert_same_end(Run(short_run.model_dir.path, ()), run)


def test_the_newest_checkpoint_is_missing_and_two_are_damaged(
    short_run, own_short_run
) -> None:
    run = Run(own_short_run.path, short_run.flags)
    step, *damaged, missing = (
        run.checkpoints / f"step-{n}" for n in steps_in(run.checkpoints)
    )
    shutil.rmtree(missing)
    (damaged[0] / "weights.index").unlink()
    data = damaged[1] / f"weights{DATA}"
    os.truncate(data, data.stat().st_size // 2)
    kill_at_end(forked_programs.start(run.arguments, run.log), run, STEPS)
    log = run.log.read_text()
    faults = ("weights.index is missing", f"weights{DATA} has changed")
    for path, fault in zip(damaged, faults, strict=True):
        assert f"warning: The checkpoint {path} is damaged: {fault}" in log
    assert f"warning: The latest checkpoint, {missing}, is missing." in log
    assert len(checkpoint_warnings(log)) == 3
    assert f"resuming from {step.name.replace('-', ' ')}" in log
    assert_same_end(Run(short_run.model_dir.path, ()), run)


def test_two_trainers_and_one_that_seems_to_hang(short_run, tmp_path) -> None:
    # Tracing the first step takes far longer than a tenth of a second.
    run = Run(tmp_path / "run", (*short_run.flags, "--watchdog_minutes=0.002"))
    first = forked_programs.start(run.arguments, run.log)
    run.wait_for_step(first, 15)
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
    assert_same_end(Run(short_run.model_dir.path, ()), run)
    stacks = (run.model_dir / "stacks.txt").read_text()
    assert "Training is not stopped" in stacks
    # While tracing, only the innermost hundred frames are printed.
    assert "(most recent call first):" in stacks
    assert "(most recent call first):" in run.log.read_text()
