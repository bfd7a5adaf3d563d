"""The examples are built and run, and say what `translate` says.

The C program loads and runs an export as a server does. What passes here is fit to
be served.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.system.conftest import REPOSITORY, python
from tests.system.hostile_lines import LINES
from tests.system.in_process import run_program

# Each test starts a process or two.
pytestmark = pytest.mark.slow

C_EXAMPLE = REPOSITORY / "examples" / "c"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of the C programs, built from their sources."""
    missing = [name for name in ("make", "gcc", "g++") if not shutil.which(name)]
    if missing:
        pytest.skip(f"{' and '.join(missing)}: not there to build examples/c with")
    build = tmp_path_factory.mktemp("build")
    make("all", f"BUILD={build}")
    return build


def make(target: str, *variables: str) -> str:
    done = subprocess.run(
        ["make", "-s", "-C", C_EXAMPLE, target, f"PYTHON={sys.executable}", *variables],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_c(program: Path, directory: Path, *arguments: str, stdin: bytes = b""):
    """Returns how a C program ended, TensorFlow's own lines less."""
    done = subprocess.run(
        [program, directory, make("tokenizer"), *arguments],
        input=stdin,
        capture_output=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    lines = done.stderr.decode().splitlines()
    said = [line for line in lines if line.startswith(("error: ", "warning: "))]
    return done.returncode, done.stdout, said


@pytest.fixture(scope="module")
def lines(reverse_run):
    return [*LINES, *(source.encode() for source, _ in reverse_run.held_out[:85])]


@pytest.fixture(scope="module")
def expected(reverse_run, lines):
    """What `translate` makes of the lines: texts and scores."""
    flag = f"--model_dir={reverse_run.model_dir.path}"
    done = run_program("translate", flag, "--scores", stdin=b"\n".join(lines))
    fields = [line.split("\t") for line in done.lines]
    return [text for _, _, text in fields], [float(score) for score, _, _ in fields]


def assert_same(output: bytes, expected) -> None:
    """Holds lines of score and text against what is expected."""
    fields = [
        line.split("\t") for line in output.decode().removesuffix("\n").split("\n")
    ]
    texts, scores = expected
    assert [text for _, text in fields] == texts
    found = [float(score) for score, _ in fields]
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["translate", "translate_no_xla"])
@pytest.mark.parametrize("batch_size", [1, 32])
def test_the_c_program_translates_as_translate_does(
    programs, reverse_run, lines, expected, name, batch_size
):
    version = reverse_run.model_dir.export / "1"
    status, output, said = run_c(
        programs / name, version, str(batch_size), stdin=b"\n".join(lines)
    )
    assert (status, [line for line in said if line.startswith("error")]) == (0, [])
    assert_same(output, expected)


def test_the_python_example_translates_as_translate_does(reverse_run, lines, expected):
    done = python(
        str(REPOSITORY / "examples/translate.py"),
        str(reverse_run.model_dir.export / "1"),
        stdin=b"\n".join(lines),
    )
    assert done.returncode == 0, done.stderr.decode()
    assert_same(done.stdout, expected)


class Shouting(tf.Module):
    """A made-up model: capitals, scored by length; above 9 bytes it is cut."""

    def __init__(self, score=lambda length: tf.cast(length, tf.float32) / 8):
        super().__init__()
        text = tf.TensorSpec([None], tf.string, name="text")
        self.score = score
        self.translate = tf.function(self._translate, input_signature=[text])

    def _translate(self, text):
        length = tf.strings.length(text)
        return {
            "translation": tf.strings.upper(text),
            "score": self.score(length),
            "truncated": length > 9,
        }


def saved(module, directory) -> Path:
    tf.saved_model.save(
        module, directory, signatures={"serving_default": module.translate}
    )
    return directory


@pytest.fixture(scope="module")
def shouting(tmp_path_factory):
    return saved(Shouting(), tmp_path_factory.mktemp("shouting"))


def test_lines_of_any_bytes_in_and_out(programs, shouting):
    text = b"a\x00b\n\nc\r\n\xff\xfe\n" + b"long " * 9 + b"\nno end"
    status, output, said = run_c(programs / "translate", shouting, "2", stdin=text)
    assert status == 0
    assert output == (
        b"0.375000\tA\x00B\n0.000000\t\n0.250000\tC\r\n0.250000\t\xff\xfe\n"
        b"5.625000\t" + b"LONG " * 9 + b"\n0.750000\tNO END\n"
    )
    assert said == ["warning: line 5 is too long; its end was not translated"]


def test_no_line_in_is_no_line_out(programs, shouting):
    assert run_c(programs / "translate", shouting) == (0, b"", [])


def test_only_the_program_without_xla_refuses_what_asks_for_it(programs, tmp_path):
    """As does a server, which a Python program would not show."""
    half = tf.function(lambda length: tf.cast(length, tf.float32) / 2, jit_compile=True)
    directory = saved(Shouting(half), tmp_path / "compiled")
    status, output, _ = run_c(programs / "translate", directory, stdin=b"abc\n")
    assert (status, output) == (0, b"1.500000\tABC\n")
    status, output, said = run_c(
        programs / "translate_no_xla", directory, stdin=b"abc\n"
    )
    assert (status, output) == (1, b"")
    assert "XLA compilation disabled" in said[0]


def test_a_keras_object_in_the_export_is_found(programs, tmp_path):
    """Its variables are saved twice, and the graph reads those never restored."""
    module = Shouting()
    module.layer = keras.layers.Embedding(16, 1)
    module.layer.build([None])
    module.score = lambda length: tf.gather(module.layer.embeddings.value[:, 0], length)
    directory = saved(module, tmp_path / "keras")
    status, output, said = run_c(programs / "translate", directory, stdin=b"abc\n")
    assert (status, output) == (1, b"")
    assert "Could not find variable" in said[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: usage: "),
        (["0"], "error: usage: "),
        (["1", "2"], "error: usage: "),
    ],
)
def test_a_command_that_is_none_is_refused(programs, shouting, arguments, message):
    done = subprocess.run(
        [
            programs / "translate",
            *([shouting, "x.so"] if arguments else []),
            *arguments,
        ],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr.decode()


def test_what_is_no_translator_is_refused(programs, tmp_path):
    status, output, said = run_c(programs / "translate", tmp_path)
    assert (status, output) == (1, b"")
    assert f"{tmp_path}: Could not find SavedModel" in said[0]
    module = tf.Module()
    module.translate = tf.function(
        lambda words: {"translation": words},
        input_signature=[tf.TensorSpec([None], tf.string, name="words")],
    )
    directory = saved(module, tmp_path / "words")
    status, output, said = run_c(programs / "translate", directory)
    assert (status, output) == (1, b"")
    assert said == [f"error: {directory}: serving_default takes no text"]
