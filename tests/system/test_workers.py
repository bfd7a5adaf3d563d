"""Multi-worker training with two processes on one host, and failures of a worker."""

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training import workers
from t2t_keras.training.checkpoints import StoredCheckpoint, steps_in
from tests import forked_programs
from tests.forked import ForkedProcess
from tests.runs.reverse_task import reversed_pairs, write_split
from tests.runs.small_runs import read_metrics

# The learning rate is small, because Adam amplifies rounding differences between
# gradients near zero.
SETTINGS = (
    "--source_language=letters",
    "--target_language=reversed",
    "--vocabulary_size=280",
    "--max_length=8",
    "--tokens_per_batch=136",
    "--max_shapes=1",
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--warmup_steps=4000",
    "--nojit_compile",
    "--log_steps=5",
    "--eval_steps=1000",
    "--dev_bleu_sentences=0",
    "--save_steps=5",
    "--keep_checkpoints=0",
    "--beam_size=1",
)


# One of these tests took 400 seconds on a machine with one core.
TIMEOUT = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("text")
    pairs = reversed_pairs(200, seed=5)
    for split, part in (("train", pairs[:150]), ("dev", pairs[150:])):
        write_split(folder, split, part)
    return tuple(
        f"--{split}_{side}={folder / f'{split}.{side}'}"
        for split in ("train", "dev")
        for side in ("source", "target")
    )


@dataclasses.dataclass(frozen=True)
class Trainer:
    """Process of the train program."""

    process: ForkedProcess
    log: Path

    def wait(self, seconds: float) -> tuple[int | None, str]:
        """Waits for the process; returns its status and its last own line."""
        self.process.wait(seconds)
        lines = self.log.read_text().splitlines()
        own = [line for line in lines if line[:5] not in NATIVE]
        return self.process.returncode, own[-1] if own else ""


