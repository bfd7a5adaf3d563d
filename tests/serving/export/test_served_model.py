import tensorflow as tf

from t2t_keras.serving.export.translator_module import TranslatorModule
from tests.serving.toy_model import LIMITS, SETTINGS, toy_model


def test_any_model_with_these_functions_can_be_exported(weight, vocabulary):
    """It need not be the package's Transformer."""
    module = TranslatorModule(toy_model(weight), vocabulary, SETTINGS, LIMITS)
    assert set(module.signatures()) == {
        "serving_default",
        "nbest",
        "translate_with_options",
        "score",
        "attention",
        "translate_ids",
    }
    outputs = module.translate(tf.constant(["ab c"]))
    assert outputs["translation"].numpy() == [b"ab c"]
