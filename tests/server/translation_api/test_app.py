"""The application: LibreTranslate's statuses, answers and errors, and its limits."""

import json
import logging
import re
import threading
import tracemalloc
from types import MappingProxyType

import grpc
import httpx2
import pytest
from starlette.testclient import TestClient

from t2t_keras.server.translation_api import app
from t2t_keras.server.translation_api.app import translation_app
from t2t_keras.serving.client.errors import ServerError
from tests.server.translation_api.fake_backend import (
    EN_DE,
    THREE_PAIRS,
    FakeBackend,
    settings,
    wait_until,
)


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
def client_of(backend):
    """A function that returns a client of an app with some settings."""
    open_clients = []

    def make(pairs=EN_DE, **changes):
        client = TestClient(
            translation_app(backend, settings(pairs, **changes)),
            raise_server_exceptions=False,
        )
        open_clients.append(client.__enter__())
        return client

    yield make
    for client in open_clients:
        client.__exit__(None, None, None)


TEXT = MappingProxyType({"q": "Hello world", "source": "en", "target": "de"})


# The requests of LibreTranslate's own tests (libretranslate/tests/test_api), with
# this server's languages: method, path, form or JSON, status, and the answer, or the
# keys that it has.
def requests_of_libretranslate():
    return (
        (
            "POST",
            "/detect",
            {"data": {"q": "Hello"}},
            200,
            [{"confidence", "language"}],
        ),
        ("POST", "/detect", {}, 400, {"error": "Invalid request: missing q parameter"}),
        ("GET", "/detect", {}, 405, {"error"}),
        ("GET", "/frontend/settings", {}, 200, {"charLimit", "language", "apiKeys"}),
        ("GET", "/languages", {}, 200, [{"code", "name", "targets"}]),
        ("POST", "/languages", {}, 405, {"error"}),
        ("GET", "/health", {}, 200, {"status": "ok"}),
        ("POST", "/health", {}, 405, {"error"}),
        ("GET", "/spec", {}, 200, {"swagger", "paths", "info"}),
        ("POST", "/spec", {}, 405, {"error"}),
        (
            "POST",
            "/translate",
            {"data": TEXT | {"format": "text"}},
            200,
            {"translatedText": "+world +Hello"},
        ),
        (
            "POST",
            "/translate",
            {"json": TEXT | {"q": ["Hello", "World"]}},
            200,
            {"translatedText": ["+Hello", "+World"]},
        ),
        (
            "POST",
            "/translate",
            {"data": TEXT | {"target": "zz"}},
            400,
            {"error": "zz is not supported"},
        ),
        (
            "POST",
            "/translate",
            {"data": {"source": "en", "target": "de"}},
            400,
            {"error": "Invalid request: missing q parameter"},
        ),
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"), requests_of_libretranslate()
)
def test_requests_of_libretranslates_tests(
    client_of, method, path, body, status, expected
):
    response: httpx2.Response = client_of().request(method, path, **body)
    assert response.status_code == status
    answer = response.json()
    if isinstance(expected, list):
        assert isinstance(answer, list)
        assert all(set(each) == expected[0] for each in answer)
    elif isinstance(expected, set):
        assert expected <= set(answer)
    else:
        assert answer == expected


