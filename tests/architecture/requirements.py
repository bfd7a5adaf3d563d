"""Comparison of pyproject.toml, requirements_lock.txt and BUILD.

pip reads the first and Bazel the other two. A package that is missing in one of them
would work only for users of the other.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.architecture import find_imports, find_modules, find_reachable
from t2t_keras.errors import EXTRAS
from tests.architecture.build_faults import THIRD_PARTY
from tests.architecture.build_file import read_targets

UNLOCKED = frozenset({"beam", "jax", "peers"})


def requirement_faults(root: Path) -> list[str]:
    """Disagreements between the three files; empty if they agree."""
    stated = _read_requirements(root)
    locked = _read_lock(root)
    faults = []
    for requirement in stated:
        name = canonicalize_name(requirement.name)
        if name not in locked:
            faults.append(f"requirements_lock.txt: {name} is missing; lock again")
        elif locked[name] not in requirement.specifier:
            faults.append(
                f"requirements_lock.txt: {name} {locked[name]} is outside "
                f"{requirement.specifier} of pyproject.toml; lock again"
            )
    names = {canonicalize_name(each.name) for each in stated}
    for target in read_targets(root):
        for label in target.deps:
            name = canonicalize_name(label.removeprefix(THIRD_PARTY))
            if label.startswith(THIRD_PARTY) and name not in names:
                faults.append(f"pyproject.toml: {name}, of :{target.name}, is missing")
    return [*faults, *_lock_faults(root)]


def _lock_faults(root: Path) -> list[str]:
    """Entries that pip refuses with --require-hashes, or that other machines lack."""
    faults = []
    for entry in _entries(root):
        name, *hashes = entry.split(" --hash=")
        if name.startswith("-") or "://" in name:
            faults.append(f"requirements_lock.txt: {name} is not name==version")
        elif not hashes:
            faults.append(f"requirements_lock.txt: {name} has no hash; lock again")
    return faults


def _read_requirements(root: Path) -> list[Requirement]:
    """Requirements of pyproject.toml, including those of its extras.

    The extras `beam`, `jax` and `peers` are excluded: they need an older protobuf than
    everything else, or a separate environment. Requirements with an extra are excluded:
    `t2t_keras[test]` is this project, and `tensorflow[and-cuda]` is the `tensorflow`
    above it, on a machine with a GPU.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    texts = [*project["dependencies"]]
    for name, extra in project.get("optional-dependencies", {}).items():
        texts += extra if name not in UNLOCKED else []
    return [each for each in map(Requirement, texts) if not each.extras]


def _read_lock(root: Path) -> dict[str, str]:
    pins = [each.split(" --hash=")[0].split("==") for each in _entries(root)]
    return {canonicalize_name(pin[0]): pin[1] for pin in pins if len(pin) == 2}


def _entries(root: Path) -> list[str]:
    """Entries of the lock, each with its continuation lines, in single spaces."""
    text = (root / "requirements_lock.txt").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def extra_imports(root: Path, starts: Iterable[str]) -> set[tuple[str, str]]:
    """Packages of extras that modules import when they are imported themselves.

    Args:
        root: Folder of the repository.
        starts: Names of modules. All that they reach counts, and their functions, too.

    Returns:
        Pairs of a module's name and a package's.
    """
    modules = find_modules(root)
    of_extras = {package for packages in EXTRAS.values() for package in packages}
    found = set()
    for start in starts:
        for name in find_reachable(start, modules, inside_functions=True)[0]:
            imports = find_imports(modules[name], inside_functions=False)
            tops = {each.split(".")[0] for each in imports}
            found |= {(name, package) for package in tops & of_extras}
    return found
