"""Placeholders, tags and addresses of requests come back unchanged and once each."""

import re

import pytest
from starlette.testclient import TestClient

from t2t_keras.server.translation_api.app import translation_app
from t2t_keras.server.translation_api.attention_links import find_words
from t2t_keras.server.translation_api.text_translation import split_text
from t2t_keras.text.protected_spans import keeps_spans
from tests.server.translation_api import fake_backend
from tests.server.translation_api.fake_backend import FakeBackend, settings

URL = "https://a.org/b?c=1"


@pytest.fixture
def backend(monkeypatch):
    """A backend that loses placeholders: it knows letters and marks alone."""
    translate = fake_backend.translate_words
    monkeypatch.setattr(
        fake_backend,
        "translate_words",
        lambda text: translate(re.sub(r"[^\w\s.+!]", "", text)),
    )
    return FakeBackend()


def post(backend, text, api=None, **fields):
    app = translation_app(backend, settings(**(api or {})))
    with TestClient(app, raise_server_exceptions=False) as client:
        json = {"q": text, "source": "en", "target": "de", **fields}
        return client.post("/translate", json=json)


def translated(backend, text, **fields):
    return post(backend, text, **fields).json()["translatedText"]


def test_spans_return_to_their_words(backend):
    # Words of the fake translation are in reverse order.
    assert translated(backend, "See it {x} now!") == "+now! {x} +it +See"
    assert translated(backend, "See <b>it</b> now!") == "+now! <b>+it</b> +See"
    texts = [f"One {URL} two.", "%s", "No span here.", "a {{ b }}\nc <1>d</1> e"]
    found = translated(backend, texts)
    assert all(map(keeps_spans, texts, found))
    assert found[1] == "%s"


def test_texts_without_spans_reach_the_model_as_without_protection(backend):
    texts = ["One two. 50 % of it", "a < b", "c\nd"]
    for protect in (True, False):
        translated(backend, texts, protect=protect)
    half = len(backend.calls) // 2
    assert backend.calls[:half] == backend.calls[half:]


def test_protection_can_be_turned_off(backend):
    text = "One {x} two"
    kept, lost = "+two {x} +One", "+two +x +One"
    assert translated(backend, text) == kept
    for off in (False, "false", "0"):
        assert translated(backend, text, protect=off) == lost
    assert translated(backend, text, api={"protect": False}) == lost
    assert translated(backend, text, api={"protect": False}, protect="1") == kept
    answer = post(backend, text, protect="perhaps")
    assert answer.status_code == 400
    error = "Invalid request: protect parameter is not true or false"
    assert answer.json() == {"error": error}


def test_html(backend):
    document = f"<p>One <b>{{x}}</b> two &lt;1&gt;, <a href=y>{URL}</a> three</p>"
    found = translated(backend, document, format="html")
    for span in ("{x}", "&lt;1&gt;", URL, "<b>", "</b>", "<a href=y>", "</a>"):
        assert found.count(span) == 1, (span, found)


def test_alternatives_keep_them_too(backend):
    answer = post(backend, "One {x} two", alternatives=2).json()
    assert answer["alternatives"] == ["+two {x} +One'", "+two {x} +One''"]


def test_a_placeholder_or_address_is_one_word_and_is_not_cut():
    assert find_words(f"See {URL}, {{x}}") == [(0, 3), (4, 23), (23, 24), (25, 28)]
    url = "https://a.org/" + "b" * 1_500
    for text in (f"{'a ' * 400}{url} c", f"{'a' * 990}{{name}}{'b' * 40}", url):
        parts = split_text(text, "en")
        assert "".join(map("".join, parts)) == text
        assert any(url in part or "{name}" in part for part, _ in parts)


def test_confidence_is_that_of_the_rest(backend):
    answer = post(backend, ["One {x} two", "%s", "Three"], sentences=True).json()
    assert answer["confidences"] == [[0.9], [None], [0.9]]
    assert set(backend.sentences("score")) == {"One two", "Three"}
