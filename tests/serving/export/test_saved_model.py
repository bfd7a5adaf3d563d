"""Atomic writing of SavedModel versions."""

import os

import pytest
import tensorflow as tf

from t2t_keras.serving.export.saved_model import save_version


@pytest.fixture
def small():
    """The smallest module that `save_version` accepts."""
    module = tf.Module()
    module.count = tf.Variable(3.0)
    text = tf.TensorSpec([None], tf.string, name="text")
    module.double = tf.function(
        lambda text: {"o": tf.strings.join([text, text])},
        input_signature=[text],
        autograph=False,
    )
    module.signatures = lambda: {"serving_default": module.double}
    return module


def test_steps_run_in_order_before_the_version_gets_its_name(small, tmp_path):
    seen = []

    def first(directory):
        assert (directory / "saved_model.pb").is_file()
        assert directory.name.startswith(".")  # no server takes it for a version
        (directory / "more").write_text("x")
        seen.append("first")

    def second(directory):
        assert (directory / "more").is_file()
        assert [path.name for path in directory.parent.iterdir()] == [directory.name]
        seen.append("second")

    version = save_version(small, tmp_path / "a/b", (first, second))
    assert seen == ["first", "second"]
    assert version == tmp_path / "a/b/1"
    assert (version / "more").read_text() == "x"


def test_a_failed_save_is_an_os_error_and_leaves_nothing(small, tmp_path, monkeypatch):
    def full(module, directory, **options):
        tf.io.gfile.makedirs(directory)
        tf.io.write_file(f"{directory}/half", "x")
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/1'"):
        save_version(small, tmp_path)
    assert os.listdir(tmp_path) == []
