"""Exports that would fail in a server are refused; the faults are planted."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.serving.export.requests import Request, write_warm_up
from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.translator_module import TranslatorModule
from t2t_keras.serving.export.validation import open_session, validate
from tests.serving.toy_model import LIMITS, SETTINGS, toy_model


def checked(module, base, vocabulary, warm_up=()):
    """Returns the version that is written if it is valid."""
    return save_version(
        module,
        base,
        (
            lambda version: write_warm_up(version, warm_up),
            lambda version: validate(version, vocabulary),
        ),
    )


class TracksKeras(TranslatorModule):
    """The planted fault: a Keras object on the root, its variables saved twice."""

    def __init__(self, vocabulary):
        layer = keras.layers.Embedding(vocabulary.size, 1)
        layer.build([None])
        layer.embeddings.assign(np.ones([vocabulary.size, 1]))

        def search(source, settings, *, options=None, growing=True):
            weight = layer.embeddings.value[:, 0]
            return toy_model(weight).search(source, settings, options=options)

        model = toy_model(tf.Variable(tf.ones(vocabulary.size)))
        model = dataclasses.replace(model, search=search)
        super().__init__(model, vocabulary, SETTINGS, LIMITS)
        self.layer = layer

    def signatures(self):
        return {"serving_default": self.translate}


def test_a_keras_object_on_the_root_is_found_before_a_server_finds_it(
    vocabulary, tmp_path
):
    message = "does not work in a server's session: signature serving_default: "
    with pytest.raises(UserError, match=message):
        checked(TracksKeras(vocabulary), tmp_path, vocabulary)
    assert list(tmp_path.iterdir()) == []
    # TensorFlow 2's own loader, which the check could have used, sees nothing.
    directory = save_version(TracksKeras(vocabulary), tmp_path)
    loaded = tf.saved_model.load(str(directory)).signatures["serving_default"]
    assert loaded(text=tf.constant(["c"]))["translation"].numpy() == [b"c"]


class OneSignature(TranslatorModule):
    """An export of one signature, some of whose answers are changed."""

    def __init__(self, weight, vocabulary, change):
        self.change = change
        super().__init__(toy_model(weight), vocabulary, SETTINGS, LIMITS)

    def signatures(self):
        return {"serving_default": self.translate}

    def _translate(self, text):
        return self.change(super()._translate(text), text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda found, text: {**found, "score": found["score"][:1]},
            r"outputs of a wrong size: signature serving_default expected 2 rows"
            r"\. Received: \{'score': \(1,\)\}",
        ),
        (  # Wrong for no texts only: nothing to divide by.
            lambda found, text: {
                **found,
                "score": found["score"] + tf.cast(1 // tf.size(text), tf.float32),
            },
            "division|[Dd]ivi",
        ),
    ],
)
def test_a_wrong_answer_is_found(weight, vocabulary, tmp_path, change, message):
    module = OneSignature(weight, vocabulary, change)
    with pytest.raises(UserError, match=message):
        checked(module, tmp_path / "base", vocabulary)
    assert list(tmp_path.iterdir()) == []


def test_what_answers_as_it_should_passes(weight, vocabulary, tmp_path):
    module = OneSignature(weight, vocabulary, lambda found, text: found)
    assert checked(module, tmp_path, vocabulary).parent == tmp_path


def test_a_warm_up_that_would_fail_a_server_s_load_is_found(
    weight, vocabulary, tmp_path
):
    bad = Request("serving_default", {"text": np.array([[b"a"]], dtype=object)})
    module = OneSignature(weight, vocabulary, lambda found, text: found)
    with pytest.raises(UserError, match="text_must_have_rank_1"):
        checked(module, tmp_path / "base", vocabulary, [bad])
    assert list(tmp_path.iterdir()) == []


def test_the_root_holds_variables_and_no_keras_object(module, weight, exported):
    assert module.variables == (weight,)
    reader = tf.train.load_checkpoint(str(exported / "variables/variables"))
    shapes = [tuple(s) for s in reader.get_variable_to_shape_map().values() if s]
    assert shapes == [tuple(weight.shape)]


def test_a_session_ends_with_its_block(exported):
    with open_session(exported) as session:
        pass
    request = Request("serving_default", {"text": np.array([b"a"], dtype=object)})
    with pytest.raises(tf.errors.CancelledError, match="Session has been closed"):
        session.ask(request)
