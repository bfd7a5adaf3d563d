"""The script for Slurm, on a Slurm of one node that the tests start."""

import os
import pwd
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from t2t_keras.runs.training.workers import free_ports
from tests.in_process import run_program
from tests.runs import small_runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FOLDER = Path(__file__).parents[2] / "examples/cluster"
SCRIPT = FOLDER / "train.sbatch"
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
# Users other than root often have no /usr/sbin in theirs.
PATH = f"{os.environ['PATH']}:/usr/sbin"


class Slurm:
    """A cluster with one node, this machine."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons: list[subprocess.Popen] = []
        host, user = socket.gethostname(), pwd.getpwuid(os.getuid()).pw_name
        controller, node = free_ports(2)
        (folder / "slurm.conf").write_text(
            f"""
            ClusterName=test
            SlurmctldHost={host}(127.0.0.1)
            SlurmUser={user}
            SlurmdUser={user}
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
            KillOnBadExit=1
            KillWait=1
            NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs=2
            PartitionName=main Nodes=ALL Default=YES
            """.replace("\n            ", "\n")
        )
        self.environment = {
            **os.environ,
            "PATH": PATH,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PYTHONPATH": str(FOLDER.parents[1]),
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
        try:
            # Processes of jobs outlive the daemons.
            self.cancel_jobs()
        finally:
            for daemon in reversed(self.daemons):
                daemon.kill()
                daemon.wait()

    def cancel_jobs(self) -> None:
        # Processes of jobs outlive the daemons.
        self.ask("scancel", "--full", "--signal=KILL", "--me")
        self.ask("scancel", "--me")
        self.wait_until(lambda: not self.ask("squeue", "-h"), "no job is left")

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

    def submit(self, arguments: Sequence[str], script: Path = SCRIPT) -> "Job":
        log = self.folder / "job.log"
        log.unlink(missing_ok=True)
        options = ("--parsable", f"--output={log}", *ONE_NODE)
        number = self.ask("sbatch", *options, str(script), *arguments).strip()
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
        self._slurm.wait_until(lambda: self.fields().get("JobState") == state, state)
        return self.fields()

    def wait_until_it_may_stop(self, run: small_runs.Run) -> None:
        """Waits until it has trained long enough to be started again."""
        self._slurm.wait_until(
            lambda: run.newest() > 0 and self.fields().get("RunTime", "") > "00:00:35",
            "a checkpoint after 35 s",
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Slurm]:
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    slurm = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()


@pytest.fixture
def slurm(cluster) -> Iterator[Slurm]:
    """The cluster, without a job before the test and after it."""
    yield cluster
    cluster.cancel_jobs()


@pytest.fixture
def run(tmp_path) -> small_runs.Run:
    small_runs.write_corpus(tmp_path)
    steps = ("--train_steps=4000", "--save_steps=50", "--eval_steps=2000")
    rest = ("--log_steps=50", "--noexport_at_end", "--score_split=dev")
    return small_runs.small_run(tmp_path, tmp_path / "run", (*steps, *rest))


@pytest.mark.parametrize(
    "signal",
    [
        # By Slurm five minutes before the end, and before another job takes the nodes.
        pytest.param(("--batch", "--signal=USR1"), id="time"),
        pytest.param(("--signal=TERM",), id="preemption"),
    ],
)
def test_training_goes_on_in_a_new_job(slurm, run, signal) -> None:
    job = slurm.submit(run.arguments)
    job.wait_until_it_may_stop(run)
    slurm.ask("scancel", *signal, job.number)
    assert job.wait_for("PENDING")["Restarts"] == "1"
    log = job.log.read_text()
    assert log.count("stopped by SIGTERM") == 2
    assert ("the time is nearly up" in log) == ("--batch" in signal)
    saved = run.newest()
    assert saved < 4000
    # Slurm lets a job wait for two minutes before it starts again.
    slurm.ask("scontrol", "update", f"jobid={job.number}", "StartTime=now")
    slurm.wait_until(lambda: run.newest() > saved, "a checkpoint of the new job")
    assert f"resuming from step {saved:,}\n" in job.log.read_text()
    slurm.ask("scancel", "--signal=INT", job.number)
    assert job.wait_for("FAILED")["ExitCode"] == "130:0"
    small_runs.assert_each_step_once(run)


def test_a_job_with_too_little_time_is_not_started_again(slurm, run, tmp_path) -> None:
    # The script's 30 s are sometimes over before the first checkpoint.
    text, count = re.subn(r"(?m)^shortest_seconds=30$", r"\g<0>00", SCRIPT.read_text())
    assert count == 1
    script = tmp_path / "train.sbatch"
    script.write_text(text)
    job = slurm.submit(run.arguments, script)
    slurm.wait_until(lambda: run.newest() > 0, "the first checkpoint")
    slurm.ask("scancel", "--batch", "--signal=USR1", job.number)
    fields = job.wait_for("FAILED")
    assert (fields["Restarts"], fields["ExitCode"]) == ("0", "143:0")
    assert "give it more --time" in job.log.read_text()


def test_a_job_has_the_status_of_training(slurm, run) -> None:
    job = slurm.submit((*run.arguments, "--num_heads=3"))
    assert job.wait_for("FAILED")["ExitCode"] == "2:0"
    assert "--num_heads" in job.log.read_text()
    job = slurm.submit((*run.arguments, "--train_steps=10"))
    assert job.wait_for("COMPLETED")["ExitCode"] == "0:0"


def test_an_array_prepares_records(slurm, tmp_path) -> None:
    """As the script's first lines say, with two parts on one node."""
    small_runs.write_corpus(tmp_path)
    flags = (
        f"--train_source={tmp_path}/train.en",
        f"--train_target={tmp_path}/train.de",
        "--vocabulary_size=300",
        "--pairs_per_shard=9",
        "--workers=1",
    )
    script = str(FOLDER / "prepare.sbatch")
    options = ("--parsable", "--cpus-per-task=1", "--time=10", f"--chdir={tmp_path}")
    folder = tmp_path / "records"

    def submit(*options_and_step: str) -> str:
        cut = options_and_step.index(script)
        own, step = options_and_step[:cut], options_and_step[cut + 1 :]
        command = ("sbatch", *options, *own, script, *step)
        number = slurm.ask(*command, f"--output={folder}", *flags).strip()
        assert number.isdigit(), number
        return number

    begin = submit(script, "--vocabulary_only")
    parts = submit("--array=1-2", f"--dependency=afterok:{begin}", script)
    submit(f"--dependency=afterok:{parts}", script, "--join")
    slurm.wait_until((folder / "manifest.json").exists, "the records are joined")
    slurm.wait_until(lambda: not slurm.ask("squeue", "-h"), "no job is left")
    whole = tmp_path / "whole"
    done = run_program("prepare", f"--output={whole}", *flags)
    assert done.status == 0, done.stderr
    assert small_runs.read_files(folder) == small_runs.read_files(whole)
    number = submit("--array=3,7", script)
    slurm.wait_until(lambda: not slurm.ask("squeue", "-h"), "no job is left")
    logs = [path.read_text() for path in tmp_path.glob(f"t2t_prepare-{number}-*.log")]
    assert len(logs) == 2 and all("give a whole array" in log for log in logs)
