"""Resuming a training run that was stopped or killed.

Real processes: weights, optimizer and position must be bit-equal to those of an
uninterrupted run.
"""

import random
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.training.checkpoints import steps_in
from tests import forked_programs
from tests.runs.small_runs import (
    STEPS,
    TIMEOUT_SECONDS,
    Run,
    assert_each_step_once,
    assert_same_end,
    assert_same_metrics,
    checkpoint_warnings,
    kill_at_end,
    kill_at_random,
    small_run,
    tensors,
    write_corpus,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.mark.slow
def test_a_stopped_run_ends_with_the_same_weights(short_run, tmp_path) -> None:
    run = Run(tmp_path / "run", short_run.flags)
    assert run.stop_at(15, signal.SIGTERM) == 128 + signal.SIGTERM
    stopped = run.newest()
    assert 15 <= stopped < STEPS
    log = run.log.read_text()
    assert f"stopped by SIGTERM; step {stopped} is saved." in log
    run.finish()
    assert f"resuming from step {stopped}" in run.log.read_text()
    straight = Run(short_run.model_dir.path, ())
    assert_same_end(straight, run)
    assert_same_metrics(straight, run)


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_weights(short_run, tmp_path) -> None:
    run = Run(tmp_path / "run", short_run.flags)
    # Killed in the middle of its second checkpoint, so that only the first is left.
    process = forked_programs.start(
        run.arguments, run.log, forked_programs.POINTS[0], times=2
    )
    process.wait(TIMEOUT_SECONDS)
    assert process.returncode == -signal.SIGKILL, run.log.read_text()
    assert steps_in(run.checkpoints) == [15]
    run.finish()
    log = run.log.read_text()
    assert "resuming from step 15" in log
    assert checkpoint_warnings(log) == []
    assert_same_end(Run(short_run.model_dir.path, ()), run)
    # Files left by the kill are removed in the end.
    names = {path.name for path in run.checkpoints.iterdir()}
    assert names == {f"step-{step}" for step in steps_in(run.checkpoints)}


START, TRAINING = "at a random moment from the start", "after a step"


@pytest.mark.release
@pytest.mark.timeout(1500)  # 22 starts
def test_twenty_kills_leave_no_trace(corpus, tmp_path) -> None:
    """During start-up, during training, and in the middle of a checkpoint."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    points = [START] * 4 + [TRAINING] * 8 + 2 * list(forked_programs.POINTS)
    rng.shuffle(points)
    steps = 160
    settings = ("--dev_source=", "--dev_target=", f"--train_steps={steps}")
    straight, killed = (
        small_run(corpus, tmp_path / name, (*settings, f"--save_steps={interval}"))
        for name, interval in (("straight", steps), ("killed", 1))
    )
    kill_at_end(
        forked_programs.start(straight.arguments, straight.log), straight, steps
    )
    killed.log.touch()
    for point in points:
        before = killed.newest()
        own = point if point in forked_programs.POINTS else None
        process = forked_programs.start(
            killed.arguments, killed.log, own, times=rng.randint(1, 3)
        )
        if point == TRAINING:
            # Even on a slow machine, there must be progress to lose.
            killed.wait_for_step(process, before + 1)
        if own is None:
            kill_at_random(process, killed, before + 4, rng.uniform(0.0, 8.0))
        process.wait(TIMEOUT_SECONDS)
        log = killed.log.read_text()
        assert process.returncode == -signal.SIGKILL, f"{point}: {log}"
        assert before <= killed.newest() < steps, f"{point}: {log}"
    assert killed.newest() > len(forked_programs.POINTS)
    kill_at_end(forked_programs.start(killed.arguments, killed.log), killed, steps)
    assert_same_end(straight, killed, steps)
    assert_each_step_once(killed)
    # No checkpoint was ever damaged, and no partial one is left.
    assert checkpoint_warnings(killed.log.read_text()) == []
    names = {path.name for path in killed.checkpoints.iterdir()}
    assert names == {f"step-{step}" for step in range(steps - 3, steps + 1)}


@pytest.mark.release
def test_resuming_with_xla_and_a_packed_mixture(corpus, tmp_path) -> None:
    settings = (
        # No dev set: one program to compile.
        "--jit_compile",
        "--dev_source=",
        "--dev_target=",
        "--max_length=8",
        "--vocabulary_size=330",
        "--batching=pack",
        # An epoch has a third of the other corpus.
        f"--mixture={corpus}/train.de:{corpus}/train.en:1/3",
    )
    run = small_run(corpus, tmp_path / "run", settings, keep_checkpoints=0)
    run.finish()
    straight = tensors(run.checkpoints / f"step-{STEPS}")
    # As after a kill at step 12.
    for step in steps_in(run.checkpoints):
        if step > 12:
            shutil.rmtree(run.checkpoints / f"step-{step}")
    run.finish()
    assert "resuming from step 12" in run.log.read_text()
    again = tensors(run.checkpoints / f"step-{STEPS}")
    for name, value in straight.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
