"""The wheel of this checkout, in virtual environments that have nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import REPOSITORY
from tests.make_once import make_once

BUILT_FROM = ("LICENSE", "README.md", "pyproject.toml", "configs", "data", "t2t_keras")


def make_environment(temporary: pytest.TempPathFactory, folder: Path) -> Path:
    """Makes an environment with the wheel alone; returns its site-packages."""
    wheel = make_once(temporary, "wheel", _build_wheel)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    install = [f"--python={folder}/bin/python", "install", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", *install, str(wheel)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages


def _build_wheel(folder: Path) -> Path:
    # A copy, so that the build neither changes the checkout nor uses old build files.
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    for name in BUILT_FROM:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, folder / "tree" / name, ignore=ignored)
        else:
            (folder / "tree").mkdir(exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / "tree" / name)
    build = ["wheel", "--no-deps", f"--wheel-dir={folder}", str(folder / "tree")]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    shutil.rmtree(folder / "tree")
    (wheel,) = folder.glob("*.whl")
    return wheel
