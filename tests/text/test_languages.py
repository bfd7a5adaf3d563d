"""Names of languages."""

import sys

from t2t_keras.text.languages import language_name


def test_names_are_english():
    assert language_name("de") == "German"
    assert language_name("pt-BR") == "Portuguese (Brazil)"
    assert language_name("zh-Hans") == "Chinese (Simplified)"
    assert language_name("xx") == "xx"
    assert language_name("de", own=True) == "Deutsch"
    assert language_name("letters", own=True) == "letters"


def test_without_babel_the_name_is_the_code(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    assert language_name("de") == "de"
