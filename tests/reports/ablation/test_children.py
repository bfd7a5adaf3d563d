"""Child processes: exit status, forwarded signals, limits on cores."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from t2t_keras.reports.ablation import children as module
from t2t_keras.reports.ablation.children import Children, last_line
from t2t_keras.reports.ablation.resources import RunResources

PROGRAM = """
import signal, sys, time
def stop(number, _):
    print("stopped by", number)
    sys.exit(128 + number)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
print("started", *sys.argv[2:])
open(sys.argv[1], "w").close()
if "share" in sys.argv:
    import os
    while len(os.sched_getaffinity(0)) > 1:
        time.sleep(0.01)
    print("cores", *os.sched_getaffinity(0), "GPUs", os.environ["CUDA_VISIBLE_DEVICES"])
if "wait" in sys.argv:
    time.sleep(60)
if "until" in sys.argv:
    import os
    while not os.path.exists(sys.argv[1] + ".seen"):
        time.sleep(0.01)
if "die" in sys.argv:
    import os
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(3 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """Fake package `t2t_keras` for children, which start fast without TensorFlow."""
    (tmp_path / "t2t_keras").mkdir()
    (tmp_path / "t2t_keras" / "sham.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    # `python -m` searches the current directory first.
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("what", "status"), [("end", 0), ("fail", 3), ("die", 128 + signal.SIGKILL)]
)
def test_the_status_is_the_programs(package, what, status) -> None:
    with Children() as children:
        log = package / "logs" / "a.log"
        mark = str(package / "mark")
        assert children.run("sham", [mark, what], log) == status
    assert log.read_text() == f"started {what}\n"
    assert children.signal_number is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_program_and_nothing_is_started_after(
    package, number
) -> None:
    mark, log = package / "mark", package / "a.log"
    before = signal.getsignal(number)

    def send_when_it_runs() -> None:
        if mark.exists() and not sent.is_set():
            sent.set()
            os.kill(os.getpid(), number)

    sent = threading.Event()
    with Children() as children:
        status = children.run("sham", [str(mark), "wait"], log, send_when_it_runs)
        assert status == 128 + number
        assert children.signal_number == number
        assert children.run("sham", [str(package / "mark2")], log) == 128 + number
    assert log.read_text() == f"started wait\nstopped by {int(number)}\n"
    assert not (package / "mark2").exists()
    assert signal.getsignal(number) is before


def test_a_program_is_limited_to_its_resources_and_we_are_not(
    package, monkeypatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    cores = os.sched_getaffinity(0)
    resources = RunResources(cores=(max(cores),), gpus=("2", "3"))
    with Children() as children:
        arguments = [str(package / "mark"), "share"]
        children.run("sham", arguments, package / "a", resources=resources)
    logged = (package / "a").read_text()
    assert logged == f"started share\ncores {max(cores)} GPUs 2,3\n"
    assert os.sched_getaffinity(0) == cores
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_signal_reaches_all_programs_that_run(package) -> None:
    marks, found = [package / "one", package / "other"], []
    with Children() as children, ThreadPoolExecutor(2) as pool:
        for mark in marks:
            log = package / f"{mark.name}.log"
            found.append(pool.submit(children.run, "sham", [str(mark), "wait"], log))
        deadline = time.monotonic() + 60
        while not all(mark.exists() for mark in marks):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert [each.result(30) for each in found] == [143, 143]
    for mark in marks:
        assert (package / f"{mark.name}.log").read_text().endswith("stopped by 15\n")


def test_the_last_line_that_says_something(tmp_path) -> None:
    for text, last in (
        (b"one\ntwo\n\n  \n", "two"),
        (b"error: bad\n", "bad"),
        (b"\n", "no output"),
        (b"\xff\n", "\ufffd"),
        (b"x" * 9000 + b"\nend", "end"),
    ):
        (tmp_path / "log").write_bytes(text)
        assert last_line(tmp_path / "log") == last, text
        assert last_line(tmp_path / "none") == "no output", text
