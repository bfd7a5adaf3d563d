"""The programs as processes: help without TensorFlow, closed pipes, exit status."""

import os
import subprocess
import sys

import pytest

from tests.forked import REPOSITORY, run_python

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


def test_help_lists_the_flags_of_the_program():
    done = {name: run_python("-m", f"t2t_keras.{name}", "--help") for name in PROGRAMS}
    text = {name: each.stdout.decode() for name, each in done.items()}
    assert "Model: the hyperparameters of section 3 and Table 3." in text["train"]
    assert "  --d_model [512]\n      Width of the model" in text["train"]
    assert "  --jit_compile [true]\n" in text["train"]
    assert "Paper: 10." in text["train"]
    for name in PROGRAMS[1:]:
        assert "--d_model" not in text[name]
    for flag, owners in (
        ("--n_best [1]", ["translate"]),
        ("--split [test]", ["evaluate"]),
        ("--from_step", ["average"]),
        ("--merge_subwords [false]", ["visualize"]),
        ("--checkpoint [averaged]", ["translate", "evaluate", "export", "visualize"]),
        ("--beam_size", ["translate", "evaluate", "export", "visualize"]),
        ("--beam_size [4]", ["train"]),
    ):
        assert [name for name in PROGRAMS if f"  {flag}\n" in text[name]] == owners
    # No flags of other packages, and every line fits a terminal.
    for name in PROGRAMS:
        assert "--verbosity" not in text[name]
        assert max(map(len, text[name].splitlines())) <= 88


def test_a_closed_output_ends_the_program_silently(reverse_run):
    """As in `translate < text | head -2`."""
    command = [
        sys.executable,
        "-m",
        "t2t_keras.translate",
        f"--model_dir={reverse_run.model_dir.path}",
        "--beam_size=1",
        "--lines_at_once=1",
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as process:
        process.stdin.write(b"a b c\n\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"c b a\n"
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


@pytest.mark.slow
def test_a_process_with_bad_flags_ends_with_one_message(tmp_path):
    done = run_python("-m", "t2t_keras.translate", f"--model_dir={tmp_path}")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode() == (
        f"error: {tmp_path} is not a model directory: it has no train.flags. Give the "
        "--model_dir of a training run.\n"
    )
