"""Flags in the pages: commands have those of their programs, tables right numbers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from t2t_keras.__main__ import PROGRAMS
from tests.forked import REPOSITORY
from tests.in_process import run_program

PROGRAM = re.compile(rf"python -m t2t_keras\.(\w+)|\bt2t-({'|'.join(PROGRAMS)})\b")
# Of all programs.
COMMON = {"flagfile", "help", "helpfull", "version"}
# The default follows the name, in a table's next cell or after a comma.
DEFAULT = re.compile(r"`--(\w+)`(?:,| \|) ([\d.,]*\d|none)( MiB)?(?= \||;|,)")
NONE = {"", "-1", "false"}


@pytest.fixture(scope="module")
def defaults() -> dict[str, dict[str, str]]:
    """Returns the default of each flag of each program, as its help shows it."""
    flag = re.compile(r"^  --(?:\[no\])?(\w+)(?: \[(.*)\])?$", re.M)
    return {
        name: dict(flag.findall(run_program(name, "--help").stdout))
        for name in PROGRAMS
    }


def pages() -> Iterator[Path]:
    # Not CHANGELOG.md: earlier releases had other flags.
    for pattern in ("README.md", "docs/*.md", "examples/*.md", "data/*/*.md"):
        yield from REPOSITORY.glob(pattern)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the program and the flags of each command in a page's code blocks."""
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            for command in re.split(r"\||&&|;|#", line):
                if found := PROGRAM.search(command):
                    # What is in quotes is for another program.
                    rest = re.sub('"[^"]*"', "", command[found.end() :])
                    flags = re.findall(r"(?<=\s)--?(\w+)", rest)
                    yield found[1] or found[2], flags


def test_commands_have_flags_of_their_programs(defaults) -> None:
    wrong, count = [], 0
    for page in pages():
        for program, flags in commands(page.read_text(encoding="utf-8")):
            known = COMMON | {*defaults[program]}
            count += len(flags)
            wrong += [
                f"{page.relative_to(REPOSITORY)}: {program} --{flag}"
                for flag in flags
                if not {flag, flag.removeprefix("no")} & known
            ]
    assert wrong == []
    assert count > 300


def test_tables_have_the_defaults(defaults) -> None:
    count = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for name, value, unit in DEFAULT.findall(text):
            known = {flags[name] for flags in defaults.values() if name in flags}
            if name.startswith("no") and not known:
                continue  # the number beside it is a result
            count += 1
            where = f"{page.relative_to(REPOSITORY)}: --{name} is not {value}{unit}"
            if value == "none":
                assert known and known <= NONE, where
            else:
                number = float(value.replace(",", "")) * (2**20 if unit else 1)
                # The empty default of another program stands for the model's own.
                assert {float(each) for each in known if each} == {number}, where
    assert count > 15
