"""Programs that kill themselves while they save a checkpoint, or run out of disk."""

import json
import os
import resource
import runpy
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.forked import REPOSITORY, ForkedProcess

# Points while a checkpoint is saved at which a process can kill itself.
POINTS = (
    "while the weights are written",
    "before the state is written",
    "before the checkpoint gets its name",
    "while an old checkpoint is deleted",
)


def start(
    arguments: Sequence[str],
    log: Path,
    point: str | None = None,
    times: int = 1,
    file_limit: int | None = None,
    program: str = "train",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> ForkedProcess:
    """Starts `python -m t2t_keras.PROGRAM` with arguments; output goes to a log.

    Args:
        arguments: The flags.
        log: File that the output is appended to.
        point: Where the process kills itself, one of `POINTS`; None for nowhere.
        times: Number of times that it reaches this point, the last one included.
        file_limit: Maximum bytes of a file, to simulate a full disk; None for no
            limit.
        program: Name of the program.
        environment: Variables in addition to those of this process.
    """
    armed = json.dumps([program, *arguments]), repr(point), str(times), str(file_limit)
    code = f"from {__name__} import run; run({', '.join(armed)})"
    with log.open("ab") as output:
        return ForkedProcess(
            "-c",
            code,
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
        )


def run(
    arguments: list[str], point: str | None, times: int, file_limit: int | None
) -> None:
    """Runs a program in this process; see `start`."""
    if point is not None:
        _arm(point, times)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    sys.argv = arguments
    runpy.run_module(f"t2t_keras.{arguments[0]}", run_name="__main__", alter_sys=True)


def _arm(point: str, times: int) -> None:
    import tensorflow as tf

    from t2t_keras.training import checkpoints

    owner, name, prelude = {
        POINTS[0]: (tf.train.Checkpoint, "write", _write_half),
        POINTS[1]: (checkpoints, "_write_state", None),
        POINTS[2]: (Path, "rename", None),
        POINTS[3]: (shutil, "rmtree", _delete_half),
    }[point]
    original: Callable[..., Any] = getattr(owner, name)
    left = times

    def deadly(*arguments: Any, **settings: Any) -> Any:
        nonlocal left
        # Only renames and deletions of checkpoints count.
        checkpoint = _is_checkpoint(name, arguments)
        left -= checkpoint
        if checkpoint and left == 0:
            if prelude is not None:
                prelude(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **settings)

    setattr(owner, name, deadly)


def _is_checkpoint(name: str, arguments: tuple[Any, ...]) -> bool:
    if name == "rename":
        return Path(arguments[0]).name.startswith(".step-")
    if name == "rmtree":
        return Path(arguments[0]).is_dir() and Path(arguments[0]).name.startswith(
            (".step-", "step-")
        )
    return True


def _write_half(_: object, prefix: str) -> None:
    Path(f"{prefix}.data-00000-of-00001").write_bytes(b"half")


def _delete_half(path: Path, **_: object) -> None:
    # A folder left by another kill may be empty.
    for file in sorted(Path(path).iterdir())[:1]:
        file.unlink()
