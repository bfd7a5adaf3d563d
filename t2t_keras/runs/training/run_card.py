"""Run card of a new run: time, versions, revision of the code, and hardware."""

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

import t2t_keras
from t2t_keras.runs.model_dir import package_versions

_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy")


def initial_run_card() -> dict[str, Any]:
    """Returns the first entries of a run card."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {
            "t2t_keras": t2t_keras.__version__,
            "python": platform.python_version(),
            **package_versions(_PACKAGES),
        },
        "revision": git_revision(Path(t2t_keras.__file__).parent),
        "hardware": describe_hardware(),
    }


def git_revision(folder: Path) -> str | None:
    """Returns the commit that a folder is checked out at; None if it is not.

    "+" follows if files that git knows have changed since.
    """

    def ask(*arguments: str) -> str:
        done = subprocess.run(
            # A lock would be in the way of a commit.
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
        return done.stdout.strip()

    try:
        # A package that is installed may lie in another project's checkout.
        if not ask("ls-files", "__init__.py"):
            return None
        changed = ask("status", "--porcelain", "--untracked-files=no", ".")
        return ask("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def describe_hardware() -> dict[str, Any]:
    """Returns processor, usable cores, memory in bytes, and the name of each GPU."""
    processors = Path("/proc/cpuinfo")  # of Linux
    known = processors.read_text(errors="replace") if processors.exists() else ""
    name = re.search(r"^model name\s*: *(.+)", known, re.M)
    return {
        "processor": name[1] if name else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": [
            tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
            for gpu in tf.config.list_physical_devices("GPU")
        ],
    }
