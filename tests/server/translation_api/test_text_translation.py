"""Translation of plain text by sentences."""

import random

import pytest

from t2t_keras.server.translation_api.sentence_translation import (
    SentenceTranslator,
    join_alternatives,
)
from t2t_keras.server.translation_api.text_translation import (
    MAX_SENTENCE_CHARACTERS,
    split_text,
    translate_texts,
)
from t2t_keras.server.workers import Cancelled, CancelToken
from t2t_keras.serving.client.translation_client import TranslatedText
from tests.server.translation_api import fake_backend
from tests.server.translation_api.fake_backend import EN_DE, FakeBackend


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
def translator(backend):
    return SentenceTranslator(backend, EN_DE[0], 4, 2, CancelToken())


def test_spacing_stays(translator, backend):
    text = "  One two.  Three!\r\n\r\n\tFour five\n"
    (result,) = translate_texts([text], "en", translator)
    assert result.translations == ["  +two. +One  +Three!\r\n\r\n\t+five +Four\n"]
    assert result.sentences == [
        ("", "", "  "),
        ("One two.", "+two. +One", "  "),
        ("Three!", "+Three!", "\r\n\r\n"),
        ("", "", "\t"),
        ("Four five", "+five +Four", "\n"),
    ]
    # Longest first, and all in one call.
    assert backend.calls == [
        ("translate", "translate", ("Four five", "One two.", "Three!"))
    ]


def test_markers_of_lists_stay(translator, backend):
    text = "* One two\n  - Three four\n\u2022 Five\n-six - seven\n* \n*"
    (result,) = translate_texts([text], "en", translator)
    assert result.translations == [
        "* +two +One\n  - +four +Three\n\u2022 +Five\n+seven +- +-six\n* \n*"
    ]
    assert "One two" in backend.sentences()


def test_texts_without_letters_stay_as_they_are(translator, backend):
    texts = ["", " \n", "🙂 !!", "2024-05-01 12:30", "…\nOne", "1. Two"]
    results = translate_texts(texts, "en", translator)
    assert [each.translations[0] for each in results] == [
        "",
        " \n",
        "🙂 !!",
        "2024-05-01 12:30",
        "…\n+One",
        "1. +Two",
    ]
    assert sorted(backend.sentences()) == ["One", "Two"]


def test_sentences_without_spaces_between_them_get_one(translator, monkeypatch):
    (result,) = translate_texts(["狗在睡觉。\u3000猫呢。好。"], "zh", translator, 1)
    assert result.translations[0] == "+狗在睡觉。\u3000+猫呢。+好。"
    monkeypatch.setattr(
        fake_backend, "translate_words", lambda text: f"It is {text[0]}."
    )
    (result,) = translate_texts(["狗在睡觉。猫呢。\n好。"], "zh", translator, 1)
    assert result.translations == [
        "It is 狗. It is 猫.\nIt is 好.",
        "It is 狗.' It is 猫.'\nIt is 好.'",
    ]
    assert result.sentences[0] == ("狗在睡觉。", "It is 狗. ", "")


def test_abbreviations_are_those_of_the_language(translator, backend):
    translate_texts(["Hr. Weber kam."], "de-DE", translator)
    translate_texts(["Hr. Weber kam."], "en", translator)
    assert backend.sentences() == ["Hr. Weber kam.", "Weber kam.", "Hr."]


def test_calls_fit_a_batch(translator, backend):
    texts = [f"Word {number}" for number in range(10)]
    results = translate_texts(texts, "en", translator)
    assert [each.translations for each in results] == [
        [f"+{number} +Word"] for number in range(10)
    ]
    assert sorted(len(call[2]) for call in backend.calls) == [2, 4, 4]


def test_alternatives_of_several_sentences(translator, backend):
    texts = ["One. Two!", "!!", "Three"]
    first, second, third = translate_texts(texts, "en", translator, 1)
    assert first.translations == ["+One. +Two!", "+One.' +Two!'"]
    assert second.translations == ["!!"]
    assert third.translations == ["+Three", "+Three'"]
    assert {call[1] for call in backend.calls} == {"n_best"}
    # No more than the model gives.
    (many,) = translate_texts(["One"], "en", translator, 50)
    assert many.translations == ["+One", "+One'", "+One''"]


def test_alternatives_differ():
    assert join_alternatives([["a", "b"], ["c"]], [" ", ""]) == ["a c", "b c"]
    assert join_alternatives([["a", "a", "b"]], ["."]) == ["a.", "b."]
    assert join_alternatives([], []) == [""]


def test_a_sentence_that_the_model_cuts_is_translated_in_parts(translator, backend):
    backend.max_words = 3
    text = "a1 a2 a3 a4 a5 a6 a7"
    (result,) = translate_texts([text], "en", translator, 1)
    best, other = result.translations
    assert sorted(best.split()) == [f"+a{number}" for number in range(1, 8)]
    assert sorted(other.replace("'", "").split()) == sorted(best.split())
    assert "a4" in backend.calls[0][2][0]
    # A word alone stays cut: there is nothing to split but letters.
    backend.max_words = 0
    (result,) = translate_texts(["ab"], "en", translator)
    assert result.translations == [""]


def test_parts_of_a_sentence_without_spaces_get_one_between_them(translator):
    def translated(sentence):
        return TranslatedText(f"{len(sentence)}.", -1.0, len(sentence) > 3)

    translator.backend._translated = translated
    assert translator.translate(["一二三四五六"]) == [["3. 3."]]


def test_no_character_is_lost_by_splitting():
    generator = random.Random(3)
    for _ in range(60):
        text = "".join(
            generator.choices("ab.  \n\r!A。", k=generator.randrange(60))
        ) + "x" * generator.choice([0, 0, 0, 2500])
        text += generator.choice(["", " y" * 900, " \u00a0  z" * 700])
        parts = split_text(text, "en")
        assert "".join(sentence + space for sentence, space in parts) == text
        for sentence, space in parts:
            assert len(sentence) <= MAX_SENTENCE_CHARACTERS
            assert not space.strip()
            assert sentence == sentence.strip()
            assert "\n" not in sentence and "\r" not in sentence


def test_work_of_a_client_that_left_makes_no_call(translator, backend):
    translator.cancelled.cancel()
    with pytest.raises(Cancelled):
        translate_texts(["One"], "en", translator)
    with pytest.raises(Cancelled):
        translator.attention([("a", "b")])
    assert backend.calls == []