# Fields of a JSON request that replace those of `TEXT`, and the text of the error 400.
def refused_requests():
    return (
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        (
            {"q": ["a", None]},
            "Invalid request: q parameter is not a string or a list of strings",
        ),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"source": ["en"]}, "Invalid request: source parameter is not a string"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"source": "xx"}, "xx is not supported"),
        (
            {"source": "de", "target": "en"},
            "English (en) is not available as a target language from German (de)",
        ),
        ({"format": "pdf"}, "pdf format is not supported"),
        (
            {"alternatives": "many"},
            "Invalid request: alternatives parameter is not a number",
        ),
        ({"alternatives": 5}, "Invalid request: alternatives parameter must be <= 4"),
        ({"q": "x" * 31}, "Invalid request: request (31) exceeds text limit (30)"),
        ({"q": ["a"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
        (
            {"q": "<i>" * 101 + "a", "format": "html"},
            "Invalid request: request (304) exceeds text limit (30)",
        ),
    )


@pytest.mark.parametrize(("changes", "message"), refused_requests())
def test_invalid_requests(client_of, backend, changes, message):
    client = client_of(char_limit=30, batch_limit=3, alternatives_limit=4)
    response = client.post("/translate", json=TEXT | changes)
    assert (response.status_code, response.json()) == (400, {"error": message})
    assert backend.calls == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"q": "\xff"}', b"[" * 100_000])
def test_a_body_that_is_no_json_object(client_of, body):
    for kind in (
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/x+json",
    ):
        response = client_of().post(
            "/translate", content=body, headers={"content-type": kind}
        )
        assert response.status_code == 400
        assert response.json() == {"error": "Invalid JSON format"}


def test_fields_come_in_several_ways(client_of):
    client = client_of()
    form = {"content-type": "application/x-www-form-urlencoded"}
    expected = {"translatedText": "+größe\n+A"}
    for request in (
        {"json": TEXT | {"q": "größe\nA"}},
        {"data": TEXT | {"q": "größe\r\nA"}},
        {"params": TEXT | {"q": "größe\nA"}},
        {"params": {"q": "größe\nA"}, "data": {"source": "en", "target": "de"}},
        {"data": TEXT | {"q": "größe\r\nA"}, "files": {"unused": b"x" * 2_000_000}},
        # As curl -d sends it.
        {"content": "q=größe%0AA&source=en&target=de".encode(), "headers": form},
    ):
        response = client.post("/translate", **request)
        assert response.json() == expected if "files" not in request else response


def test_multipart_forms(client_of):
    client = client_of()
    files = {"file": ("a.txt", b"x"), **{name: (None, v) for name, v in TEXT.items()}}
    assert client.post("/translate", files=files).json() == {
        "translatedText": "+world +Hello"
    }
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        response = client.post(
            "/translate", content=b"--y\r\nxx", headers={"content-type": kind}
        )
        assert response.status_code == 400
        assert set(response.json()) == {"error"}


def test_half_of_a_surrogate_pair_is_replaced(client_of):
    content = json.dumps(TEXT | {"q": ["a\ud800", "b"]})
    response = client_of().post(
        "/translate", content=content, headers={"content-type": "application/json"}
    )
    assert response.json() == {"translatedText": ["+a?", "+b"]}


def test_alternatives(client_of):
    client = client_of()
    one = client.post("/translate", data=TEXT | {"alternatives": "1"}).json()
    assert one == {
        "translatedText": "+world +Hello",
        "alternatives": ["+world +Hello'"],
    }
    several = client.post(
        "/translate", json=TEXT | {"q": ["a", "!"], "alternatives": 9}
    ).json()
    assert several["alternatives"] == [["+a'", "+a''"], []]
    none = client.post("/translate", json=TEXT | {"alternatives": -3}).json()
    assert none == {"translatedText": "+world +Hello"}
    as_html = {"alternatives": 2, "format": "html"}
    assert client.post("/translate", json=TEXT | as_html).json()["alternatives"] == []


def test_html_and_sentences(client_of):
    client = client_of()
    html = {"q": ["<p>a <b>b</b></p>", "c"], "format": "html"}
    assert client.post("/translate", json=TEXT | html).json() == {
        "translatedText": ["<p><b>+b</b> +a</p>", "+c"]
    }
    for yes in ("true", "1"):
        fields = TEXT | {"q": "One. Two", "sentences": yes}
        answer = client.post("/translate", data=fields).json()
        assert answer["sentences"] == [["One.", "+One.", " "], ["Two", "+Two", ""]]
        assert answer["confidences"] == [0.9, 0.9]


def test_confidences(client_of, backend):
    """The geometric mean over the subwords; none of what the model cannot score."""
    client = client_of()
    asked = TEXT | {"q": ["One two?\n12\nThree", "4"], "sentences": True}
    assert client.post("/translate", json=asked).json()["confidences"] == [
        [0.1, None, 0.9],
        [None],
    ]
    same = asked | {"target": "en"}
    assert client.post("/translate", json=same).json()["confidences"] == [[None]] * 2
    # An export of an early release does not have the signature.
    backend.score = fail_with("FAILED_PRECONDITION")
    assert client.post("/translate", json=asked).json()["confidences"] == [
        [None] * 3,
        [None],
    ]
    # The translations are there all the same.
    backend.score = fail_with("UNAVAILABLE")
    answer = client.post("/translate", json=asked).json()
    assert answer["confidences"] == [[None] * 3, [None]]
    assert answer["translatedText"][1] == "4"


def fail_with(code):
    def fail(*_):
        raise ServerError("fake", code=grpc.StatusCode[code])

    return fail


def test_the_language_is_detected_for_a_single_pair(client_of, backend):
    client = client_of()

    def auto(q):
        return client.post("/translate", json=TEXT | {"q": q, "source": "auto"}).json()

    english, german = "The dog is asleep.", "Der alte Lehrer schläft jetzt."
    answer = auto(english)
    assert answer["detectedLanguage"]["language"] == "en"
    assert answer["detectedLanguage"]["confidence"] >= 90
    assert answer["translatedText"] == "+asleep. +is +dog +The"
    assert [each["language"] for each in auto([english, "x"])["detectedLanguage"]] == [
        "en",
        "en",
    ]
    backend.calls.clear()
    # It is in the target language already.
    answer = auto(german)
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["translatedText"] == german
    assert auto("Le vieux professeur est là.") == {"error": "fr is not supported"}
    assert backend.calls == []
    # Nothing to tell a language by.
    assert auto("12 + 3")["detectedLanguage"] == {"language": "en", "confidence": 0.0}
    assert auto("1a2b3c")["detectedLanguage"]["language"] == "en"


def test_the_language_is_detected_among_several(client_of, backend):
    client = client_of(THREE_PAIRS)

    def auto(q, target):
        fields = {"q": q, "source": "AUTO", "target": target}
        return client.post("/translate", json=fields).json()

    german = "Der alte Lehrer gab dem Kind drei rote Äpfel."
    answer = auto(german, "en")
    assert answer["detectedLanguage"]["language"] == "de"
    assert backend.calls[-1][0] == "back"
    # It is in the target language already.
    answer = auto(german, "de")
    assert answer["translatedText"] == german
    # Not if that is a guess.
    assert auto("OK", "de")["detectedLanguage"]["language"] == "en"
    assert auto("child", "de")["translatedText"] == "+child"
    del backend.calls[1:]
    assert (
        auto("Le vieux professeur est là.", "pt")["detectedLanguage"]["language"]
        == "fr"
    )
    assert backend.calls[-1][0] == "latin"
    assert auto("Le vieux professeur est là.", "fr")["translatedText"].startswith("Le")
    assert len(backend.calls) == 2
    assert auto(german, "fr") == {
        "error": "French (fr) is not available as a target language from German (de)"
    }
    detected = client.post("/detect", json={"q": ["Der Hund", "schläft nicht."]}).json()
    assert detected[0]["language"] == "de"


def test_the_language_of_html_is_that_of_its_text(client_of):
    """Mastodon's markup of a link is longer than many posts."""
    link = (
        '<a href="https://example.com/some/long/path/to/the/article" target="_blank" '
        'rel="nofollow noopener noreferrer"><span class="invisible">https://</span>'
        '<span class="ellipsis">example.com/some/long/path</span></a>'
    )
    style = "<style>the rule of this element { color: red }</style>" * 200
    fields = {
        "q": f"{style}<p>Guten Morgen zusammen! {link}</p>",
        "source": "auto",
        "target": "en",
        "format": "html",
    }
    answer = client_of(THREE_PAIRS).post("/translate", json=fields).json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert "+Morgen" in answer["translatedText"]


def test_a_base_url_may_end_in_a_slash(client_of):
    client = client_of()
    for path in ("//translate", "///translate"):
        response = client.post(f"http://testserver{path}", json=dict(TEXT))
        assert response.json() == {"translatedText": "+world +Hello"}
    assert client.get("http://testserver//languages").status_code == 200


def test_a_text_in_the_target_language_is_returned(client_of, backend):
    fields = TEXT | {"target": "en", "alternatives": 2}
    assert client_of().post("/translate", json=fields).json() == {
        "translatedText": "Hello world",
        "alternatives": [],
    }
    assert backend.calls == []


def test_attention(client_of):
    client = client_of()
    pair = {"q": "a b.", "translation": "+b. +a", "source": "en", "target": "de"}
    expected = {
        "source": ["", "a", " ", "b", "", ".", ""],
        "translation": ["", "+", "", "b", "", ".", " ", "+", "", "a", ""],
    }
    answer = client.post("/attention", json=pair).json()
    weights = answer.pop("weights")
    assert answer == expected
    assert weights == [[0, 0.5, 0.5]] * 3 + [[1, 0, 0]] * 2
    several = pair | {"q": ["a b.", "c"], "translation": ["+b. +a", "+c"]}
    assert len(client.post("/attention", json=several).json()) == 2
    for changes, message in (
        ({"translation": ""}, "missing translation"),
        ({"translation": ["x", "y"]}, "translation parameter is not a list of 1, as q"),
        ({"q": 5}, "q parameter is not a string"),
        ({"source": "auto"}, "auto is not supported"),
        ({"target": "en"}, "English (en) is not available"),
    ):
        response = client.post("/attention", json=pair | changes)
        assert response.status_code == 400
        assert message in response.json()["error"]


def test_limits_are_those_of_every_route(client_of, backend):
    client = client_of(char_limit=30, batch_limit=3)
    fields = TEXT | {"translation": "a"}
    for path, changes in (
        *(
            (path, {"q": q})
            for path in ("/translate", "/detect", "/attention")
            for q in ("x" * 31, ["a", "x" * 31], ["a"] * 4)
        ),
        ("/attention", {"translation": "x" * 31}),
    ):
        response = client.post(path, json=fields | changes)
        assert response.status_code == 400, (path, changes)
        assert "exceeds text limit" in response.json()["error"], (path, changes)
    assert backend.calls == []


def test_a_text_has_at_most_20000_characters_by_default(client_of):
    client = client_of()
    text = TEXT | {"q": "x" * 20_000}
    assert client.post("/translate", json=text).status_code == 200
    text["q"] += "x"
    assert client.post("/translate", json=text).json() == {
        "error": "Invalid request: request (20001) exceeds text limit (20000)"
    }


@pytest.mark.parametrize("path", ["/attention", "/translate"])
def test_words_without_attention_need_memory_for_each_word_alone(client_of, path):
    """A byte for each pair of 30,000 words would be 900 MB."""
    words = " ".join(["a"] * 15_000)
    text = f"{words} <b>b</b> {words}"
    fields = TEXT | {"q": text, "translation": text, "format": "html"}
    client = client_of(char_limit=-1)
    tracemalloc.start()
    try:
        answer = client.post(path, json=fields).json()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6
    if path == "/attention":
        assert answer["weights"] == []
        assert "".join(answer["translation"]) == text
    else:
        assert answer["translatedText"].count("<b>") == 1


STATUSES = (
    ("UNAVAILABLE", 503, "not reachable or overloaded", "1"),
    ("RESOURCE_EXHAUSTED", 429, "too many requests", "1"),
    ("DEADLINE_EXCEEDED", 504, "took too long", None),
    ("NOT_FOUND", 503, "not loaded", None),
    ("", 500, "the server of the models failed", None),
)


def test_it_is_ready_if_every_model_answers(client_of, backend, caplog, monkeypatch):
    client = client_of(THREE_PAIRS)
    assert client.get("/ready").json() == {"status": "ok"}
    assert {call[0] for call in backend.calls} == {"translate", "back", "latin"}
    backend.error = ServerError("localhost:1 refused", code=grpc.StatusCode.UNAVAILABLE)
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert "not reachable" in answer.json()["error"]
    # The operator learns the reason.
    assert "/ready: localhost:1 refused" in caplog.text
    assert client.post("/translate", json=dict(TEXT)).status_code == 503
    assert "/translate: localhost:1 refused" in caplog.text
    # The API itself answers.
    assert client.get("/health").json() == {"status": "ok"}
    backend.error = None
    monkeypatch.setattr(app, "_READY_SECONDS", 0.1)
    backend.hold.clear()
    backend.calls.clear()
    try:
        answers = [client.get("/ready") for _ in range(3)]
    finally:
        backend.hold.set()
    answer = answers[-1]
    # Whoever asks while one is asked waits for the same answer.
    assert len(backend.calls) == 1
    assert (answer.status_code, answer.json()) == (
        503,
        {"error": "The models did not answer within 0.1 s."},
    )


def test_metrics_by_route_and_status(client_of):
    client = client_of()

    def values():
        page = client.get("/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = re.findall(r"^((?:t2t_keras|process)_\S+) (\S+)$", page.text, re.M)
        return {name: float(value) for name, value in found}

    client.get("/metrics")
    client.post("/translate", json=dict(TEXT))
    client.post("http://testserver//translate", json=dict(TEXT))
    client.post("/translate", json=TEXT | {"target": "zz"})
    for path in ("/invented", "/other/one"):
        client.get(path)
    found = values()
    name = "t2t_keras_translation_api_requests_total"
    assert found[f'{name}{{route="/translate",status="200"}}'] == 2
    assert found[f'{name}{{route="/translate",status="400"}}'] == 1
    # Names that clients invent are not kept.
    assert found[f'{name}{{route="other",status="404"}}'] == 2
    assert found[f'{name}{{route="/metrics",status="200"}}'] == 1
    assert not any("invented" in each for each in found)
    name = "t2t_keras_translation_api_request_seconds_count"
    assert found[f'{name}{{route="/translate"}}'] == 3
    assert found["t2t_keras_translation_api_requests_in_flight"] == 1  # this one
    assert found["process_open_fds"] > 3


def test_requests_are_logged(client_of, caplog):
    caplog.set_level(logging.INFO, "t2t_keras")
    url = "http://testserver//translate?q=a"
    client_of(access_log=True).post(url, json=dict(TEXT))
    (line,) = [each for each in caplog.messages if each.startswith("API ")]
    assert re.fullmatch(r"API testclient POST //translate 200 \d+\.\d ms", line)


@pytest.mark.parametrize(("code", "status", "text", "retry_after"), STATUSES)
def test_errors_of_the_backend(
    client_of, backend, caplog, code, status, text, retry_after
):
    code = getattr(grpc.StatusCode, code) if code else None
    backend.error = ServerError("of host:8500", code)
    response = client_of().post("/translate", json=dict(TEXT))
    assert response.status_code == status
    assert text in response.json()["error"]
    # Names of machines are for the log.
    assert "8500" not in response.text
    assert "of host:8500" in caplog.text
    assert response.headers.get("retry-after") == retry_after


def test_a_bug_is_an_error_without_a_traceback(client_of, backend, caplog):
    backend.error = RuntimeError("secret path")
    response = client_of().post(
        "/translate", json=dict(TEXT), headers={"origin": "https://x.example"}
    )
    assert response.status_code == 500
    assert response.json() == {
        "error": "Internal error. The server's log has its cause."
    }
    assert response.headers["access-control-allow-origin"] == "*"
    assert "secret path" in caplog.text


def test_any_web_page_may_call_it(client_of):
    client = client_of(max_body_bytes=1000)
    preflight = client.options(
        "/translate",
        headers={
            "origin": "https://x.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type, authorization",
            # Chrome sends it to servers of a private network.
            "access-control-request-private-network": "true",
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-private-network"] == "true"
    allowed = preflight.headers["access-control-allow-headers"].lower()
    assert "content-type" in allowed and "authorization" in allowed
    origin = {"origin": "https://x.example"}
    for response, status in (
        (client.post("/translate", json=dict(TEXT), headers=origin), 200),
        (client.post("/translate", json={}, headers=origin), 400),
        (client.post("/translate", json={"q": "x" * 1000}, headers=origin), 413),
        (client.get("/none", headers=origin), 404),
        (client.post("/translate/", headers=origin), 404),
    ):
        assert response.status_code == status
        assert response.headers["access-control-allow-origin"] == "*"


def test_what_is_turned_off(client_of):
    client = client_of()
    for path, text in (
        ("/suggest", "Suggestions are disabled on this server."),
        ("/translate_file", "Files translation are disabled on this server."),
    ):
        response = client.post(path, json=dict(TEXT))
        assert (response.status_code, response.json()) == (403, {"error": text})
        assert client.get(path).status_code == 405


def test_api_keys(client_of, tmp_path):
    path = tmp_path / "keys"
    path.write_text("good\nfast 5\n")
    client = client_of(api_keys_file=str(path), requests_per_minute=2)

    def ask(key, **changes):
        fields = TEXT | ({"api_key": key} if key is not None else {})
        return client.post("/translate", json=fields | changes).status_code

    assert client.get("/frontend/settings").json()["keyRequired"] is True
    assert [ask("good"), ask("good"), ask("good")] == [200, 200, 429]
    assert [ask("fast") for _ in range(6)] == [200] * 5 + [429]
    response = client.post("/translate", json=TEXT | {"api_key": "bad"})
    assert (response.status_code, response.json()) == (
        403,
        {"error": "Invalid API key"},
    )
    response = client.post("/translate", json=dict(TEXT))
    assert response.status_code == 400
    assert "to get an API key" in response.json()["error"]
    # Wrong and missing keys have been counted for the address.
    response = client.post("/translate", json=TEXT | {"api_key": "bad"})
    assert response.status_code == 429
    # Everything that costs nothing is free.
    assert client.get("/languages").status_code == 200


def test_keys_that_are_not_required(client_of, tmp_path):
    path = tmp_path / "keys"
    path.write_text("good 100\n")
    client = client_of(
        api_keys_file=str(path), requests_per_minute=1, require_api_key=False
    )
    keyed = TEXT | {"api_key": "good"}
    assert client.post("/translate", data=dict(TEXT)).status_code == 200
    assert client.post("/translate", data=dict(TEXT)).status_code == 429
    assert [client.post("/translate", data=keyed).status_code for _ in "123"] == [
        200,
        200,
        200,
    ]
    for odd in (5, ["good"], {"a": 1}):
        response = client.post("/translate", json=TEXT | {"api_key": odd})
        assert response.status_code == 429  # the address has no request left


def test_rate_limit_per_client(client_of):
    client = client_of(requests_per_minute=3)
    assert client.post("/detect", data={"q": "a"}).status_code == 200
    batch = TEXT | {"q": ["a", "b"]}
    assert client.post("/translate", json=batch).status_code == 200
    response = client.post("/translate", data=dict(TEXT))
    assert response.status_code == 429
    assert response.json() == {"error": "Slowdown: 3 per 1 minute"}
    assert 1 <= int(response.headers["retry-after"]) <= 60
    # The header is whatever a client likes.
    forged = {"x-forwarded-for": "10.1.1.1"}
    assert client.post("/translate", data=dict(TEXT), headers=forged).status_code == 429


def test_addresses_behind_a_proxy(client_of):
    client = client_of(requests_per_minute=1, trust_forwarded_for=True)

    def ask(*headers):
        values = [("x-forwarded-for", each) for each in headers]
        return client.post("/detect", data={"q": "a"}, headers=values).status_code

    assert ask("10.1.1.1") == 200
    # The proxy appends the address; what is before it came from the client.
    assert ask("9.9.9.9, 10.1.1.1") == 429
    assert ask("10.1.1.1, 10.1.1.2") == 200
    assert ask("10.1.1.3", "::ffff:10.1.1.2") == 429
    # One client has a network of 64 bits.
    assert ask("2001:db8::1") == 200
    assert ask("2001:db8::2:1") == 429
    assert ask("2001:db8:0:1::1") == 200
    # Some proxies append the port of the connection.
    assert ask("7.7.7.7:1024") == 200
    assert ask("7.7.7.7:1025") == 429
    assert ask("7.7.7.7") == 429
    assert ask("[2001:db8::3]:1024") == 429
    assert ask("[2001:db8:0:2::1]") == 200
    # What is no address counts for the proxy, whatever it is.
    assert ask("unknown") == 200
    assert ask("garbage") == 429
    assert ask("1.2.3.4:5:6") == 429
    assert ask() == 429


def test_bodies_that_are_too_large(client_of):
    client = client_of(max_body_bytes=200)
    assert client.post("/translate", json=dict(TEXT)).status_code == 200
    response = client.post("/translate", content=b"x" * 201)
    assert response.status_code == 413
    assert response.json()["error"].startswith("The body of the request is larger")
    assert client.post("/translate", content=b"x" * 200).status_code == 400


def test_too_many_requests_at_a_time(client_of, backend):
    client = client_of(threads=1, max_waiting=0)
    backend.hold.clear()
    statuses = []

    def translate():
        statuses.append(client.post("/translate", json=dict(TEXT)).status_code)

    thread = threading.Thread(target=translate)
    thread.start()
    wait_until(lambda: backend.calls)
    response = client.post("/translate", json=dict(TEXT))
    assert response.status_code == 503
    assert "too many requests" in response.json()["error"]
    assert response.headers["retry-after"] == "1"
    # What takes no thread is answered.
    assert client.get("/health").status_code == 200
    backend.hold.set()
    thread.join(60)
    assert statuses == [200]
    assert client.post("/translate", json=dict(TEXT)).status_code == 200
