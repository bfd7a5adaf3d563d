"""Requirements of pip and Bazel agree, and a wheel has every package."""

import tomllib

from tests.architecture.requirements import requirement_faults
from tests.architecture.tree import ROOT


def test_pyproject_the_lock_and_build_agree() -> None:
    assert requirement_faults(ROOT) == []


def test_a_wheel_has_every_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = tomllib.loads(text)["tool"]["setuptools"]["packages"]
    inits = (ROOT / "t2t_keras").rglob("__init__.py")
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in inits}
    assert found <= set(packages)
