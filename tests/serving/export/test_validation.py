"""Validation of exports in a session: faulty exports are refused."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.serving.export.requests import Request, example_request, write_warm_up
from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.translator_module import TranslatorModule
from t2t_keras.serving.export.validation import open_session, validate
from tests.serving.toy_model import LIMITS, SETTINGS, toy_model


def save_validated(module, base, vocabulary, warm_up=()):
    """Saves a version if it is valid, and returns its directory."""
    return save_version(
        module,
        base,
        (
            lambda version: write_warm_up(version, warm_up),
            lambda version: validate(version, vocabulary),
        ),
    )


class TracksKeras(TranslatorModule):
    """Faulty module: a Keras object on its root, whose variables are saved twice."""

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


@pytest.mark.slow
def test_a_keras_object_on_the_root_is_refused(vocabulary, tmp_path):
    message = "does not work in a server's session: signature serving_default: "
    with pytest.raises(UserError, match=message):
        save_validated(TracksKeras(vocabulary), tmp_path, vocabulary)
    assert list(tmp_path.iterdir()) == []
    # TensorFlow 2's own loader does not detect the fault.
    directory = save_version(TracksKeras(vocabulary), tmp_path)
    loaded = tf.saved_model.load(str(directory)).signatures["serving_default"]
    assert loaded(text=tf.constant(["c"]))["translation"].numpy() == [b"c"]


class OneSignature(tf.Module):
    """Module with one signature, whose outputs are changed by a function."""

    def __init__(self, module, change=lambda outputs, text: outputs):
        super().__init__()
        self.parts = [module.variables, module.tokenizers]
        self.translate = tf.function(
            lambda text: change(module.translate(text), text),
            input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        )

    def signatures(self):
        return {"serving_default": self.translate}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda outputs, text: {**outputs, "score": outputs["score"][:1]},
            r"outputs of a wrong size: signature serving_default expected 2 rows"
            r"\. Received: \{'score': \(1,\)\}",
        ),
        (  # Fails only without texts: a division by zero.
            lambda outputs, text: {
                **outputs,
                "score": outputs["score"] + tf.cast(1 // tf.size(text), tf.float32),
            },
            "division|[Dd]ivi",
        ),
    ],
)
def test_wrong_outputs_are_refused(module, vocabulary, tmp_path, change, message):
    wrong = OneSignature(module, change)
    with pytest.raises(UserError, match=message):
        save_validated(wrong, tmp_path / "base", vocabulary)
    assert list(tmp_path.iterdir()) == []


def test_a_bad_warm_up_request_is_refused(module, vocabulary, tmp_path):
    bad = Request("serving_default", {"text": np.array([[b"a"]], dtype=object)})
    with pytest.raises(UserError, match="text_must_have_rank_1"):
        save_validated(OneSignature(module), tmp_path / "base", vocabulary, [bad])
    assert list(tmp_path.iterdir()) == []


class BrokenOptions(OneSignature):
    """Module whose signature with options works with their defaults alone."""

    def __init__(self, module):
        super().__init__(module)
        default = tf.constant(0.5)

        def scalars_only(text, alpha=default):
            check = tf.debugging.assert_rank(alpha, 0, "alpha_must_be_a_scalar")
            with tf.control_dependencies([check]):
                return {"score": tf.zeros(tf.shape(text)) + alpha}

        specs = [
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec(None, tf.float32, name="alpha"),
        ]
        self.scalars_only = tf.function(scalars_only, input_signature=specs)

    def signatures(self):
        return {**super().signatures(), "translate_with_options": self.scalars_only}


@pytest.mark.parametrize("warmed_up", [True, False])
def test_signatures_without_warm_up_are_called_too(
    module, vocabulary, tmp_path, warmed_up
):
    """With options for each row, which a server that batches needs."""
    text = np.array([b"a"], dtype=object)
    warm_up = [Request("serving_default", {"text": text})] if warmed_up else []
    message = "(?s)signature translate_with_options: .*alpha_must_be_a_scalar"
    with pytest.raises(UserError, match=message):
        save_validated(BrokenOptions(module), tmp_path / "base", vocabulary, warm_up)
    assert list(tmp_path.iterdir()) == []


def test_only_the_weights_are_saved(module, weight, exported):
    assert module.variables == (weight,)
    reader = tf.train.load_checkpoint(str(exported / "variables/variables"))
    shapes = [tuple(s) for s in reader.get_variable_to_shape_map().values() if s]
    assert shapes == [tuple(weight.shape)]


def test_a_session_answers_the_same_without_optimization(served, exported, vocabulary):
    with open_session(exported, optimize=False) as session:
        for name, definition in served.signatures.items():
            inputs = definition.inputs.keys()
            request = example_request(name, inputs, ("a", "b a", ""), vocabulary)
            answer, expected = session.ask(request), served.ask(request)
            assert answer.keys() == expected.keys()
            for output, value in expected.items():
                np.testing.assert_array_equal(answer[output], value)
