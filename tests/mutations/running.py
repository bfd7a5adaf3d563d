"""Test runs against single variants, in copies of the checkout.

Nothing is shared with the checkout: the copy has its own files, bytecode, temporary
folder and `PYTHONPATH`. Tests of the variant's package come first. The other tests run
only for variants that survive those.
"""

import compileall
import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.files import files_for
from tests.mutations.mutation import DoesNotApply, Mutation

CAUGHT, SURVIVED, ERROR = "caught", "survived", "error"
QUICK = "not slow and not release"
SLOW = "slow and not release"

_NOT_COPIED = shutil.ignore_patterns(
    ".git", "__pycache__", ".*_cache", ".hypothesis", ".venv", "venv", "*.egg-info"
)
_COPIED = (".ci", "benchmarks", "configs", "data", "docs", "examples", "tests")
_OF_OUTER_PYTEST = re.compile(r"PYTEST_(XDIST|CURRENT_TEST|VERSION)")
_TIMED_OUT = re.compile(r"from pytest-timeout")


@dataclass(frozen=True)
class Stage:
    """Group of tests that run together.

    Attributes:
        name: Name in the table of results.
        marks: Expression for pytest's option -m.
        own: True for the tests of the variant's package, False for all others, None
            for both.
    """

    name: str
    marks: str
    own: bool | None


STAGES = (
    Stage("quick, own package", QUICK, own=True),
    Stage("quick", QUICK, own=False),
    Stage("slow", SLOW, own=None),
)


@dataclass(frozen=True)
class Result:
    """Outcome of testing one variant.

    Attributes:
        name: Name of the variant.
        outcome: CAUGHT, SURVIVED or ERROR.
        stage: Stage whose tests caught it; if none did, the last stage that ran.
        test: First test that failed.
        seconds: Total time, in seconds.
        note: Details, such as an error message.
        confirmed: Whether the test passed in a run without the variant.
    """

    name: str
    outcome: str
    stage: str = ""
    test: str = ""
    seconds: float = 0.0
    note: str = ""
    confirmed: bool = False


def digest(root: Path) -> str:
    """Returns a hash of all code and settings of a checkout, for which results hold."""
    sha256 = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
        parts = path.relative_to(root).parts
        if path.is_file() and parts[0] not in ("build", "dist", "venv", ".venv"):
            sha256.update(f"{'/'.join(parts)}\n".encode() + path.read_bytes())
    return sha256.hexdigest()


