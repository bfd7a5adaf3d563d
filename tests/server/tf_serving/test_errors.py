"""Errors sent to clients: status codes, shortened messages, internal errors."""

import tensorflow as tf

from t2t_keras.server.tf_serving import errors


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


def test_missing_products_of_int8_have_advice():
    node = "{{node QuantizedMatMulWithBiasAndDequantize}}"
    message = f"Missing 0-th output from {{{{function_node f}}}}{node}"
    error = errors.from_exception(tf.errors.InternalError(None, None, message))
    assert "TF_ENABLE_ONEDNN_OPTS=1 in the environment" in error.message
    assert error.message.endswith(message)


def test_only_a_fault_of_the_server_logs_a_traceback(caplog):
    error = errors.report_exception(errors.not_found("where"))
    assert (error.code.name, error.message) == ("NOT_FOUND", "where")
    assert errors.report_exception(EXCEPTIONS[0][0]).message == "no"
    assert caplog.text == ""
    try:
        raise KeyError("oh")
    except KeyError as raised:
        error = errors.report_exception(raised)
    assert (error.code.name, error.message) == ("INTERNAL", "KeyError: 'oh'")
    assert "Traceback" in caplog.text


def test_a_deadline_centuries_away_counts_as_none():
    class Waiting:
        remaining: float | None = None

        def time_remaining(self):
            return self.remaining

    context = Waiting()
    for remaining, expected in [(None, None), (1e18, None), (0.25, 0.25), (0, 0)]:
        context.remaining = remaining
        assert errors.seconds_left(context) == expected, remaining
