"""The rehearse program: several workers with many devices each, on one machine."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.training.checkpoints import read_state, steps_in
from tests.in_process import run_program
from tests.programs import Program, Programs

# The flags of the paper's big run, with a small model on the bundled corpus.
SETTINGS = (
    "--flagfile=configs/big.flags",
    "--dataset=grammar_ende",
    "--vocabulary_size=500",
    "--max_length=48",
    "--tokens_per_batch=1000",
    "--max_shapes=1",
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--d_k=8",
    "--d_v=8",
    "--log_steps=1",
    "--eval_steps=3",
    "--dev_bleu_sentences=4",
    "--save_steps=1",
)


def start_program(programs: Programs, name: str, *arguments: str) -> Program:
    """Starts a program with the XLA settings that compile fastest.

    They halve the compile time: for eight devices, XLA compiles eight programs, and
    each of them runs only for seconds.
    """
    xla = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    return programs.start(name, *arguments, env={**os.environ, "XLA_FLAGS": xla})


def last_child(process: Program) -> int:
    """Returns the id of the last child process of a program, as listed by Linux."""
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(task.read_text().split()[-1])


def wait_for_step(model_dir: ModelDir, step: int, process: Program) -> None:
    deadline = time.monotonic() + 400
    while not any(saved >= step for saved in steps_in(model_dir.checkpoints)):
        assert process.poll() is None, process.read_output()
        assert time.monotonic() < deadline, process.read_output()
        time.sleep(0.05)


def kill_after_step(
    process: Program, victim: int, model_dir: ModelDir, step: int
) -> str:
    """Kills a process of a run after a checkpoint; returns the run's output."""
    wait_for_step(model_dir, step, process)
    os.kill(victim, signal.SIGKILL)
    process.wait(400)
    output = "".join(process.read_output())
    assert "parameters on 8 device(s), XLA" in output
    return output


def check_end(process: Program, model_dir: ModelDir, reached: int) -> None:
    """Checks a run that resumes from `reached` and ends three steps later."""
    last = reached + 3
    process.wait(600)
    output = "".join(process.read_output())
    assert process.returncode == 0, output
    assert "parameters on 8 device(s), XLA" in output
    assert f"resuming from step {reached:,}" in output
    assert "x (48 + 48) tokens: " in output  # pre-flight
    assert f"step {last:,}/{last:,}" in output
    assert output.count("  dev: loss ") >= 1
    averaged = model_dir.averaged / f"step-{last}"
    assert list(read_state(averaged).averaged) == steps_in(model_dir.checkpoints)[-20:]
    assert "test: 1,000 sentences, averaged" in output


@pytest.mark.release
@pytest.mark.timeout(1500)  # eight processes, all to the end, on a busy machine
def test_a_rehearsal_of_the_papers_big_run(programs, tmp_path) -> None:
    """Two workers with four devices, then one with eight.

    Each run is killed, resumes and finishes: preflight, training, evaluation, averaging
    and export.
    """
    model_dir = ModelDir(tmp_path / "run")
    flags = [*SETTINGS, f"--model_dir={model_dir.path}", f"--data_dir={tmp_path}"]
    many = "--train_steps=100000"
    hosts = start_program(programs, "rehearse", *flags, many, "--cpu_devices=4")
    wait_for_step(model_dir, 1, hosts)
    output = kill_after_step(hosts, last_child(hosts), model_dir, 2)
    # The killed worker's status, which is higher than the other one's, 2.
    assert hosts.returncode == 128 + signal.SIGKILL
    assert "error: Another worker stopped" in output
    reached = max(steps_in(model_dir.checkpoints))
    to_end = f"--train_steps={reached + 3}"
    hosts = start_program(programs, "rehearse", *flags, to_end, "--cpu_devices=4")
    check_end(hosts, model_dir, reached)
    assert (model_dir.export / "1/saved_model.pb").is_file()

    one = start_program(programs, "train", *flags, many, "--cpu_devices=8")
    kill_after_step(one, one.pid, model_dir, reached + 5)
    assert one.returncode == -signal.SIGKILL
    reached = max(steps_in(model_dir.checkpoints))
    to_end = f"--train_steps={reached + 3}"
    one = start_program(programs, "train", *flags, to_end, "--cpu_devices=8")
    check_end(one, model_dir, reached)
    assert (model_dir.export / "2/saved_model.pb").is_file()


class Sleeper(subprocess.Popen):
    """Fake worker: the first one ends at once, the others sleep.

    A signal arrives while the last one is started.
    """

    def __init__(self, _command, env, stdout, **_settings):
        index = json.loads(env["TF_CONFIG"])["task"]["index"]
        super().__init__(["sleep", "60" if index else "0"], stdout=stdout, text=True)
        if index == 2:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_reaches_all_workers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", Sleeper)
    done = run_program("rehearse", "--num_workers=3", f"--model_dir={tmp_path / 'run'}")
    assert done.status == 128 + signal.SIGTERM