@pytest.fixture
def start(tmp_path_factory) -> Iterator[Callable[..., Trainer]]:
    """Starts trainers with environment variables and flags; ends them with the test."""
    folder, processes = tmp_path_factory.mktemp("logs"), []

    def start(variables: Mapping[str, str], model_dir: Path, *flags: str) -> Trainer:
        log = folder / f"{len(processes)}.log"
        flags = (f"--model_dir={model_dir}", *SETTINGS, *flags)
        process = forked_programs.start(flags, log, environment=variables)
        processes.append(process)
        return Trainer(process, log)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def as_worker(index: int, ports: Sequence[int]) -> dict[str, str]:
    """Returns TF_CONFIG of a worker; each worker listens at one of the ports."""
    addresses = [f"localhost:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    cluster = {"cluster": {"worker": addresses}, "task": task}
    return {"TF_CONFIG": json.dumps(cluster)}


def start_two_workers(
    start: Callable[..., Trainer], model_dir: Path, *flags: str
) -> list[Trainer]:
    ports = workers.free_ports(2)
    return [start(as_worker(each, ports), model_dir, *flags) for each in range(2)]


def wait_for_all(trainers: list[Trainer]) -> list[tuple[int | None, str]]:
    """Waits for all trainers; returns status and last line of each."""
    return [trainer.wait(400) for trainer in trainers]


# First characters of TensorFlow's native log lines, for example about a lost peer.
NATIVE = frozenset({"I0000", "W0000", "E0000", "[even"})


def wait_for_step(model_dir: Path, step: int, trainers: list[Trainer]) -> None:
    deadline = time.monotonic() + 400
    while not any(saved >= step for saved in steps_in(model_dir / "checkpoints")):
        for trainer in trainers:
            assert trainer.process.poll() is None, trainer.log.read_text()
            assert time.monotonic() < deadline, trainer.log.read_text()
        time.sleep(0.05)


def read_weights_at(model_dir: Path, step: int) -> dict[str, np.ndarray]:
    return StoredCheckpoint(model_dir / f"checkpoints/step-{step}").weights()


@pytest.mark.slow
@TIMEOUT
def test_two_workers_make_the_updates_of_one_device(
    start, programs, corpus, tmp_path
) -> None:
    """With two devices each; then the run resumes on a single device."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    flags = (*SETTINGS, *corpus, "--eval_steps=5", "--noexport_at_end")
    flags = (*flags, "--max_shapes=3")
    to_ten = (*flags, "--train_steps=10", "--strategy=one")
    status, line = start({}, alone, *to_ten).wait(400)
    assert status == 0, line
    both = (*flags, "--train_steps=5", "--cpu_devices=2", f"--model_dir={together}")
    process = programs.start("rehearse", "--num_workers=2", *both, env=os.environ)
    assert process.wait(800) == 0, process.read_output()
    # Updates are about 1e-4; rounding differences are far smaller.
    first, other = read_weights_at(alone, 5), read_weights_at(together, 5)
    moved = read_weights_at(alone, 10)
    for name, weight in first.items():
        np.testing.assert_allclose(other[name], weight, atol=1e-6, rtol=0)
    assert max(np.abs(moved[name] - first[name]).max() for name in first) > 1e-5
    # Only the chief writes files and finishes the run.
    model_dir = ModelDir(together)
    assert [path.name for path in model_dir.averaged.iterdir()] == ["step-5"]
    (line,) = read_metrics(model_dir)
    assert line["step"] == 5 == read_metrics(ModelDir(alone))[0]["step"]
    # It computes half of the rows but logs the totals. These include padding rows,
    # added for equal shards, which raise the padding share and the FLOPs alike.
    expected = read_metrics(ModelDir(alone))[0]
    real, expected_real = (1 - each["padding_share"] for each in (line, expected))
    assert 1 < expected_real / real < 1.25
    flops_ratio = line["flops_per_step"] / expected["flops_per_step"]
    assert flops_ratio == pytest.approx(expected_real / real, rel=0.02)
    tokens, expected_tokens = (
        [
            each[f"{side}_tokens_per_second"] * each["step_seconds"]
            for side in ("source", "target")
        ]
        for each in (line, expected)
    )
    assert tokens == pytest.approx(expected_tokens)
    assert line["dev_loss"] == pytest.approx(expected["dev_loss"], rel=1e-5)
    status, line = start({}, together, *to_ten).wait(400)
    assert status == 0, line
    for name, weight in read_weights_at(together, 10).items():
        np.testing.assert_allclose(weight, moved[name], atol=2e-6, rtol=0)


@pytest.mark.slow
@TIMEOUT
def test_a_worker_that_dies_stops_the_others_and_a_signal_stops_all(
    start, corpus, tmp_path
) -> None:
    model_dir = tmp_path / "run"
    workers = start_two_workers(start, model_dir, *corpus, "--train_steps=1000000")
    wait_for_step(model_dir, 10, workers)
    workers[1].process.kill()
    began = time.monotonic()
    (status, line), (killed, _) = wait_for_all(workers)
    assert (status, killed) == (2, -signal.SIGKILL), line
    assert line.startswith("error: Another worker stopped or can no longer be reached")
    assert time.monotonic() - began < 100  # docs/training.md promises it
    kept = max(steps_in(model_dir / "checkpoints"))
    # Both resume from there. A signal to one of them stops both at the same step.
    workers = start_two_workers(start, model_dir, *corpus, "--train_steps=1000000")
    wait_for_step(model_dir, kept + 5, workers)
    workers[1].process.terminate()
    results = wait_for_all(workers)
    assert [status for status, _ in results] == [143, 143], results
    last = max(steps_in(model_dir / "checkpoints"))
    for _, line in results:
        assert line == (
            f"stopped by SIGTERM; step {last:,} is saved. The same command resumes "
            "from there."
        )
    # With that as the last step its evaluation is missing: both workers make it.
    flags = (*corpus, f"--train_steps={last}", "--noexport_at_end")
    results = wait_for_all(start_two_workers(start, model_dir, *flags))
    assert [status for status, _ in results] == [0, 0], results
    end = read_metrics(ModelDir(model_dir))[-1]
    assert end["step"] == last and end["dev_loss"] > 0


@pytest.mark.slow
@TIMEOUT
def test_diagnostics_of_workers_of_slurm(start, corpus, tmp_path) -> None:
    """Each worker writes its stacks; the first worker saves the whole batch."""
    model_dir = ModelDir(tmp_path / "run")
    variables = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURMD_NODENAME": "localhost",
    }
    # Weights of 1e27 after the first update: the products overflow.
    flags = (*corpus, "--learning_rate_scale=1e30", "--train_steps=300")
    flags = (*flags, "--watchdog_minutes=0.002")
    ranks = [{**variables, "SLURM_PROCID": str(rank)} for rank in range(2)]
    results = wait_for_all([start(own, model_dir.path, *flags) for own in ranks])
    assert [status for status, _ in results] == [2, 2], results
    (kept,) = model_dir.nonfinite.iterdir()
    step = kept.name.removeprefix("step-")
    for worker, where in enumerate((str(kept), "The first worker keeps its batch")):
        line = results[worker][1]
        assert line.startswith(f"error: At step {step} the loss or its gradient was")
        assert where in line
    statistics = json.loads((kept / "statistics.json").read_text())
    with np.load(kept / "batch.npz") as batch:
        tokens = np.count_nonzero(batch["decoder_target_tokens"])
        assert tokens == batch["decoder_loss_weights"].sum()
    assert tokens == statistics["token_count"]
    for worker in range(2):
        stacks = model_dir.stacks_file_for(worker).read_text()
        assert "(most recent call first):" in stacks
        assert model_dir.stacks_file_for(worker).name in stacks


@pytest.mark.slow
@TIMEOUT
def test_workers_with_different_settings_are_refused(start, corpus, tmp_path) -> None:
    ports = workers.free_ports(2)
    results = wait_for_all(
        [
            start(
                as_worker(each, ports),
                tmp_path / "run",
                *corpus,
                f"--train_steps={5 + each}",
            )
            for each in range(2)
        ]
    )
    assert [status for status, _ in results] == [2, 2], results
    assert any("do not agree" in line for _, line in results)
    assert steps_in(tmp_path / "run/checkpoints") == []
