"""Errors of calls: which are retriable, and a message with advice for each."""

import grpc

from t2t_keras.errors import UserError
from t2t_keras.serving.client.errors import (
    explain_error,
    is_retriable,
)

Code = grpc.StatusCode


class FailedCall(grpc.RpcError):
    """Fake of a failed gRPC call."""

    def __init__(self, code, details=""):
        super().__init__()
        self.code = lambda: code
        self.details = lambda: details


def explain(code, details="the server's words"):
    return explain_error(
        FailedCall(code, details),
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


def test_each_status_has_an_explanation_and_advice():
    for code, explanation, advice in ADVICE:
        error = explain(code)
        assert isinstance(error, UserError), code
        assert error.code is code, code
        assert explanation in str(error) and advice in str(error), code
        if code is not Code.DEADLINE_EXCEEDED:  # its details add nothing
            assert "the server's words" in str(error), code


def test_missing_options_with_batching():
    """The details are TensorFlow Serving's."""
    details = "Batching Run() input tensors must have at least one dimension"
    assert str(explain(Code.INVALID_ARGUMENT, details)).endswith(
        "one dimension. It joins requests, and then fills in no defaults: give "
        "beam_size with alpha or max_length."
    )
    assert "beam_size" not in str(explain(Code.FAILED_PRECONDITION, details))


def test_a_server_that_ends_the_handshake_may_want_tls():
    """The details are gRPC's, of a server with TLS that no certificate was given to."""
    for details in ("UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed", "Tls handshake fa"):
        assert "if it verifies its clients" in str(explain(Code.UNAVAILABLE, details))
    assert "TLS" not in str(explain(Code.UNAVAILABLE, "Connection refused"))


def test_only_temporary_errors_are_retriable():
    for code in Code:
        expected = code in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.CANCELLED)
        assert is_retriable(FailedCall(code)) == expected, code
