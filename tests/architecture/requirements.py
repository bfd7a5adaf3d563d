"""Holds pyproject.toml, requirements_lock.txt and BUILD against one another.

pip reads the first and Bazel the other two; a package added to one of them alone
would work for some people only.
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.build_faults import THIRD_PARTY
from tests.architecture.build_file import read_targets

UNLOCKED = frozenset({"beam", "peers"})


def requirement_faults(root: Path) -> list[str]:
    """Every disagreement between the three files; none, if the list is empty."""
    stated = _stated(root)
    locked = _locked(root)
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
    unlocked = map(Requirement, _unlocked(root))
    names = {canonicalize_name(each.name) for each in (*stated, *unlocked)}
    for target in read_targets(root):
        for label in target.deps:
            name = canonicalize_name(label.removeprefix(THIRD_PARTY))
            if label.startswith(THIRD_PARTY) and name not in names:
                faults.append(f"pyproject.toml: {name}, of :{target.name}, is missing")
    return faults


def _stated(root: Path) -> list[Requirement]:
    """The requirements of pyproject.toml, extras included.

    Not those of the extras `beam` and `peers`: they want an older protobuf than
    everything else, or an environment of their own.
    Not those with an extra of their own: `t2t_keras[test]` is this project, and
    `tensorflow[and-cuda]` is, on a machine with a GPU, the `tensorflow` above it.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    texts = [*project["dependencies"]]
    for name, extra in project.get("optional-dependencies", {}).items():
        texts += extra if name not in UNLOCKED else []
    return [each for each in map(Requirement, texts) if not each.extras]


def _unlocked(root: Path) -> list[str]:
    """The requirements of the extras that are not locked."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"].get("optional-dependencies", {})
    return [each for name in sorted(UNLOCKED) for each in extras.get(name, [])]


def _locked(root: Path) -> dict[str, str]:
    lines = (root / "requirements_lock.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if "==" in line]
    return {canonicalize_name(name): version for name, version in pins}


def package_faults(root: Path) -> list[str]:
    """Packages that a wheel would lack or cannot have; none, if the list is empty."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    settings = tomllib.loads(text)["tool"]["setuptools"]
    mapped = settings["package-dir"]
    listed = set(settings["packages"])
    found = {
        ".".join(path.parent.relative_to(root).parts)
        for path in (root / "t2t_keras").rglob("__init__.py")
    }
    return [
        *(f"pyproject.toml: packages lacks {name}" for name in found - listed),
        *(
            f"pyproject.toml: there is no package {name}"
            for name in listed - found
            if not (name in mapped and (root / mapped[name]).is_dir())
        ),
    ]
