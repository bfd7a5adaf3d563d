"""Wheels of this checkout, in virtual environments that have nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import REPOSITORY
from tests.make_once import make_once

BUILT_FROM = (
    "LICENSE",
    "README.md",
    "client",
    "configs",
    "data",
    "pyproject.toml",
    "t2t_keras",
)


def make_environment(
    temporary: pytest.TempPathFactory, folder: Path, project: str, *options: str
) -> Path:
    """Makes an environment with the wheel of a project; returns its site-packages.

    Args:
        temporary: pytest's fixture `tmp_path_factory`.
        folder: Folder of the environment.
        project: Folder of the project's pyproject.toml in the checkout.
        *options: Options of `pip install`.
    """
    wheel = make_once(
        temporary, f"wheel of {project}", lambda folder: _build_wheel(folder, project)
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    install = [f"--python={folder}/bin/python", "install", *options, str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages


def _build_wheel(folder: Path, project: str) -> Path:
    # A copy, so that the build neither changes the checkout nor uses old build files.
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    for name in BUILT_FROM:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, folder / "tree" / name, ignore=ignored)
        else:
            (folder / "tree").mkdir(exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / "tree" / name)
    build = ["wheel", "--no-deps", f"--wheel-dir={folder}"]
    command = [sys.executable, "-m", "pip", *build, str(folder / "tree" / project)]
    subprocess.run(command, check=True)
    shutil.rmtree(folder / "tree")
    (wheel,) = folder.glob("*.whl")
    return wheel
