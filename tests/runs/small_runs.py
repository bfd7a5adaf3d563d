"""Short training runs on a hundred sentences, and comparison of their files."""

import dataclasses
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.runs.data import preparation
from t2t_keras.runs.data.run_data import RunData
from t2t_keras.runs.training import training_run
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training.checkpoints import read_state, steps_in
from tests import forked_programs
from tests.forked import ForkedProcess

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
    # Saving takes most of the time, so a kill at a random moment often hits it.
    "--save_steps=3",
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
    """Training run in a directory, with methods to start and stop its processes."""

    def __init__(
        self, model_dir: Path, flags: Sequence[str], keep_checkpoints: int = 4
    ):
        self.model_dir = model_dir
        self.checkpoints = model_dir / "checkpoints"
        self.log = model_dir.with_suffix(".log")
        self.keep_checkpoints = keep_checkpoints
        self.arguments = (
            *flags,
            f"--model_dir={model_dir}",
            f"--keep_checkpoints={keep_checkpoints}",
        )

    def newest(self) -> int:
        return max(steps_in(self.checkpoints), default=0)

    def is_deleting(self) -> bool:
        """Returns whether there are too many checkpoints, or a partial one."""
        kept = self.keep_checkpoints or STEPS
        # In this order: a checkpoint is renamed to a dot name before it is deleted.
        too_many = len(steps_in(self.checkpoints)) > kept
        return too_many or any(self.checkpoints.glob(".step-*"))

    def wait_for_step(self, process: ForkedProcess, step: int) -> None:
        """Waits for a checkpoint of this step or a later one."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.newest() < step:
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.005)

    def stop_at(
        self, step: int, number: signal.Signals, delay: float = 0.0
    ) -> int | None:
        """Starts the run, sends a signal after a step, and returns the exit status."""
        process = forked_programs.start(self.arguments, self.log)
        assert process.pid is not None
        try:
            self.wait_for_step(process, step)
            time.sleep(delay)
            os.kill(process.pid, number)
            process.wait(TIMEOUT_SECONDS)
        finally:
            process.kill()
        return process.returncode

    def finish(self) -> None:
        """Resumes until the last checkpoint and kills the process after it."""
        process = forked_programs.start(self.arguments, self.log)
        try:
            kill_at_end(process, self, STEPS)
        finally:
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert self.newest() == STEPS, self.log.read_text()


def checkpoint_warnings(log: str) -> list[str]:
    """Returns warnings about checkpoints that are damaged, missing or not written."""
    lines = log.splitlines()
    return [x for x in lines if x.startswith("warning: ") and "checkpoint" in x]


def small_run(
    corpus: Path,
    model_dir: Path,
    extra: Sequence[str] = (),
    keep_checkpoints: int = 4,
) -> Run:
    """Returns a run of the smallest model on the files of `write_corpus`."""
    files = [
        f"--{split}_{side}={corpus / split}.{language}"
        for split in ("train", "dev")
        for side, language in (("source", "en"), ("target", "de"))
    ]
    return Run(model_dir, (*files, *SETTINGS, *extra), keep_checkpoints)


def prepare_records(
    config: ExperimentConfig, folder: Path, keep_text: bool = False
) -> Path:
    """Prepares records of the settings' corpus in several shards."""
    preparation.prepare(
        config.data,
        folder,
        pairs_per_shard=25,
        workers=1,
        keep_text=keep_text,
    )
    return folder


def assert_same_batches(data: RunData, other: RunData, epochs: int) -> None:
    """Checks that the data of two runs make the same batches."""
    batches = [
        TrainingBatches(each.train, each.batching, seed=4) for each in (data, other)
    ]
    count = epochs * data.summary.batches_per_epoch
    for (a, _), (b, _) in itertools.islice(zip(*batches, strict=True), count):
        for name in a:
            np.testing.assert_array_equal(b[name], a[name])


def tensors(path: Path) -> dict[str, np.ndarray]:
    """Returns all values of a checkpoint: weights, optimizer, counters."""
    reader = tf.train.load_checkpoint(str(path / "weights"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }


def assert_same_end(run: Run, other: Run, steps: int = STEPS) -> None:
    ends = [tensors(each.checkpoints / f"step-{steps}") for each in (run, other)]
    assert ends[0].keys() == ends[1].keys()
    assert any("momentum" in name for name in ends[0])
    for name, value in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], value, err_msg=name)
    states = [read_state(e.checkpoints / f"step-{steps}") for e in (run, other)]
    # Only times differ.
    costs = [dict(state.cost) for state in states]
    assert costs[0].pop("seconds") != costs[1].pop("seconds")
    assert costs[0] == costs[1]
    left, right = (
        dataclasses.replace(state, cost={}, unlogged=without_times(state.unlogged))
        for state in states
    )
    assert left == right


def assert_same_metrics(run: Run, other: Run) -> None:
    lines = [
        (each.model_dir / "metrics.jsonl").read_text().splitlines()
        for each in (run, other)
    ]
    left, right = ([without_times(json.loads(x)) for x in each] for each in lines)
    assert left == right


def without_times(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics that are equal in two runs on the same data."""
    times = ("time", "seconds", "waited", "reduced", "ceiling_share")
    return {
        name: value
        for name, value in values.items()
        if name not in times and not name.endswith(("_seconds", "_per_second"))
    }


def assert_each_step_once(run: Run) -> None:
    lines = (run.model_dir / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == sorted(set(steps))


def kill_at_random(
    process: ForkedProcess, run: Run, last_step: int, seconds: float
) -> None:
    """Kills a process after some seconds, or after a step if that comes first."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and run.newest() < last_step:
        assert process.poll() is None, run.log.read_text()
        time.sleep(0.005)
    process.kill()


def kill_at_end(process: ForkedProcess, run: Run, steps: int) -> None:
    """Kills the process after the last checkpoint, without waiting for the rest."""
    run.wait_for_step(process, steps)
    # The oldest checkpoint is renamed to a dot name and deleted after the last one was
    # written.
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while run.is_deleting():
        assert process.poll() is None, run.log.read_text()
        assert time.monotonic() < deadline, sorted(run.checkpoints.iterdir())
        time.sleep(0.005)
    process.kill()
    process.wait(TIMEOUT_SECONDS)


def read_files(folder):
    """Returns the bytes of all files in a folder, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def read_metrics(model_dir) -> list[dict]:
    return [
        json.loads(line) for line in model_dir.metrics_file.read_text().splitlines()
    ]


def train_and_log(config, model_dir) -> list[str]:
    lines: list[str] = []
    with log_to(lines.append):
        training_run.train(config, model_dir)
    return "\n".join(lines).splitlines()
