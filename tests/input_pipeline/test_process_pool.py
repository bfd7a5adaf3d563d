"""Pool of processes: results, their order, and the end of the processes."""

import functools
import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records import process_pool
from t2t_keras.input_pipeline.records.process_pool import Pace, ProcessPool


def make_double(word):
    """Returns a function that is slow for large numbers, and refuses negative ones."""

    def double(number):
        if number < 0:
            raise UserError(f"{word} is negative. Received: {number}")
        time.sleep(number / 1000)
        return 2 * number

    return double


MAKE = functools.partial(make_double, "This")


@pytest.fixture(scope="module")
def two_workers():
    with ProcessPool(MAKE, workers=2) as pool:
        yield pool


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_back_in_order(workers):
    # The slow tasks come first: later ones must wait for them.
    tasks = [90, 1, 1, 1, 30, 2, 2, 1, 1, 1, 4]
    with ProcessPool(MAKE, workers) as pool:
        for _ in range(2):  # it can be used again
            assert list(pool.map(iter(tasks))) == [(each, 2 * each) for each in tasks]
        assert list(pool.map([])) == []
        with pytest.raises(UserError, match=r"This is negative\. Received: -3"):
            list(pool.map([1, 2, -3]))


def test_tasks_are_drawn_no_further_than_needed(two_workers):
    drawn = []

    def record_draws():
        for task in [1] * 60:
            drawn.append(task)
            yield task

    ahead = 2 * process_pool._TASKS_AHEAD
    for number, _ in enumerate(two_workers.map(record_draws())):
        assert len(drawn) <= number + 1 + ahead
    assert len(drawn) == 60


def test_a_killed_process_is_an_error():
    with ProcessPool(MAKE, workers=2) as pool:
        os.kill(pool._processes[0].pid, signal.SIGKILL)
        with pytest.raises(UserError, match=r"status -9 .* with fewer --workers"):
            list(pool.map([5] * 8))


def test_none_is_left_behind():
    with ProcessPool(MAKE, workers=2) as pool:
        pids = [process.pid for process in pool._processes]
        for _ in pool.map([5, 5, 5]):
            break
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


ORPHANS = """
import os, signal, time
from t2t_keras.input_pipeline.records.process_pool import ProcessPool

def make():
    return time.sleep

if __name__ == "__main__":
    with ProcessPool(make, workers=2) as pool:
        print(*(process.pid for process in pool._processes), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_they_end_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "orphans.py").write_text(ORPHANS)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "orphans.py")],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL
    pids = {int(pid) for pid in done.stdout.split()}
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while pids := {pid for pid in pids if is_running(pid)}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert done.stderr == b""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_they_need_no_tensorflow():
    code = (
        "import sys, t2t_keras.input_pipeline.records.line_encoder\n"
        "import t2t_keras.input_pipeline.records.process_pool\n"
        "import t2t_keras.input_pipeline.batches.drawing\n"
        "print({'tensorflow', 'keras', 'tensorflow_text'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert done.stdout == "set()\n"


def test_the_pace_is_of_what_was_made_since_the_start(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(process_pool.time, "monotonic", lambda: now[0])
    pace = Pace(103, pairs_present=50)
    now[0] = 105.0
    pace.add(25)
    assert (pace.pairs_done, pace.seconds, pace.pairs_per_second) == (75, 5.0, 5.0)
    assert pace.describe() == "75/103 pairs  5 pairs/s"
    assert pace.seconds_left == pytest.approx((103 - 75) / 5.0)
