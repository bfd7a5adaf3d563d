"""The script for Slurm, on a Slurm of one node that the tests start."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from t2t_keras.runs.training.workers import free_ports
from tests.runs import small_runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[2] / "examples/cluster/train.sbatch"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
# Two processes on one node without GPUs.
ONE_NODE = (
    "--nodes=1",
    "--ntasks-per-node=2",
    "--cpus-per-task=1",
    "--gpus-per-node=0",
    "--time=10",
)
TIMEOUT_SECONDS = 120


class Slurm:
    """A cluster with one node, this machine."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons: list[subprocess.Popen] = []
        host = socket.gethostname()
        controller, node = free_ports(2)
        (folder / "slurm.conf").write_text(
            f"""
            ClusterName=test
            SlurmctldHost={host}(127.0.0.1)
            SlurmUser={os.environ.get("USER", "root")}
            SlurmdUser={os.environ.get("USER", "root")}
            AuthType=auth/munge
            AuthInfo=socket={folder}/munge
            SlurmctldPort={controller}
            StateSaveLocation={folder}/state
            SlurmdSpoolDir={folder}/spool
            SlurmctldPidFile={folder}/slurmctld.pid
            SlurmdPidFile={folder}/slurmd.pid
            ProctrackType=proctrack/pgid
            TaskPlugin=task/none
            MpiDefault=none
            NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs=2
            PartitionName=main Nodes=ALL Default=YES
            """.replace("\n            ", "\n")
        )
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PYTHONPATH": str(SCRIPT.parents[2]),
        }

    def start(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "key").write_bytes(os.urandom(1024))
        (self.folder / "key").chmod(0o600)
        self._run_daemon(
            "munged",
            "--foreground",
            "--force",
            *(f"--{name}-file={self.folder}/{name}" for name in ("key", "pid", "seed")),
            f"--socket={self.folder}/munge",
        )
        self._run_daemon("slurmctld", "-D")
        self._run_daemon("slurmd", "-D", "-N", "localhost")
        self.wait_until(lambda: " idle " in self.ask("sinfo"), "the node is idle")

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(TIMEOUT_SECONDS)

    def _run_daemon(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.log").open("w") as log:
            self.daemons.append(
                subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            )

    def ask(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    def submit(self, arguments: Sequence[str]) -> "Job":
        log = self.folder / "job.log"
        log.unlink(missing_ok=True)
        options = ("--parsable", f"--output={log}", *ONE_NODE)
        number = self.ask("sbatch", *options, str(SCRIPT), *arguments).strip()
        assert number.isdigit(), number
        return Job(self, number, log)

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not is_true():
            logs = "\n".join(x.read_text() for x in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"{what}:\n{logs}"
            time.sleep(0.1)


class Job:
    """A submitted script."""

    def __init__(self, slurm: Slurm, number: str, log: Path):
        self._slurm = slurm
        self.number = number
        self.log = log

    def fields(self) -> dict[str, str]:
        text = self._slurm.ask("scontrol", "show", "job", self.number)
        return dict(re.findall(r"(\w+)=(\S*)", text))

    def wait_for(self, state: str) -> dict[str, str]:
        """Waits until the job is in a state; returns its fields."""
        self._slurm.wait_until(lambda: self.fields()["JobState"] == state, state)
        return self.fields()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    slurm = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()


@pytest.fixture
def run(tmp_path) -> small_runs.Run:
    small_runs.write_corpus(tmp_path)
    steps = ("--train_steps=1000", "--save_steps=50", "--eval_steps=500")
    rest = ("--log_steps=50", "--noexport_at_end", "--score_split=dev")
    return small_runs.small_run(tmp_path, tmp_path / "run", (*steps, *rest))


def test_training_goes_on_in_a_new_job_when_the_time_is_up(slurm, run) -> None:
    job = slurm.submit(run.arguments)
    slurm.wait_until(lambda: run.newest() > 0, "the first checkpoint")
    # As Slurm does five minutes before the end.
    slurm.ask("scancel", "--batch", "--signal=USR1", job.number)
    assert job.wait_for("PENDING")["Restarts"] == "1"
    log = job.log.read_text()
    assert "out of time" in log and log.count("stopped by SIGTERM") == 2
    saved = run.newest()
    assert saved < 1000
    # Slurm lets a job wait for two minutes before it starts again.
    slurm.ask("scontrol", "update", f"jobid={job.number}", "StartTime=now")
    fields = job.wait_for("COMPLETED")
    assert (fields["Restarts"], fields["ExitCode"]) == ("1", "0:0")
    assert f"resuming from step {saved}" in job.log.read_text()
    assert run.newest() == 1000
    small_runs.assert_each_step_once(run)


def test_a_job_that_is_told_to_stop_saves_and_is_not_started_again(slurm, run) -> None:
    job = slurm.submit(run.arguments)
    slurm.wait_until(lambda: run.newest() > 0, "the first checkpoint")
    slurm.ask("scancel", "--signal=TERM", job.number)
    fields = job.wait_for("FAILED")
    assert (fields["Restarts"], fields["ExitCode"]) == ("0", "143:0")
    assert "is saved" in job.log.read_text()


def test_a_job_that_fails_has_the_status_of_training(slurm, run) -> None:
    job = slurm.submit((*run.arguments, "--num_heads=3"))
    assert job.wait_for("FAILED")["ExitCode"] == "2:0"
    assert "--num_heads" in job.log.read_text()
