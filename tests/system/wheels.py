"""The wheel of this checkout, in virtual environments that have nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.forked import REPOSITORY

BUILT_FROM = ("LICENSE", "README.md", "pyproject.toml", "configs", "data", "t2t_keras")


def build_wheel(folder: Path) -> Path:
    """Builds the wheel in `folder`, and returns its path."""
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


def make_environment(folder: Path, wheel: Path) -> Path:
    """Makes an environment with the wheel alone; returns its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([folder / "bin/python", "-m", "pip", *install], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages
