import tensorflow as tf

from t2t_keras.serving.export.translator_module import TranslatorModule
from tests.serving.toy_model import LIMITS, SETTINGS, toy_model


def test_whatever_has_these_functions_can_be_served(weight, vocabulary):
    """Nothing of the package's own model is asked for."""
    module = TranslatorModule(toy_model(weight), vocabulary, SETTINGS, LIMITS)
    assert set(module.signatures()) == {
        "serving_default",
        "nbest",
        "translate_with_options",
        "score",
        "attention",
        "translate_ids",
    }
    found = module.translate(tf.constant(["ab c"]))
    assert found["translation"].numpy() == [b"ab c"]
