"""The ablate program as a process: a kill, a resume, and its report."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t_keras.reports.ablation.results import read_results
from tests.forked import REPOSITORY, run_python
from tests.in_process import run_program
from tests.runs.small_runs import SETTINGS, write_corpus


def arguments(folder: Path) -> list[str]:
    """Returns the command line of two rows of the smallest model, six steps each."""
    write_corpus(folder)
    (folder / "base.flags").write_text("--num_heads=2\n")
    (folder / "a1.flags").write_text("--num_heads=1\n--d_k=16\n--d_v=16\n")
    shared = [flag for flag in SETTINGS if not flag.startswith("--num_heads")]
    files = [
        f"--{split}_{side}={folder / split}.{language}"
        for split in ("train", "dev")
        for side, language in (("source", "en"), ("target", "de"))
    ]
    return [
        "-m",
        "t2t_keras.ablate",
        f"--rows={folder}/a1.flags,{folder}/base.flags",
        "--seeds=1",
        f"--output={folder / 'out'}",
        *files,
        *shared,
        "--train_steps=6",
        "--beam_size=1",
        "--extra_length=1",
    ]


@pytest.mark.release
def test_a_killed_ablation_resumes_and_a_finished_one_is_reported(tmp_path) -> None:
    command = arguments(tmp_path)
    first = tmp_path / "out" / "base" / "seed-1" / "run_card.json"
    with subprocess.Popen(
        [sys.executable, *command], cwd=REPOSITORY, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 300
        while not (first.exists() and "training_cost" in first.read_text()):
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    started = json.loads(first.read_text())["started"]

    done = run_python(*command)
    assert done.returncode == 0, done.stderr.decode()
    assert b"2 of 2 runs are done" in done.stdout
    # The interrupted run was resumed, not started again.
    assert json.loads(first.read_text())["started"] == started
    results = read_results(tmp_path / "out")
    steps = [(run.row, run.seed, run.step) for run in results.runs]
    assert steps == [("base", 1, 6), ("a1", 1, 6)]
    # Rows differ, and share one vocabulary.
    assert len({run.perplexity for run in results.runs}) == 2
    base, a1 = results.rows
    assert (base.changes, a1.changes) == ({}, {"num_heads": 1, "d_k": 16, "d_v": 16})
    cards = [
        json.loads(
            (tmp_path / "out" / run.row / f"seed-{run.seed}/run_card.json").read_text()
        )
        for run in results.runs
    ]
    assert len({card["vocabulary"]["sha256"] for card in cards}) == 1
    assert len({card["corpus"]["fingerprint"] for card in cards}) == 1
    page = (tmp_path / "out" / "ablation.html").read_text(encoding="utf-8")
    assert "all 2 runs are done" in page
    assert "One head is worse than eight" in page
    # An ablation needs no exports.
    assert not list((tmp_path / "out").glob("*/*/export*"))


def test_a_signal_sets_the_exit_status(tmp_path, monkeypatch) -> None:
    from t2t_keras.reports.ablation.children import Children

    def stop(self, program, arguments, log, look=None) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 143

    monkeypatch.setattr(Children, "run", stop)
    done = run_program("ablate", *arguments(tmp_path)[2:])
    assert done.status == 143
    assert "stopped; finished runs are kept. The same command resumes" in done.stderr
    assert (tmp_path / "out" / "ablation.md").is_file()
