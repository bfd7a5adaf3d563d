"""Names of languages."""

from t2t_keras.text.languages import language_name


def test_names_are_english():
    assert language_name("de") == "German"
    assert language_name("pt-BR") == "Portuguese (Brazil)"
    assert language_name("zh-Hans") == "Chinese (Simplified)"
    assert language_name("xx") == "xx"
    assert language_name("de", own=True) == "Deutsch"
    assert language_name("letters", own=True) == "letters"
