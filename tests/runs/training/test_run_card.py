"""First entries of a run card: versions, revision of the code, hardware."""

import os
import subprocess

import keras
import tensorflow as tf

from t2t_keras import __version__
from t2t_keras.runs.training.run_card import (
    describe_hardware,
    git_revision,
    initial_run_card,
)


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.check_output(command, text=True).strip()


def test_the_revision_is_that_of_the_packages_checkout(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    source = package / "__init__.py"
    source.write_text("a")
    assert git_revision(package) is None
    git(tmp_path, "init", "-q")
    # In a checkout, but not part of it, as in an environment below a project.
    assert git_revision(package) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_revision(package) == commit
    (tmp_path / "other").write_text("not the package's")
    (package / "new").write_text("not known")
    assert git_revision(package) == commit
    source.write_text("b")
    assert git_revision(package) == f"{commit}+"


def test_without_git_there_is_no_revision(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision(tmp_path) is None


def test_the_hardware_of_this_process(monkeypatch):
    found = describe_hardware()
    assert found["processor"]
    assert found["cores"] == len(os.sched_getaffinity(0))
    with open("/proc/meminfo") as lines:
        kibibytes = int(next(lines).split()[1])
    assert found["memory_bytes"] == kibibytes * 1024
    assert found["gpus"] == []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: [GPU, GPU])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda _: {"device_name": "Fast"}
    )
    assert describe_hardware()["gpus"] == ["Fast", "Fast"]


GPU = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")


def test_the_first_entries():
    card = initial_run_card()
    assert list(card) == ["started", "versions", "revision", "hardware"]
    assert card["versions"]["t2t_keras"] == __version__
    assert card["versions"]["keras"] == keras.__version__
