"""List of the programs, and entry point of all console scripts.

python -m t2t_keras
"""

import ast
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

# In the order of use in a run. Each is a module that `python -m` runs.
PROGRAMS = (
    "prepare",
    "train",
    "recombine",
    "rehearse",
    "convert",
    "translate",
    "evaluate",
    "average",
    "report",
    "ablate",
    "export",
    "serve",
    "client",
    "visualize",
)
_PREFIX = "t2t-"


def console_script() -> None:
    """Runs the program in the name of the console script: t2t-train runs train.

    All scripts share this function, which runs programs in the same way as `python -m`.
    """
    name = Path(sys.argv[0]).stem.removeprefix(_PREFIX)
    if name not in PROGRAMS:
        print(
            f"error: {sys.argv[0]} does not have the name of a program: {_PREFIX}"
            f"{f', {_PREFIX}'.join(PROGRAMS)}.",
            file=sys.stderr,
        )
        sys.exit(2)
    # A class of the user's, --model, may be in the working directory.
    sys.path.insert(0, os.getcwd())
    runpy.run_module(f"t2t_keras.{name}", run_name="__main__", alter_sys=True)


def list_programs() -> str:
    """Returns the names and summaries of the installed programs, a line each."""
    width = max(map(len, PROGRAMS))
    lines = [
        f"  {_PREFIX}{name:{width}}  {_read_summary(name)}"
        for name in PROGRAMS
        if _path(name).exists()  # t2t-keras-client has one of them
    ]
    return "\n".join(
        [
            "The programs of t2t_keras, and what each does:",
            "",
            *lines,
            "",
            f"{_PREFIX}NAME --help lists the flags of a program. It can also be",
            "started with python -m t2t_keras.NAME.",
        ]
    )


def _read_summary(name: str) -> str:
    """Returns the first line of a program's docstring, without importing it."""
    text = _path(name).read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]


def _path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.py")


def main(arguments: Sequence[str]) -> int:
    """Prints the list, or the version; returns the exit status."""
    known = ("--help", "-h", "--version")
    if unknown := [each for each in arguments if each not in known]:
        name = unknown[0] if unknown[0] in PROGRAMS else "NAME"
        print(
            f"error: {unknown[0]!r} is not understood here. Start a program by its "
            f"name: python -m t2t_keras.{name}, or {_PREFIX}{name}.",
            file=sys.stderr,
        )
        return 2
    from t2t_keras.settings.program import VERSION_LINE, exit_on_errors

    with exit_on_errors():
        print(VERSION_LINE if "--version" in arguments else list_programs())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
