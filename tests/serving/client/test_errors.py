"""Each status is told in words that say what to do."""

import grpc

from t2t_keras.errors import UserError
from t2t_keras.serving.client.errors import explain_error
from tests.serving.client.test_retries import Failed

Code = grpc.StatusCode


def told(code, details="the server's words"):
    return explain_error(
        Failed(code, details),
        server="host:8500",
        model="model 'm', version 3",
        signature="nbest",
        tried="tries: 2",
    )


ADVICE = (
    (Code.UNAVAILABLE, "No answer from host:8500", "Is the server running"),
    (Code.DEADLINE_EXCEEDED, "in time (tries: 2)", "Allow more with timeout_secon"),
    (Code.NOT_FOUND, "No model 'm', version 3 on host:8500", "model_name"),
    (Code.FAILED_PRECONDITION, "cannot be asked for 'nbest'", "t2t_keras.export"),
    (Code.INVALID_ARGUMENT, "request for 'nbest' was refused by host:8500", ""),
    (Code.UNIMPLEMENTED, "host:8500 speaks gRPC, and not as", "the right port?"),
    (Code.RESOURCE_EXHAUSTED, "Too many requests at a time", "with concurrency"),
    (Code.INTERNAL, "INTERNAL from host:8500", ""),
)


def test_what_happened_and_what_to_do():
    for code, what, to_do in ADVICE:
        error = told(code)
        assert isinstance(error, UserError), code
        assert error.code is code, code
        assert what in str(error) and to_do in str(error), code
        if code is not Code.DEADLINE_EXCEEDED:  # whose details say nothing more
            assert "the server's words" in str(error), code


def test_a_message_too_large_is_not_called_too_many_requests():
    text = str(told(Code.RESOURCE_EXHAUSTED, "Received message larger than max (9)"))
    assert "max_message_bytes" in text and "Too many" not in text


def test_options_that_a_server_with_batching_does_not_fill_in():
    """The words are TensorFlow Serving's."""
    details = "Batching Run() input tensors must have at least one dimension"
    assert str(told(Code.INVALID_ARGUMENT, details)).endswith(
        "one dimension. It joins requests, and then fills in no defaults: give "
        "beam_size with alpha or max_length."
    )
    assert "beam_size" not in str(told(Code.FAILED_PRECONDITION, details))


def test_a_status_without_words():
    assert "no details" in str(told(Code.UNAVAILABLE, None))
