"""Predict requests: outputs, default inputs, order of checks, and the limit of rows.

Refusals that are common to all servers are in `test_conformance`.
"""

import pytest

from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.predict import predict
from tests.serving.server.clients import request, values


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


def test_the_answer_names_model_and_signature(ask):
    spec = ask(text=[b"ab"]).model_spec
    assert (spec.name, spec.signature_name) == ("translate", "serving_default")
    # The caller of `predict` adds the version, which it has chosen.
    assert not spec.HasField("version")


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


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        # The number of inputs is checked first.
        ("", {"text": [1], "b": 1, "a": 1}, "3!=1 len({a,b,text}) != len({text})"),
        # A missing name is reported before an unknown one.
        (
            "with_options",
            {"beam_size": 3, "beam": 1},
            "Signature input alias: text(feed name: with_options_text:0) not found in "
            "request and no default value provided. Inputs expected to be in the "
            "request {beam,beam_size}, or default input alias set: alpha,beam_size",
        ),
        (
            "with_options",
            {"text": [b"a"], "beam": 1},
            "Inputs contains invalid name. Used request inputs: text, "
            "request input: beam,text",
        ),
    ],
)
def test_a_wrong_set_of_inputs_is_named(ask, signature, inputs, message):
    with pytest.raises(ServingError) as caught:
        ask(signature, **inputs)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert message in caught.value.message


def test_a_bad_output_filter_is_refused_before_the_model_runs(session):
    """Running the model first would waste time."""

    def never(feeds, fetches, timeout_seconds, cancel_token=None):
        raise AssertionError("it was run")

    message = request(text=[b"a"])
    message.output_filter.append("translations")
    with pytest.raises(ServingError, match=r"set \{score,translation\}"):
        predict(never, session.signatures, message)


def request_with_rows(name, rows, **inputs):
    """Returns a request with one input whose shape claims so many rows."""
    message = request(**inputs)
    message.inputs[name].tensor_shape.dim[0].size = rows
    return message


def test_the_number_of_rows_is_limited(session):
    def ask(rows):
        message = request_with_rows("text", rows, text=[b"ab"])
        return values(predict(session.run, session.signatures, message, max_rows=3))

    assert ask(3)["translation"] == [b"v2:ab"] * 3
    with pytest.raises(ServingError) as caught:
        ask(4)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert caught.value.message == (
        "Input text has 4 rows; this server takes at most 3 in a request (--max_rows)"
    )


def test_rows_are_counted_before_arrays_are_created(session, monkeypatch):
    """A tensor of 18 bytes can claim four million texts."""

    def never(proto):
        raise AssertionError("it was read")

    monkeypatch.setattr("t2t_keras.serving.server.predict.to_array", never)
    message = request_with_rows("text", 1 << 22, text=[b"a b c"])
    assert message.inputs["text"].ByteSize() == 18
    with pytest.raises(ServingError, match="4,194,304 rows"):
        predict(session.run, session.signatures, message, max_rows=1024)


def test_scalars_have_no_limit_of_rows(session):
    message = request("with_options", text=[b"x"], beam_size=2)
    outputs = values(predict(session.run, session.signatures, message, max_rows=1))
    assert outputs["beam"] == [2.0]


def test_the_remaining_time_is_passed_on(session):
    seen = []

    def record(feeds, fetches, timeout_seconds, cancel_token=None):
        seen.append(timeout_seconds)
        return session.run(feeds, fetches, timeout_seconds, cancel_token)

    predict(record, session.signatures, request(text=[b"a"]), 12.5)
    assert seen == [12.5]
