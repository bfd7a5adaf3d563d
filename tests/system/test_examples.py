"""The C programs of examples/c, with fake models: input, output and error messages.

test_serving_equality.py compares their translations with those of `translate`.
"""

import pytest
import tensorflow as tf

from tests.system.c_programs import run_c
from tests.system.shouting import Shouting, save_model

# Each test starts one or two processes.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shouting(tmp_path_factory):
    return save_model(Shouting(), tmp_path_factory.mktemp("shouting"))


def test_lines_of_any_bytes_in_and_out(c_programs, shouting):
    text = b"a\x00b\n\nc\r\n\xff\xfe\n" + b"long " * 9 + b"\nno end"
    status, output, messages = run_c(
        c_programs / "translate", shouting, "2", stdin=text
    )
    assert status == 0
    assert output == (
        b"0.375000\tA\x00B\n0.000000\t\n0.250000\tC\r\n0.250000\t\xff\xfe\n"
        b"5.625000\t" + b"LONG " * 9 + b"\n0.750000\tNO END\n"
    )
    assert messages == ["warning: line 5 is too long; its end was not translated"]


def test_empty_input_gives_empty_output(c_programs, shouting):
    assert run_c(c_programs / "translate", shouting) == (0, b"", [])


def test_only_the_program_without_xla_refuses_a_compiled_export(c_programs, tmp_path):
    """A stock server refuses it too; a Python program would not show this."""
    half = tf.function(lambda length: tf.cast(length, tf.float32) / 2, jit_compile=True)
    directory = save_model(Shouting(half), tmp_path / "compiled")
    status, output, _ = run_c(c_programs / "translate", directory, stdin=b"abc\n")
    assert (status, output) == (0, b"1.500000\tABC\n")
    status, output, messages = run_c(
        c_programs / "translate_no_xla", directory, stdin=b"abc\n"
    )
    assert (status, output) == (1, b"")
    assert "XLA compilation disabled" in messages[0]


@pytest.mark.parametrize("arguments", [["0"], ["many"], ["1", "2"]])
def test_bad_arguments_are_refused(c_programs, shouting, arguments):
    status, output, messages = run_c(c_programs / "translate", shouting, *arguments)
    assert (status, output) == (1, b"")
    assert "MODEL_VERSION_DIRECTORY TOKENIZER_LIBRARY [BATCH_SIZE]" in messages[0]


def test_a_directory_without_a_translator_is_refused(c_programs, tmp_path):
    status, output, messages = run_c(c_programs / "translate", tmp_path)
    assert (status, output) == (1, b"")
    assert f"{tmp_path}: Could not find SavedModel" in messages[0]
    module = tf.Module()
    module.translate = tf.function(
        lambda words: {"translation": words},
        input_signature=[tf.TensorSpec([None], tf.string, name="words")],
    )
    directory = save_model(module, tmp_path / "words")
    status, output, messages = run_c(c_programs / "translate", directory)
    assert (status, output) == (1, b"")
    assert messages == [f"error: {directory}: serving_default takes no text"]
