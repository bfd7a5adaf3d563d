"""A run that was stopped or killed ends as if it never had been.

Real processes on a corpus of a hundred sentences: weights, optimizer and position
must come out equal bit by bit.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.checkpoints import read_state, steps_in

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = 60
SETTINGS = (
    "--vocabulary_size=300",
    "--max_length=24",
    "--tokens_per_batch=240",
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--warmup_steps=10",
    "--eval_steps=10",
    "--log_steps=10",
    "--dev_bleu_sentences=0",
    # Most of the time is spent saving: a kill at a random moment hits it.
    "--save_steps=3",
    "--keep_checkpoints=4",
    "--nojit_compile",
    f"--train_steps={STEPS}",
)
TIMEOUT_SECONDS = 300


def write_corpus(folder: Path, sentences: int = 100) -> None:
    rng = random.Random(4)
    words = [f"{a}{b}" for a in "bdfgk" for b in ("a", "eno", "ilt", "or", "ust")]
    for split, count in (("train", sentences), ("dev", 6)):
        lines = [
            " ".join(rng.choices(words, k=rng.randint(1, 7))) for _ in range(count)
        ]
        (folder / f"{split}.en").write_text("".join(f"{x}\n" for x in lines))
        (folder / f"{split}.de").write_text("".join(f"{x[::-1]}\n" for x in lines))


class Run:
    """A training run in a directory, whose processes are started and ended here."""

    def __init__(self, corpus: Path, model_dir: Path, extra: Sequence[str] = ()):
        files = [
            f"--{split}_{side}={corpus / split}.{language}"
            for split in ("train", "dev")
            for side, language in (("source", "en"), ("target", "de"))
        ]
        self.checkpoints = model_dir / "checkpoints"
        self.log = model_dir.with_suffix(".log")
        self._command = [
            *(sys.executable, "-m", "t2t_keras.train", f"--model_dir={model_dir}"),
            *files,
            *SETTINGS,
            *extra,
        ]

    def start(self, *more: str) -> subprocess.Popen:
        with open(self.log, "a") as log:
            return subprocess.Popen(
                [*self._command, *more],
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            )

    def newest(self) -> int:
        return max(steps_in(self.checkpoints), default=0)

    def wait_for_step(self, process: subprocess.Popen, step: int) -> None:
        """Waits until there is a checkpoint of that step or a later one."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.newest() < step:
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.005)

    def stop_at(self, step: int, number: signal.Signals, delay: float = 0.0) -> int:
        """Starts it, sends a signal after that step, and returns the exit status."""
        process = self.start()
        try:
            self.wait_for_step(process, step)
            time.sleep(delay)
            process.send_signal(number)
            return process.wait(TIMEOUT_SECONDS)
        finally:
            process.kill()

    def finish(self) -> None:
        """Goes on to the last checkpoint; what follows is not waited for."""
        assert self.stop_at(STEPS, signal.SIGKILL) == -signal.SIGKILL
        assert self.newest() == STEPS, self.log.read_text()


def tensors(path: Path) -> dict[str, np.ndarray]:
    """Everything in a checkpoint: weights, optimizer, counters."""
    reader = tf.train.load_checkpoint(str(path / "weights"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }


def assert_same_end(run: Run, other: Run) -> None:
    ends = [tensors(each.checkpoints / f"step-{STEPS}") for each in (run, other)]
    assert ends[0].keys() == ends[1].keys()
    assert any("momentum" in name for name in ends[0])
    for name, value in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], value, err_msg=name)
    states = [read_state(e.checkpoints / f"step-{STEPS}") for e in (run, other)]
    assert states[0] == states[1]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def straight(corpus, tmp_path_factory) -> Run:
    """A run that nothing disturbed."""
    run = Run(corpus, tmp_path_factory.mktemp("straight") / "run")
    run.finish()
    return run


def test_a_stopped_run_ends_with_the_same_weights(corpus, straight, tmp_path) -> None:
    run = Run(corpus, tmp_path / "run")
    assert run.stop_at(12, signal.SIGTERM) == 128 + signal.SIGTERM
    stopped = run.newest()
    assert 12 <= stopped < STEPS
    log = run.log.read_text()
    assert f"stopped by SIGTERM; step {stopped} is saved." in log
    run.finish()
    assert f"going on from step {stopped}" in run.log.read_text()
    assert_same_end(straight, run)


def test_a_killed_run_ends_with_the_same_weights(corpus, straight, tmp_path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    run = Run(corpus, tmp_path / "run")
    for step in (3, 33):
        # Three steps and a save take about a tenth of a second.
        delay = rng.uniform(0.0, 0.25)
        assert run.stop_at(step, signal.SIGKILL, delay) == -signal.SIGKILL
    # What the kills left behind must not disturb, nor must it be there in the end.
    run.finish()
    assert_same_end(straight, run)
    names = {path.name for path in run.checkpoints.iterdir()}
    assert names == {f"step-{step}" for step in steps_in(run.checkpoints)}
    assert "warning" not in run.log.read_text()


# One length to pad to and no dev set: one program to compile.
ONE_PROGRAM = (
    *("--jit_compile", "--max_shapes=1", "--dev_source=", "--dev_target="),
    *("--max_length=8", "--vocabulary_size=330"),
)


@pytest.mark.parametrize("settings", [ONE_PROGRAM, ("--batching=pack",)])
def test_it_is_so_under_xla_and_with_packed_rows(corpus, tmp_path, settings) -> None:
    run = Run(corpus, tmp_path / "run", (*settings, "--keep_checkpoints=0"))
    run.finish()
    straight = tensors(run.checkpoints / f"step-{STEPS}")
    # What a kill after step 12 would have left.
    for step in steps_in(run.checkpoints):
        if step > 12:
            shutil.rmtree(run.checkpoints / f"step-{step}")
    run.finish()
    assert "going on from step 12" in run.log.read_text()
    again = tensors(run.checkpoints / f"step-{STEPS}")
    for name, value in straight.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


def test_other_settings_are_refused(straight) -> None:
    process = straight.start("--d_ff=32")
    assert process.wait(TIMEOUT_SECONDS) == 2
    log = straight.log.read_text()
    assert "error: " in log
    assert "--d_ff: 24 in the model_dir, 32 now" in log
    assert "Traceback" not in log


def test_another_corpus_is_refused(corpus, straight) -> None:
    originals = {path: path.read_text() for path in corpus.glob("train.*")}
    try:
        for path, text in originals.items():
            path.write_text(f"{text}one more\n")
        assert straight.start().wait(TIMEOUT_SECONDS) == 2
    finally:
        for path, text in originals.items():
            path.write_text(text)
    log = straight.log.read_text()
    assert "its training text has changed" in log
    assert "Traceback" not in log
    assert straight.newest() == STEPS
