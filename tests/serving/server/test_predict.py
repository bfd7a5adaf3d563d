"""Predict requests against signatures: words of refusals, and what is answered.

The refusals that any server gives are in `test_conformance`; here are those that
depend on the order of checks, and defaults.
"""

import pytest

from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.predict import predict
from tests.serving.server.clients import request, values


@pytest.fixture
def ask(session):
    def asked(signature="", output_filter=(), **inputs):
        message = request(signature, **inputs)
        message.output_filter.extend(output_filter)
        return predict(session.run, session.signatures, message)

    return asked


def test_all_outputs_unless_some_are_chosen(ask):
    everything = {"translation": [b"v2:ab"], "score": [2.0]}
    assert values(ask(text=[b"ab"])) == everything
    assert values(ask("serving_default", text=[b"ab"])) == everything
    assert values(ask(text=[b"ab"], output_filter=["score"])) == {"score": [2.0]}
    both = ask(text=[b"ab"], output_filter=["translation", "score"])
    assert values(both) == everything


def test_the_answer_names_what_was_run(ask):
    spec = ask(text=[b"ab"]).model_spec
    assert (spec.name, spec.signature_name) == ("translate", "serving_default")
    # The version is known to who chose it.
    assert not spec.HasField("version")


def test_options_that_are_not_given_have_their_defaults(ask):
    rows = [
        ({}, 4.0, 0.6),
        ({"beam_size": 7}, 7.0, 0.6),
        ({"alpha": 0.25}, 4.0, 0.25),
        ({"beam_size": 1, "alpha": 0.0}, 1.0, 0.0),
    ]
    for options, beam, alpha in rows:
        found = values(ask("with_options", text=[b"x", b"y"], **options))
        assert found["beam"] == [beam, beam], options
        assert found["alpha"] == pytest.approx([alpha, alpha]), options


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        # The number of inputs is checked first.
        ("", {"text": [1], "b": 1, "a": 1}, "3!=1 len({a,b,text}) != len({text})"),
        # A name that is missing comes before one that is too many.
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


def test_nothing_is_run_for_a_request_that_does_not_fit(session):
    """A server that runs first and looks at the filter then wastes its time."""

    def never(feeds, fetches, timeout_seconds):
        raise AssertionError("it was run")

    message = request(text=[b"a"])
    message.output_filter.append("translations")
    with pytest.raises(ServingError, match=r"set \{score,translation\}"):
        predict(never, session.signatures, message)


def rows_of(name, rows, **inputs):
    """A request of which one input claims that many rows."""
    message = request(**inputs)
    message.inputs[name].tensor_shape.dim[0].size = rows
    return message


def test_as_many_rows_as_allowed_and_no_more(session):
    def ask(rows):
        message = rows_of("text", rows, text=[b"ab"])
        return values(predict(session.run, session.signatures, message, max_rows=3))

    assert ask(3)["translation"] == [b"v2:ab"] * 3
    with pytest.raises(ServingError) as caught:
        ask(4)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert caught.value.message == (
        "Input text has 4 rows; this server takes at most 3 in a request (--max_rows)"
    )


def test_rows_are_counted_before_they_are_made(session, monkeypatch):
    """Eighteen bytes may claim four million texts."""

    def never(proto):
        raise AssertionError("it was read")

    monkeypatch.setattr("t2t_keras.serving.server.predict.to_array", never)
    message = rows_of("text", 1 << 22, text=[b"a b c"])
    assert message.inputs["text"].ByteSize() == 18
    with pytest.raises(ServingError, match="4,194,304 rows"):
        predict(session.run, session.signatures, message, max_rows=1024)


def test_what_has_no_rows_is_none_too_many(session):
    message = request("with_options", text=[b"x"], beam_size=2)
    found = values(predict(session.run, session.signatures, message, max_rows=1))
    assert found["beam"] == [2.0]


def test_the_time_that_is_left_is_handed_on(session):
    seen = []

    def note(feeds, fetches, timeout_seconds):
        seen.append(timeout_seconds)
        return session.run(feeds, fetches, timeout_seconds)

    predict(note, session.signatures, request(text=[b"a"]), 12.5)
    assert seen == [12.5]
