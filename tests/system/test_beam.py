"""Records prepared by Apache Beam, on its local runner, in two processes."""

import importlib.util
import subprocess
import sys

import pytest

from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.runs.reverse_task import reversed_pairs, write_split
from tests.runs.small_runs import read_files
from tests.system.test_prepare import page_commands


@pytest.fixture
def flags(tmp_path):
    pairs = reversed_pairs(900, seed=5)
    return [
        *write_split(tmp_path, "train", [*pairs, *pairs[:80], ("a a", "a a")]),
        "--vocabulary_size=280",
        "--pairs_per_shard=90",
        "--filter=copied,duplicates",
        f"--rejected={tmp_path / 'rejected.tsv'}",
    ]


def prepare(*flags):
    return subprocess.run(
        [sys.executable, "-m", "t2t_keras.prepare", *flags],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_pipeline_gives_the_same_bytes(flags, tmp_path):
    if importlib.util.find_spec("apache_beam") is None:
        pytest.skip('no Apache Beam, which is optional: pip install -e ".[beam]"')
    done = run_program("prepare", f"--output={tmp_path / 'whole'}", *flags)
    assert done.status == 0, done.stderr
    rejected = (tmp_path / "rejected.tsv").read_bytes()
    (tmp_path / "rejected.tsv").unlink()
    # As docs/data.md has it, but for the number of processes.
    (runner,) = (flag for each in page_commands() for flag in each if "--beam" in flag)
    runner = runner.replace("num_workers=4", "num_workers=2")
    folder = tmp_path / "beam"
    done = prepare(f"--output={folder}", runner, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("881 pairs in 11 shards: ")
    assert read_files(folder) == read_files(tmp_path / "whole")
    assert (tmp_path / "rejected.tsv").read_bytes() == rejected
    unknown = prepare(f"--output={folder}", "--beam=--runer=DirectRunner", *flags)
    assert unknown.returncode == 2
    assert "must name a runner" in unknown.stderr
    assert "Received: --runer=DirectRunner" in unknown.stderr


def test_it_asks_for_the_package(flags, tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec

    def find_no_beam(name, *rest):
        return None if name == "apache_beam" else find_spec(name, *rest)

    monkeypatch.setattr("importlib.util.find_spec", find_no_beam)
    done = run_program(
        "prepare", f"--output={tmp_path / 'r'}", "--beam=--runner=DirectRunner", *flags
    )
    assert done.status == 2
    assert 'pip install "t2t_keras[beam]"' in done.stderr
    assert not (tmp_path / "r").exists()
