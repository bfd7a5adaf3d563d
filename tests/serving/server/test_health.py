"""Health checks, in bytes as any probe sends them."""

from tests.serving.server.clients import refusal, serving


def check(client, encoded):
    return client.channel.unary_unary("/grpc.health.v1.Health/Check")(encoded)


def test_what_serves_is_healthy(base):
    with serving(base, health=True) as client:
        for service in (b"", b"PredictionService", b"ModelService"):
            asked = b"\x0a%c%s" % (len(service), service)
            assert check(client, asked) == b"\x08\x01", service


def test_what_is_not_there_is_not_found(base):
    with serving(base, health=True) as client:
        assert refusal(lambda: check(client, b"\x0a\x01x")) == (
            "NOT_FOUND",
            "There is no service 'x'.",
        )


def test_nobody_is_asked_unless_it_is_wanted(base):
    with serving(base) as client:
        assert refusal(lambda: check(client, b""))[0] == "UNIMPLEMENTED"
