"""Models and the language pairs that they translate."""

import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.translation_api.language_pairs import (
    LanguagePair,
    Languages,
    parse_models,
)
from tests.server.translation_api.fake_backend import EN_DE, THREE_PAIRS


def write_card(base, version, text):
    (base / str(version)).mkdir(parents=True)
    (base / str(version) / "model_card.json").write_text(text)


def test_models_with_their_languages():
    assert parse_models("translate:EN:de, back:de:pt_BR") == (
        LanguagePair("translate", "en", "de"),
        LanguagePair("back", "de", "pt-BR"),
    )


def test_languages_of_the_newest_version(tmp_path):
    for version, target in ((2, "fr"), (10, "de"), (9, "it")):
        card = {"languages": {"source": "en", "target": target}}
        write_card(tmp_path / "a", version, json.dumps(card))
    paths = {"a": str(tmp_path / "a"), "b": str(tmp_path / "b")}
    assert parse_models("a", paths) == (LanguagePair("a", "en", "de"),)
    assert parse_models("", {"a": paths["a"]}) == (LanguagePair("a", "en", "de"),)
    assert parse_models("a,b:fr:en", paths)[1] == LanguagePair("b", "fr", "en")


def test_malformed_lists_are_refused(tmp_path):
    parser = {"languages": {"source": "en", "target": "trees"}}
    for name, text in (
        ("parser", json.dumps(parser)),
        ("list", "[]"),
        ("no_json", "{"),
        ("number", '{"languages": {"source": 1, "target": "de"}}'),
    ):
        write_card(tmp_path / name, 1, text)
    (tmp_path / "empty").mkdir()
    paths = {each.name: str(each) for each in tmp_path.iterdir()}
    for models, message in (
        ("", "No model to translate with. Expected models"),
        ("a:en", "Received: 'a:en'"),
        ("a:en:de:fr", "Received: 'a:en:de:fr'"),
        (":en:de", "Received: ':en:de'"),
        ("a:en:de,", "not known"),
        ("a:en:german", "Received: 'german'"),
        ("a", "languages of model 'a' are not known.*Give its languages, as in a:en"),
        ("empty", "No version in .* has a model_card.json"),
        ("parser", "does not say which languages .*'trees'"),
        ("list", "does not say which languages"),
        ("no_json", "does not say which languages"),
        ("number", "does not say which languages"),
    ):
        with pytest.raises(UserError, match=message):
            parse_models(models, paths if models else None)


def test_a_pair_has_one_model():
    with pytest.raises(
        UserError, match="'translate' and 'x' both translate from en to"
    ):
        Languages((*EN_DE, LanguagePair("x", "en", "de")))
    with pytest.raises(UserError, match="No model"):
        Languages(())


def test_languages_and_their_targets():
    languages = Languages(THREE_PAIRS)
    assert languages.sources == ("en", "de", "fr")
    assert languages.codes == ("en", "de", "fr", "pt-BR")
    assert languages.pair("de", "en") == LanguagePair("back", "de", "en")
    assert languages.pair("en", "pt-BR") is None
    assert languages.describe() == [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "fr", "name": "French", "targets": ["fr", "pt-BR"]},
        {"code": "pt-BR", "name": "Portuguese (Brazil)", "targets": ["pt-BR"]},
    ]


def test_languages_that_a_text_may_be_in():
    assert Languages(EN_DE).candidates("de") == ("en", "de")
    assert Languages(EN_DE).candidates("en") == ("en", "de")
    languages = Languages(THREE_PAIRS)
    assert languages.candidates("de") == ("en", "de")
    assert languages.candidates("pt-BR") == ("fr", "pt-BR")
    # Nothing is translated to it. What it is says the error, or there is nothing to do.
    assert languages.candidates("fr") == languages.codes


def test_pairs_of_a_multilingual_model(tmp_path):
    """It is asked by its own codes, and served by the usual ones."""
    codes = ["deu_Latn", "zho_Hans", "zho_Hant", "ace_Latn"]
    card = {"languages": {"source": "de", "target": "zh", "codes": codes}}
    write_card(tmp_path / "m", 1, json.dumps(card))
    languages = Languages(parse_models("m", {"m": str(tmp_path / "m")}))
    assert languages.codes == ("de", "zh-Hans", "zh-Hant", "ace")
    assert len(languages.pairs) == 12
    pair = languages.pair("zh-Hant", "de")
    assert pair is not None
    assert pair.codes == ("zho_Hant", "deu_Latn")
    assert languages.find("zh-TW") == "zh-Hant"
    assert languages.candidates("de") == ("zh-Hans", "zh-Hant", "ace", "de")
    # One pair of it, by the usual codes or by its own, and one that it does not have.
    paths = {"m": str(tmp_path / "m")}
    expected = LanguagePair("m", "de", "zh", ("deu_Latn", "zho_Hans"))
    for item in ("m:de:zh-Hans", "m:deu_Latn:zho_Hans"):
        assert parse_models(item, paths) == (expected,)
    with pytest.raises(UserError, match="model does not have the language fr"):
        parse_models("m:de:fr", paths)
    assert parse_models("m:de+:fr")[0].codes == ("de", "fr")
    assert parse_models("m:de+en:fr") == (
        LanguagePair("m", "de", "fr", ("de", "fr")),
        LanguagePair("m", "en", "fr", ("en", "fr")),
    )
    assert [pair.codes for pair in parse_models("m:de+en:en+de")] == [
        ("de", "en"),
        ("en", "de"),
    ]


def test_the_first_model_has_a_pair_that_a_multilingual_one_has_too():
    pairs = (*EN_DE, *parse_models("m:de+en:de+en"))
    languages = Languages(pairs)
    assert [pair.model for pair in languages.pairs] == ["translate", "m"]
    assert Languages(pairs[::-1]).pair("en", "de") == pairs[-1]
