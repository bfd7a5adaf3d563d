"""Language codes: canonical form, what clients mean by them, and names."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.translation_api.language_codes import canonical_code, find_code


def test_codes_get_their_usual_case():
    for code, expected in (
        ("EN", "en"),
        ("pt_br", "pt-BR"),
        ("ZH-hans", "zh-Hans"),
        ("sr-latn-rs", "sr-Latn-RS"),
        ("es-419", "es-419"),
        ("deu", "deu"),
    ):
        assert canonical_code(code) == expected


def test_what_is_no_code_is_refused():
    for code in ("", "e", "engl", "trees", "en-", "en-x", "en de", "zh-Hans-Latn", "é"):
        with pytest.raises(UserError, match=r"two or three letters.*Received: "):
            canonical_code(code)


def test_clients_name_languages_in_several_ways():
    served = ("en", "pt-BR", "zh-Hans", "zh-Hant")
    for wanted, expected in (
        ("EN", "en"),
        ("en_US", "en"),
        ("pt", "pt-BR"),
        ("pb", "pt-BR"),
        ("zh", "zh-Hans"),
        ("zt", "zh-Hant"),
        ("ZH-hant", "zh-Hant"),
        ("zh-TW", "zh-Hant"),
        ("zh_CN", "zh-Hans"),
        ("zh-Hant-HK", "zh-Hant"),
        ("zh-Hans-CN", "zh-Hans"),
        ("de", None),
        ("auto", None),
        ("", None),
    ):
        assert find_code(wanted, served) == expected, wanted
    assert find_code("zt", ("zh",)) == "zh"
    assert find_code("zh", ("zh", "zh-Hans")) == "zh"
    assert find_code("zh-Hans", ("zh", "zh-Hant")) == "zh"
    assert find_code("pt-PT", ("en", "pt", "pt-BR")) == "pt"
    assert find_code("en-US", ("en-GB", "en")) == "en"
    assert find_code("en", ("en-GB", "en-US")) is None  # either
    assert find_code("no", ("nb", "en")) == "nb"
    assert find_code("he", ("en", "iw")) == "iw"
