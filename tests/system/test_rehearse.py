"""Several hosts and many devices, on one machine: the paper's big run rehearsed."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.training.checkpoints import read_state, steps_in
from tests.system.in_process import run_program
from tests.system.programs import Program, Programs

# The flags of the paper's big run, with a small model on the bundled corpus.
REHEARSAL = (
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


def started_program(programs: Programs, name: str, *arguments: str) -> Program:
    """Starts a program for which XLA makes no haste.

    It writes no fast machine code, and that in its older way, which takes half the
    time: eight devices in a process are eight programs, each of which runs for seconds.
    """
    xla = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    return programs.start(name, *arguments, env={**os.environ, "XLA_FLAGS": xla})


def last_child_of(process: Program) -> int:
    """Returns the process that was started last by another, as Linux lists them."""
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(task.read_text().split()[-1])


def wait_for_step(place: ModelDir, step: int, process: Program) -> None:
    deadline = time.monotonic() + 400
    while not any(there >= step for there in steps_in(place.checkpoints)):
        assert process.poll() is None, process.said()
        assert time.monotonic() < deadline, process.said()
        time.sleep(0.05)


def killed(process: Program, victim: int, place: ModelDir, step: int) -> str:
    """Kills a process of a run once there is a checkpoint; returns what was said."""
    wait_for_step(place, step, process)
    os.kill(victim, signal.SIGKILL)
    process.wait(400)
    said = "".join(process.said())
    assert "parameters on 8 device(s), XLA" in said
    return said


def check_end(process: Program, place: ModelDir, reached: int) -> None:
    """Checks a run that goes on to its end, three steps on."""
    last = reached + 3
    process.wait(600)
    said = "".join(process.said())
    assert process.returncode == 0, said
    assert "parameters on 8 device(s), XLA" in said
    assert f"resuming from step {reached:,}" in said
    assert "x (48 + 48) tokens: " in said  # pre-flight
    assert f"step {last:,}/{last:,}" in said
    assert said.count("  dev: loss ") >= 1
    averaged = place.averaged / f"step-{last}"
    assert list(read_state(averaged).averaged) == steps_in(place.checkpoints)[-20:]
    assert "test: 1,000 sentences, averaged" in said


@pytest.mark.release
@pytest.mark.timeout(1500)  # eight processes, all to the end, on a busy machine
def test_a_rehearsal_of_the_papers_big_run(programs, tmp_path) -> None:
    """Two hosts of four devices, then one of eight: each is killed, goes on, and comes
    to the end: pre-flight, training, evaluation, averaging and export."""
    place = ModelDir(tmp_path / "run")
    flags = [*REHEARSAL, f"--model_dir={place.path}", f"--data_dir={tmp_path}"]
    many = "--train_steps=100000"
    hosts = started_program(programs, "rehearse", *flags, many, "--cpu_devices=4")
    wait_for_step(place, 1, hosts)
    said = killed(hosts, last_child_of(hosts), place, 2)
    # The worse of 2, of the one that was left alone, and that of the kill.
    assert hosts.returncode == 128 + signal.SIGKILL
    assert "error: Another worker stopped" in said
    reached = max(steps_in(place.checkpoints))
    to_end = f"--train_steps={reached + 3}"
    hosts = started_program(programs, "rehearse", *flags, to_end, "--cpu_devices=4")
    check_end(hosts, place, reached)
    assert (place.export / "1/saved_model.pb").is_file()

    one = started_program(programs, "train", *flags, many, "--cpu_devices=8")
    killed(one, one.pid, place, reached + 5)
    assert one.returncode == -signal.SIGKILL
    reached = max(steps_in(place.checkpoints))
    to_end = f"--train_steps={reached + 3}"
    one = started_program(programs, "train", *flags, to_end, "--cpu_devices=8")
    check_end(one, place, reached)
    assert (place.export / "2/saved_model.pb").is_file()


class Sleeper(subprocess.Popen):
    """A worker that ends at once, if it is the first, or sleeps for long.

    The last one is started while a signal arrives.
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
