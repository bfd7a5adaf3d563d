"""Items of `--mixture`: valid values, and refused ones."""

from fractions import Fraction

import pytest

from t2t_keras.errors import UserError
from t2t_keras.settings.mixture import (
    MixtureItem,
    is_records_folder,
    make_names_absolute,
    parse_mixture_item,
)

ITEMS = (
    ("a.en:a.de:2", ("a.en", "a.de"), Fraction(2), True),
    ("a.tsv:0.1", ("a.tsv",), Fraction(1, 10), True),
    ("parts/*.mrg.gz:1/3", ("parts/*.mrg.gz",), Fraction(1, 3), True),
    ("grammar_ende:1e-2", ("grammar_ende",), Fraction(1, 100), False),
    ("wmt14/de-en:1.0.0:1", ("wmt14/de-en:1.0.0",), Fraction(1), False),
    ("wmt14/de-en:1.*.*:.5", ("wmt14/de-en:1.*.*",), Fraction(1, 2), False),
)


def test_an_item_is_read():
    for text, names, rate, is_text in ITEMS:
        item = parse_mixture_item(text)
        assert item == MixtureItem(names, rate), text
        assert item.is_text == is_text, text
        # A tenth is exact, not the nearest float.
        assert item.rate * 10**18 == rate * 10**18, text
        assert item.name == text.rpartition(":")[0], text


def test_what_is_no_item_is_refused():
    for text in ("a.tsv", "a:b:c:2", ":2", "a::2", ""):
        with pytest.raises(UserError, match="SOURCE:TARGET:RATE") as refused:
            parse_mixture_item(text)
            pytest.fail(f"{text!r} was taken")
        assert str(refused.value).endswith(f"Received: {text!r}"), text
    # Alone, it is the name of something.
    assert parse_mixture_item("1.2.3:1").names == ("1.2.3",)


def test_a_rate_that_cannot_be_meant_is_refused():
    for rate in ("0", "-1", "nan", "inf", "1/0", "two", "1001", ""):
        with pytest.raises(UserError, match="above 0 and at most 1000") as refused:
            parse_mixture_item(f"a.tsv:{rate}")
            pytest.fail(f"{rate!r} was taken")
        assert str(refused.value).endswith(f"Received: 'a.tsv:{rate}'"), rate


def test_files_and_records_mean_the_same_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    assert not is_records_folder("made")
    (tmp_path / "made" / "manifest.json").touch()
    assert is_records_folder("made")
    items = ["a.en:b/a.de:0.50", "x*.tsv:2", "made:1/3", "grammar_ende:1.0"]
    assert [*map(make_names_absolute, items)] == [
        f"{tmp_path}/a.en:{tmp_path}/b/a.de:1/2",
        f"{tmp_path}/x*.tsv:2",
        f"{tmp_path}/made:1/3",
        "grammar_ende:1",  # a dataset, from wherever it is asked for
    ]
    # Idempotent, because settings that a run has written are read again.
    for item in map(make_names_absolute, items):
        assert make_names_absolute(item) == item
