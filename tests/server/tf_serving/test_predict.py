"""Predict requests: outputs, and default inputs.

Refusals that are common to all servers are in `test_conformance`.
"""

import pytest

from t2t_keras.server.tf_serving.predict import predict
from tests.server.tf_serving.clients import request, values


@pytest.fixture
def ask(session):
    def call(signature="", output_filter=(), **inputs):
        message = request(signature, **inputs)
        message.output_filter.extend(output_filter)
        return predict(session.run, session.signatures, message)

    return call


def test_all_outputs_are_returned_unless_filtered(ask):
    everything = {"translation": [b"v2:ab"], "score": [2.0]}
    assert values(ask(text=[b"ab"])) == everything
    assert values(ask("serving_default", text=[b"ab"])) == everything
    assert values(ask(text=[b"ab"], output_filter=["score"])) == {"score": [2.0]}
    both = ask(text=[b"ab"], output_filter=["translation", "score"])
    assert values(both) == everything


def test_missing_options_have_their_defaults(ask):
    rows = [
        ({}, 4.0, 0.6),
        ({"beam_size": 7}, 7.0, 0.6),
        ({"alpha": 0.25}, 4.0, 0.25),
        ({"beam_size": 1, "alpha": 0.0}, 1.0, 0.0),
    ]
    for options, beam, alpha in rows:
        outputs = values(ask("with_options", text=[b"x", b"y"], **options))
        assert outputs["beam"] == [beam, beam], options
        assert outputs["alpha"] == pytest.approx([alpha, alpha]), options


def test_scalars_have_no_limit_of_rows(session):
    message = request("with_options", text=[b"x"], beam_size=2)
    outputs = values(predict(session.run, session.signatures, message, max_rows=1))
    assert outputs["beam"] == [2.0]
