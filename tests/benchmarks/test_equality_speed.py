"""Speed comparison of two checkouts: its cases and ratios of times."""

import contextlib

import pytest

from benchmarks.equality import speed


def test_the_ratio_is_the_median_with_its_range():
    assert speed.describe_ratios([1.5, 0.5, 0.75]) == "0.750 (0.500 to 1.500)"


def test_a_worker_does_the_work_of_a_case_in_its_checkout(tmp_path, monkeypatch):
    # A checkout with one program, which writes its folder and its number of steps.
    folder = tmp_path / "benchmarks" / "training_step"
    folder.mkdir(parents=True)
    (folder / "measured.py").write_text("")
    (folder / "ours.py").write_text(
        "import sys, time\n"
        "from benchmarks.training_step import measured\n"
        "def step():\n"
        "    time.sleep(0.01)\n"
        "    open('steps', 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "def main():\n"
        "    measured.report(step, 1, 1)\n"
    )
    with contextlib.closing(speed.Worker(tmp_path, next(iter(speed.CASES)))) as worker:
        seconds = worker.time_once()
    # Two steps for compilation and warm-up, and two steps of a round.
    assert (tmp_path / "steps").read_text().splitlines() == ["--xla=on"] * 4
    assert seconds >= 0.02


def test_a_program_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="status 1"):
        speed.Worker(tmp_path, next(iter(speed.CASES)))
