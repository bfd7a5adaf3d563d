"""Requests of the benchmark of the warm-up."""

from benchmarks.warm_up import SIGNATURES, make_request
from t2t_keras.serving import signature

TEXT = frozenset({signature.TEXT})
PAIR = frozenset({signature.SOURCE, signature.TARGET})
OPTIONS = frozenset({signature.BEAM_SIZE, signature.ALPHA, signature.MAX_LENGTH})


def test_each_request_has_the_inputs_of_its_signature():
    inputs = {name: {*make_request(name).inputs} for name in SIGNATURES}
    assert inputs == {
        "serving_default": TEXT,
        "nbest": TEXT,
        "translate_with_options": TEXT | OPTIONS,
        "score": PAIR,
        "attention": PAIR,
        "translate_ids": {signature.INPUT_IDS},
    }
    for name in SIGNATURES:
        request = make_request(name)
        assert request.model_spec.signature_name == name
        shapes = [
            [dim.size for dim in each.tensor_shape.dim]
            for each in request.inputs.values()
        ]
        assert {shape[0] for shape in shapes} == {1}
