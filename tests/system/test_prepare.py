"""The prepare program: help, printed report, --verify and exit status."""

import dataclasses
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t_keras.files.signals import Interrupted
from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.runs.data import preparation
from t2t_keras.settings.config import flatten
from tests import forked_programs
from tests.forked import REPOSITORY, ForkedProcess
from tests.in_process import run_program
from tests.runs.reverse_task import reversed_pairs, write_split
from tests.runs.small_runs import read_files


@pytest.fixture
def flags(config):
    """Flags of the small corpus, and some that prepare ignores."""
    return [
        *(
            f"--{name}={','.join(value) if isinstance(value, tuple) else value}"
            for name, value in dataclasses.asdict(config.data).items()
            if value not in (None, ()) and not isinstance(value, bool)
        ),
        "--d_model=48",
        "--model_dir=elsewhere",
    ]


def test_records_are_made_and_verified(flags, tmp_path):
    folder = tmp_path / "records"
    done = run_program(
        "prepare", f"--output={folder}", "--workers=2", "--pairs_per_shard=40", *flags
    )
    assert done.status == 0, done.stderr
    manifest = read_manifest(folder)
    tokens = manifest.report.source_tokens, manifest.report.target_tokens
    report = [
        f"60 pairs in 2 shards: {tokens[0]} source and {tokens[1]} target tokens",
        "left out: 0 pairs longer than 8 tokens, 0 with an empty side, 0 rejected by "
        "filters, of 60",
    ]
    assert done.lines == report
    assert done.stderr.splitlines()[0] == "learning 280 subwords …"
    verified = run_program("prepare", f"--output={folder}", "--verify")
    assert (verified.status, verified.stderr) == (0, "")
    assert verified.lines == [f"{folder}: every hash is correct", *report]
    (folder / "train-00001" / "lengths.npy").write_bytes(b"")
    verified = run_program("prepare", f"--output={folder}", "--verify")
    assert (verified.status, verified.output) == (2, b"")
    assert "train-00001/lengths.npy" in verified.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_reported_and_sets_the_exit_status(
    flags, tmp_path, monkeypatch, number
):
    def stop(*_, **__):
        raise Interrupted(number)

    monkeypatch.setattr(preparation, "prepare", stop)
    done = run_program("prepare", f"--output={tmp_path}", *flags)
    assert (done.status, done.output) == (128 + number, b"")
    assert done.stderr == (
        f"stopped by {number.name}; finished shards are kept. The same command resumes "
        "from there.\n"
    )


def test_help_lists_only_the_data_settings(config):
    done = run_program("prepare", "--help")
    assert done.status == 0
    for name in ("output", "workers", "pairs_per_shard", "train_source", "max_length"):
        assert f"\n  --{name}" in done.stdout
    unused = {"records", "batching", "max_shapes", "tokens_per_batch"}
    for name in ("d_model", "train_steps", "beam_size", "model_dir", *unused):
        assert f"\n  --{name}" not in done.stdout
    settings = set(dataclasses.asdict(config.data))
    assert unused < settings < set(flatten(config))


@pytest.mark.slow
def test_after_kills_at_random_the_records_are_the_same(tmp_path):
    pairs = reversed_pairs(6_000, seed=5)
    flags = (
        *write_split(tmp_path, "train", pairs),
        "--vocabulary_size=280",
        "--pairs_per_shard=300",
        "--workers=2",
    )
    (whole := tmp_path / "whole").mkdir()
    done = run_program("prepare", f"--output={whole}", *flags)
    assert done.status == 0, done.stderr
    folder = tmp_path / "killed"
    command = f"--output={folder}", *flags
    for shards in (1, 9):
        process = forked_programs.start(command, tmp_path / "log", program="prepare")
        while len(list(folder.glob("train-*"))) < shards:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
        process.wait()
        assert not (folder / "manifest.json").exists()
    done = run_program("prepare", f"--output={folder}", *flags)
    assert done.status == 0, done.stderr
    complete = int(done.stderr.split(" of 20 shards are complete")[0].split("\n")[-1])
    assert 9 <= complete < 20
    assert read_files(folder) == read_files(whole)


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_with_one_message(tmp_path):
    flags = (
        *write_split(tmp_path, "train", reversed_pairs(9_000, seed=5)),
        "--vocabulary_size=280",
        "--pairs_per_shard=300",
        "--workers=2",
    )
    folder = tmp_path / "records"
    process = subprocess.Popen(
        (sys.executable, "-m", "t2t_keras.prepare", f"--output={folder}", *flags),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # its own process group, as in a terminal
        text=True,
    )
    while not (folder / "train-00003").exists():
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    *shards, last = errors.splitlines()[1:]
    assert all(line.startswith("train-") for line in shards)
    assert last.startswith("stopped by SIGINT; finished shards are kept.")
    assert not list(folder.glob(".*"))


def page_commands() -> list[list[str]]:
    """Arguments of the commands in docs/data.md, More than one machine."""
    page = (REPOSITORY / "docs/data.md").read_text(encoding="utf-8")
    section = page.split("\n## More than one machine\n")[1].split("\n## ")[0]
    text = section.replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("python -m ")]
    return [shlex.split(line) for line in lines if "t2t_keras.prepare" in line]


