"""The prepare program: help, printed report, --verify and exit status."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_keras.files.signals import Interrupted
from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.runs.data import preparation
from t2t_keras.settings.config import flatten
from tests import forked_programs
from tests.forked import REPOSITORY
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