class Bench:
    """Copies of a checkout, and the processes that test them.

    Args:
        root: Root of the checkout, which is read once, at construction.
        scratch: An empty folder.
        package: Name of the top-level package.
        stage_seconds: Time limit for all tests of a stage, in seconds.
        test_seconds: Time limit for a single test, in seconds.
    """

    def __init__(
        self,
        root: Path,
        scratch: Path,
        package: str,
        stage_seconds: float = 7200.0,
        test_seconds: int = 300,
    ):
        self._scratch = scratch
        # Tests that give up the rights of root need a way to their own folders.
        scratch.chmod(0o755)
        self._stage_seconds = stage_seconds
        self._test_seconds = test_seconds
        self._processes: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._original = scratch / "original"
        self._original.mkdir()
        for path in sorted(root.iterdir()):
            if path.is_file():
                shutil.copy2(path, self._original)
            elif path.name in (*_COPIED, package):
                target = self._original / path.name
                shutil.copytree(path, target, ignore=_NOT_COPIED, symlinks=True)
        # Compiled once: copies keep the file times by which Python validates bytecode.
        compileall.compile_dir(self._original / package, quiet=2)

    def check(self, mutation: Mutation, stage: Stage) -> Result:
        """Returns the result of running one stage's tests against a variant."""
        start = time.monotonic()
        try:
            path = mutation.path(self._original)
            source = mutation.apply(path.read_text(encoding="utf-8"))
        except DoesNotApply as error:
            return Result(mutation.name, ERROR, stage.name, note=str(error))
        copy = self._copy(path, source)
        try:
            result = self._run_tests(mutation, copy, stage)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        return dataclasses.replace(result, seconds=time.monotonic() - start)

    def find_failing(self, tests: Sequence[str]) -> set[str]:
        """Returns those of `tests` that fail in the unchanged code."""
        if not tests:
            return set()
        copy = self._copy(None, "")
        try:
            status, failed, output = self._pytest(copy, tests, "", stops=False)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if status not in (0, 1):
            raise RuntimeError(f"pytest ended with status {status}:\n{output}")
        return {without_parameters(test) for test in failed}

    def stop(self) -> None:
        """Kills all running tests and refuses to start others."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                _kill(process)

    def _copy(self, changed: Path | None, source: str) -> Path:
        """Returns a copy of the checkout, with one file changed."""
        copy = Path(tempfile.mkdtemp(dir=self._scratch))
        shutil.copytree(self._original, copy, symlinks=True, dirs_exist_ok=True)
        if changed is not None:
            changed = copy / changed.relative_to(self._original)
            for stale in (changed.parent / "__pycache__").glob(f"{changed.stem}.*"):
                stale.unlink()
            changed.write_text(source, encoding="utf-8")
        return copy

    def _run_tests(self, mutation: Mutation, copy: Path, stage: Stage) -> Result:
        own, others = files_for(copy, mutation.module)
        files = [*own, *others]
        if stage.own is not None:
            files = own if stage.own else others
        paths = [str(path.relative_to(copy)) for path in files]
        # Without paths, pytest would run all tests.
        status, failed, output = (
            self._pytest(copy, paths, stage.marks) if paths else (0, [], "")
        )
        if status in (0, 5):  # 5: no test was selected
            return Result(mutation.name, SURVIVED, stage.name)
        return _judge_failure(mutation, stage, status, failed, output)

    def _pytest(
        self, copy: Path, paths: Sequence[str], marks: str, stops: bool = True
    ) -> tuple[int | None, list[str], str]:
        """Returns pytest's status (None: timeout), the failed tests, and its output."""
        temporary = Path(tempfile.mkdtemp(dir=self._scratch))
        temporary.chmod(0o755)
        cache = copy / ".pytest_cache"
        shutil.rmtree(cache, ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", marks]
        command += ["--tb=short", f"--timeout={self._test_seconds}"]
        if stops:
            command.append("-x")
        others = os.environ.get("PYTHONPATH")
        environment = {
            **{k: v for k, v in os.environ.items() if not _OF_OUTER_PYTEST.match(k)},
            # First, so that the copy's modules win, in child processes as well.
            "PYTHONPATH": os.pathsep.join([str(copy), *([others] if others else [])]),
            "TMPDIR": str(temporary),
        }
        log = temporary / "pytest.log"
        with open(log, "w", encoding="utf-8") as output:
            process = self._start([*command, *paths], copy, environment, output)
        try:
            status = process.wait(self._stage_seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _kill(process)
            with self._lock:
                self._processes.discard(process)
        text = log.read_text(encoding="utf-8", errors="replace")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            failed = json.loads((cache / "v/cache/lastfailed").read_text())
        except FileNotFoundError:
            failed = {}
        return status, list(failed), text

    def _start(self, command, copy, environment, output) -> subprocess.Popen:
        with self._lock:
            if self._stopped:
                raise InterruptedError
            process = subprocess.Popen(
                command,
                cwd=copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes.add(process)
        return process


def without_parameters(test: str) -> str:
    """Returns the id of a test without its parameters in brackets."""
    return test.partition("[")[0]


def _judge_failure(
    mutation: Mutation,
    stage: Stage,
    status: int | None,
    failed: Sequence[str],
    output: str,
) -> Result:
    """Returns the result of a pytest run that did not pass."""
    # A file that cannot be collected is not a failed test.
    tests = [test for test in failed if "::" in test]
    if status is None or _TIMED_OUT.search(output):
        outcome = CAUGHT if mutation.may_hang and tests else ERROR
        note = f"out of time: {mutation.may_hang or 'not expected'}"
    elif status == 1 and tests:
        outcome, note = CAUGHT, ""
    else:
        outcome = ERROR
        note = f"pytest ended with status {status}: {output[-1500:]}"
    return Result(
        mutation.name, outcome, stage.name, tests[0] if tests else "", 0, note
    )


def _kill(process: subprocess.Popen) -> None:
    """Kills a process and its children, which may outlive it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