def test_the_commands_of_the_page_prepare_in_parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = reversed_pairs(200, seed=5)
    for side, name in enumerate(("train.en", "train.de")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    in_parts = [each for each in page_commands() if "--output=records/parts" in each]
    assert [each[-1] for each in in_parts] == [
        "--vocabulary_only",
        "--part=1/2",
        "--part=2/2",
        "--join",
    ]
    more = ("--vocabulary_size=280", "--pairs_per_shard=30", "--workers=1")
    outputs = []
    for _, _, program, *flags in in_parts:
        done = run_program(program.removeprefix("t2t_keras."), *flags, *more)
        assert done.status == 0, done.stderr
        outputs.append(done.lines[0])
    assert outputs[:3] == [
        "200 lines in 7 shards; 280 subwords",
        "part 1/2: its 3 shards are written",
        "part 2/2: its 4 shards are written",
    ]
    whole = [each for each in flags if each not in ("--join", "--output=records/parts")]
    done = run_program("prepare", *whole, "--output=whole", *more)
    assert done.stdout.splitlines()[0] == outputs[3]
    assert read_files(Path("records/parts")) == read_files(Path("whole"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--part=0/3",), "--part must be i/n, with i from 1 to n"),
        (("--part=4/3",), "Received: 4/3"),
        (("--part=2",), "Received: 2"),
        (("--part=1/2", "--join"), "--part and --join are different steps"),
        (("--vocabulary_only", "--verify"), "are different steps. Give one of them"),
        (("--join",), r"No records have been begun in .*--vocabulary_only, once, then"),
        (("--part=1/2",), "No records have been begun in"),
    ],
)
def test_steps_that_cannot_be_meant(tmp_path, flags, message):
    text = write_split(tmp_path, "train", reversed_pairs(9, seed=5))
    done = run_program("prepare", f"--output={tmp_path / 'r'}", *text, *flags)
    assert done.status == 2
    assert re.search(message, done.stderr), done.stderr


@pytest.mark.slow
def test_parts_that_are_killed_at_any_moment_leave_one_result(tmp_path):
    """Two hosts, whose clocks differ, write the same parts at once."""
    pairs = reversed_pairs(6_000, seed=5)
    generator = random.Random(1)
    text = [*pairs, *generator.choices(pairs, k=900)]
    flags = (
        *write_split(tmp_path, "train", text),
        "--vocabulary_size=280",
        "--pairs_per_shard=100",
        "--filter=duplicates",
        "--workers=1",
    )
    done = run_program("prepare", f"--output={tmp_path / 'whole'}", *flags)
    assert done.status == 0, done.stderr
    folder = tmp_path / "parts"
    command = f"--output={folder}", *flags
    done = run_program("prepare", *command, "--vocabulary_only")
    assert done.status == 0, done.stderr

    def start(step: str, host: int) -> ForkedProcess:
        log = tmp_path / f"log-{host}"
        return forked_programs.start((*command, step), log, program="prepare")

    kills = 0
    for step in ("--part=1/2", "--part=2/2"):
        for _ in range(3):
            before = len(list(folder.glob("train-*")))
            both = [start(step, host) for host in (0, 1)]
            more = generator.randrange(1, 4)
            while len(list(folder.glob("train-*"))) < before + more:
                assert None in [process.poll() for process in both]
                time.sleep(0.001)
            for process in both:
                kills += process.poll() is None
                process.kill()
                process.wait()
            for file in [*folder.rglob("*"), *tmp_path.glob("train.*")]:
                os.utime(file, (generator.randrange(1 << 32),) * 2)
        process = start(step, 2)
        assert process.wait() == 0, (tmp_path / "log-2").read_text()
    assert kills > 6  # of twelve
    process = start("--join", 2)
    time.sleep(0.3)
    process.kill()
    process.wait()
    process = start("--join", 2)
    assert process.wait() == 0, (tmp_path / "log-2").read_text()
    assert read_files(folder) == read_files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["--part=1/1", "--join"])
def test_a_full_disk_is_explained_and_nothing_is_lost(tmp_path, step):
    pairs = reversed_pairs(3_000, seed=5)
    flags = (
        *write_split(tmp_path, "train", [*pairs, *pairs[:50]]),
        "--vocabulary_size=280",
        "--filter=duplicates",
        "--workers=1",
        f"--output={tmp_path / 'records'}",
    )
    steps = ["--vocabulary_only", "--part=1/1", "--join"]
    for each in steps[: steps.index(step)]:
        assert run_program("prepare", *flags, each).status == 0
    before = read_files(tmp_path / "records")
    process = forked_programs.start(
        (*flags, step), tmp_path / "log", program="prepare", file_limit=9_000
    )
    assert process.wait() == 2
    log = (tmp_path / "log").read_text()
    assert "cannot be written: File too large" in log
    after = read_files(tmp_path / "records")
    assert {name: after[name] for name in before} == before
    for each in steps[steps.index(step) :]:
        assert run_program("prepare", *flags, each).status == 0
    done = run_program("prepare", *flags[:-1], f"--output={tmp_path / 'whole'}")
    assert done.status == 0
    assert read_files(tmp_path / "records") == read_files(tmp_path / "whole")
