"""Glossaries of requests: their forms, their limits, and what the models are asked."""

import json

import grpc
import pytest
from starlette.testclient import TestClient

from t2t_keras.server.translation_api.app import translation_app
from t2t_keras.server.translation_api.backend import GrpcBackend
from tests.server.translation_api.fake_backend import FakeBackend, settings
from tests.server.translation_api.test_protection import post, translated
from tests.serving.fake_server import RefusalError, serve, shout

TERMS = {"dog": "Hund", "Red apple": "Apfel"}


def test_sentences_with_terms_are_searched_with_them():
    backend = FakeBackend()
    text = "The dog barks. No term here!\nA Red  apple, a dog and a Dog."
    expected = "+barks. +dog +The Hund +here! +term +No\n"
    expected += "+Dog. +a +and +dog +a +apple, +Red +A Apfel Hund"
    lines = "".join(f"{one}\t{two}\r\n" for one, two in TERMS.items())
    for glossary in (TERMS, lines):
        assert translated(backend, text, glossary=glossary) == expected
    assert set(backend.sentences("terms")) == {
        "The dog barks.|Hund",
        "A Red  apple, a dog and a Dog.|Apfel|Hund",
    }
    assert set(backend.sentences()) == {"No term here!"}
    # Without a glossary, or a text with terms, the models are asked as before.
    for glossary in ({}, "", None, {"cat": "Katze"}):
        translated(other := FakeBackend(), text, glossary=glossary)
        assert {call[1] for call in other.calls} == {"translate"}


def test_a_sentence_without_a_translation_with_its_terms_has_one_without():
    backend = FakeBackend()
    found = translated(backend, "A dog? A dog!", glossary=TERMS)
    assert found == "+dog? +A +dog! +A Hund"


def test_alternatives_placeholders_and_html_go_with_a_glossary():
    backend = FakeBackend()
    answer = post(backend, "A dog {x} barks", glossary=TERMS, alternatives=2).json()
    assert answer["translatedText"].count("{x}") == 1
    assert "Hund" in answer["translatedText"].replace("+", "").split()
    assert len(answer["alternatives"]) == 2
    found = translated(backend, "<p>A <b>dog</b></p>", glossary=TERMS, format="html")
    assert found.startswith("<p>") and "Hund" in found
    # What is protected is no term.
    found = translated(backend, "A {dog} dog.", glossary={"dog": "Hund"})
    assert found.count("Hund") == 1


@pytest.mark.parametrize(
    ("glossary", "error"),
    [
        ({"dog": 1}, "glossary parameter is not an object of strings, or lines"),
        (["dog"], "glossary parameter is not an object of strings, or lines"),
        ({"dog": {}}, "glossary parameter is not an object of strings, or lines"),
        ({"dog": " "}, "A term of a glossary must have a source and a target"),
        ("dog Hund", "Line 1 of the glossary must have a source term, a tab and"),
        ("a\tb\na\tc", "Line 2 of the glossary has another translation of 'a' than"),
        ("a\tb" * 9, r"request (27) exceeds text limit (20)"),
        ({"a" * 10: "b" * 11}, r"request (21) exceeds text limit (20)"),
    ],
)
def test_other_glossaries_are_refused(glossary, error):
    answer = post(FakeBackend(), "a", {"char_limit": 20}, glossary=glossary)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


def test_half_characters_are_replaced():
    """JSON may have half of a pair of surrogates, which is no text."""
    fields = {"q": "a dog", "source": "en", "target": "de", "glossary": {"dog": "x"}}
    body = json.dumps(fields).replace('"x"', '"x\\ud800"')
    with TestClient(translation_app(FakeBackend(), settings())) as client:
        headers = {"Content-Type": "application/json"}
        answer = client.post("/translate", content=body, headers=headers)
    assert answer.json() == {"translatedText": "+dog +a x?"}


def test_a_model_that_was_exported_without_terms():
    def answer(request):
        if request.model_spec.signature_name == "nbest_with_terms":
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, "no such signature")
        return shout(request)

    with serve(answer) as (server, _), GrpcBackend(settings(server=server)) as backend:
        refused = post(backend, "a dog", glossary=TERMS)
        assert translated(backend, "a cat", glossary=TERMS) == "A CAT"
    assert refused.status_code == 400
    error = {"error": "The model of these languages takes no glossary."}
    assert refused.json() == error
