"""Signals at random moments: exit status 130 or 143 and no partial files."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from t2t_keras.files.signals import STOP_SIGNALS
from tests import forked_programs
from tests.runs.reverse_task import reversed_pairs, write_split

_WAIT_SECONDS = 300

# Flags of each program. FOLDER is a separate folder for each signal, with a copy of a
# run.
PROGRAMS = MappingProxyType(
    {
        "train": ("--model_dir=FOLDER/run", "--train_steps=510"),
        "prepare": (
            "--output=FOLDER/records",
            "--train_source=FOLDER/train.source",
            "--train_target=FOLDER/train.target",
            "--vocabulary_size=280",
            "--pairs_per_shard=300",
        ),
        "translate": (
            "--model_dir=FOLDER/run",
            "--input=FOLDER/train.source",
            "--output=FOLDER/translations",
        ),
        "evaluate": ("--model_dir=FOLDER/run", "--output=FOLDER/translations"),
        "average": ("--model_dir=FOLDER/run", "--last=2"),
        "export": ("--model_dir=FOLDER/run",),
        "visualize": ("--model_dir=FOLDER/run", "--sentence=abc"),
    }
)


@pytest.mark.release
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_signals(name, reverse_run, tmp_path):
    send_signals(name, 50 if name == "export" else 20, reverse_run, tmp_path)


def send_signals(name: str, count: int, trained, tmp_path: Path, *flags: str) -> None:
    """Runs a program to its end, then with `count` signals at random moments."""
    flags = (*PROGRAMS[name], *flags)
    if name == "train":
        flags = (*trained.flags, *flags)
    folder = prepare_folder(tmp_path / "whole", trained)
    status, log, seconds = run(name, flags, folder)
    assert status == 0, log
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}; undisturbed it takes {seconds:.1f} s")
    generator = random.Random(seed)
    stopped = 0
    for index in range(count):
        number = generator.choice(STOP_SIGNALS)
        after = generator.uniform(0, seconds)
        case = f"{number.name} {after:.2f} s after the start, seed {seed}"
        folder = prepare_folder(tmp_path / f"{index}", trained)
        status, log, _ = run(name, flags, folder, number, after)
        assert status in (0, 128 + number), f"{case}: {status}\n{log}"
        assert "Traceback" not in log, f"{case}\n{log}"
        assert find_partial_files(folder) == [], f"{case}\n{log}"
        for base in (folder / "run/export", folder / "run/export_ids"):
            first, *others = (list_files(base / v) for v in list_versions(base))
            assert all(other == first for other in others), f"{case}\n{log}"
        stopped += status != 0
        shutil.rmtree(folder)
    print(f"{stopped} of {count} were stopped")
    assert stopped >= count / 3


def prepare_folder(folder: Path, trained) -> Path:
    """Returns a folder with text to prepare and a copy of a run."""
    folder.mkdir()
    write_split(folder, "train", reversed_pairs(3_000, seed=5))
    shutil.copytree(trained.model_dir.path, folder / "run")
    return folder


def run(
    name: str,
    flags: Sequence[str],
    folder: Path,
    number: signal.Signals | None = None,
    after: float = 0.0,
) -> tuple[int | None, str, float]:
    """Runs a program and sends a signal some seconds after it has set its handlers.

    Returns:
        Exit status, output, and run time in seconds.
    """
    log = folder.with_suffix(".log")
    arguments = [flag.replace("FOLDER", str(folder)) for flag in flags]
    process = forked_programs.start(arguments, log, program=name)
    try:
        while process.poll() is None and not handles_signals(process.pid):
            time.sleep(0.001)
        start = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_WAIT_SECONDS if number is None else after)
        if number is not None and process.poll() is None:
            os.kill(process.pid, number)
        process.wait(_WAIT_SECONDS)
        seconds = time.monotonic() - start
    finally:
        process.kill()
        process.wait()
    return process.returncode, log.read_text(), seconds


def handles_signals(process_id: int | None) -> bool:
    """Returns whether a process has a handler for SIGTERM, according to the kernel."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return False
    (caught,) = (line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def find_partial_files(folder: Path) -> list[str]:
    """Returns files and folders with temporary names."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.startswith(".") or path.name.endswith(".tmp")
    ]


def list_versions(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir() if path.is_dir())


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
