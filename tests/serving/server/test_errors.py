"""Errors sent to clients: status codes, shortened messages, internal errors."""

import grpc
import pytest
import tensorflow as tf

from t2t_keras.serving.server import errors


def test_a_message_that_fits_is_left_alone():
    for length in [0, 1023, 1024]:
        assert errors.shorten("x" * length) == "x" * length, length


def test_a_longer_message_is_cut_and_marked():
    assert errors.shorten("ab" * 600) == "ab" * 512 + "...TRUNCATED"


def test_a_message_is_cut_between_characters_and_counted_in_bytes():
    """Byte 1,024 is the first of three bytes of the 342nd character."""
    assert errors.shorten("€" * 400) == "€" * 341 + "...TRUNCATED"
    assert errors.shorten("€" * 341) == "€" * 341


EXCEPTIONS = (
    (tf.errors.InvalidArgumentError(None, None, "no"), "INVALID_ARGUMENT", "no"),
    (tf.errors.OutOfRangeError(None, None, "far"), "OUT_OF_RANGE", "far"),
    (tf.errors.DataLossError(None, None, "lost"), "DATA_LOSS", "lost"),
    (errors.not_found("where"), "NOT_FOUND", "where"),
    (ZeroDivisionError("oh"), "INTERNAL", "ZeroDivisionError: oh"),
)


def test_an_exception_has_a_code_and_a_message():
    for raised, code, message in EXCEPTIONS:
        error = errors.from_exception(raised)
        assert (error.code.name, error.message) == (code, message), code
        assert str(error) == f"{code}: {message}", code


def test_a_number_that_is_no_code_is_unknown():
    assert errors.code_of(5) is grpc.StatusCode.NOT_FOUND
    assert errors.code_of(99) is grpc.StatusCode.UNKNOWN


class AbortedError(Exception):
    pass


class Context:
    """Fake of gRPC's context, whose `abort` raises."""

    def abort(self, code, details):
        raise AbortedError(code.name, details)


class Service:
    @errors.abort_on_error
    def method(self, request, context):
        if isinstance(request, Exception):
            raise request
        return request + 1


def test_an_answer_passes_and_an_error_ends_the_call(capfd):
    assert Service().method(1, Context()) == 2
    with pytest.raises(AbortedError) as caught:
        Service().method(errors.not_found("x" * 2000), Context())
    assert caught.value.args == ("NOT_FOUND", "x" * 1024 + "...TRUNCATED")
    assert capfd.readouterr().err == ""


def test_an_internal_error_prints_a_traceback_on_the_server(capfd):
    with pytest.raises(AbortedError) as caught:
        Service().method(KeyError("oh"), Context())
    assert caught.value.args == ("INTERNAL", "KeyError: 'oh'")
    assert "Traceback" in capfd.readouterr().err


def test_a_deadline_centuries_away_counts_as_none():
    class Waiting(Context):
        remaining: float | None = None

        def time_remaining(self):
            return self.remaining

    context = Waiting()
    for remaining, expected in [(None, None), (1e18, None), (0.25, 0.25), (0, 0)]:
        context.remaining = remaining
        assert errors.seconds_left(context) == expected, remaining
