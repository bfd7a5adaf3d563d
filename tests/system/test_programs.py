"""The programs as processes: help without TensorFlow, closed pipes, exit status."""

import os
import subprocess
import sys

import pytest

from tests.forked import REPOSITORY, ForkedProcess, run_python

PROGRAMS = ("train", "translate", "evaluate", "average", "export", "visualize")


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        *((name, "model_dir") for name in (*PROGRAMS, "rehearse")),
        ("prepare", "output"),
        ("client", "server"),
        ("ablate", "rows"),
        ("report", "output"),
        ("recombine", "treebank"),
        ("serve", "batching_parameters_file"),
    ],
)
def test_help_does_not_import_tensorflow(name, flag):
    """Importing TensorFlow takes seconds."""
    done = run_python("-X", "importtime", "-m", f"t2t_keras.{name}", "--help")
    assert done.returncode == 0
    text = done.stdout.decode()
    assert f"    python -m t2t_keras.{name} " in text  # an example
    assert f"\n  --{flag}\n" in text
    imported = {
        line.split("|")[-1].strip() for line in done.stderr.decode().split("\n")
    }
    assert "absl.flags" in imported
    heavy = {"tensorflow", "keras", "tensorflow_text", "numpy", "grpc", "matplotlib"}
    assert heavy & imported == set()


@pytest.mark.slow
def test_a_closed_output_ends_the_program_silently(short_run):
    """As in `translate < text | head -2`."""
    command = [
        "-m",
        "t2t_keras.translate",
        f"--model_dir={short_run.model_dir.path}",
        "--beam_size=1",
        "--lines_at_once=1",
    ]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ForkedProcess(*command, cwd=REPOSITORY, **pipes) as process:
        process.stdin.write(b"a b c\n\n")
        process.stdin.flush()
        assert len(process.stdout.readline()) > 1
        assert process.stdout.readline() == b"\n"
        process.stdout.close()
        process.stdin.write(b"d e f\n" * 3)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_help_to_a_closed_pipe_ends_silently():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "t2t_keras.train", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")
