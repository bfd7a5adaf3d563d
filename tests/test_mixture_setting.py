"""What `--mixture` says, and what it must not say."""

from fractions import Fraction

import pytest

from t2t_keras.errors import UserError
from t2t_keras.mixture_setting import (
    MixtureItem,
    holds_records,
    mixture_item,
    with_absolute_names,
)


@pytest.mark.parametrize(
    ("text", "names", "rate", "is_text"),
    [
        ("a.en:a.de:2", ("a.en", "a.de"), Fraction(2), True),
        ("a.tsv:0.1", ("a.tsv",), Fraction(1, 10), True),
        ("parts/*.mrg.gz:1/3", ("parts/*.mrg.gz",), Fraction(1, 3), True),
        ("grammar_ende:1e-2", ("grammar_ende",), Fraction(1, 100), False),
        ("wmt14/de-en:1.0.0:1", ("wmt14/de-en:1.0.0",), Fraction(1), False),
        ("wmt14/de-en:1.*.*:.5", ("wmt14/de-en:1.*.*",), Fraction(1, 2), False),
    ],
)
def test_an_item_is_read(text, names, rate, is_text):
    item = mixture_item(text)
    assert item == MixtureItem(names, rate)
    assert item.is_text == is_text
    # A tenth is a tenth, and not the nearest float.
    assert item.rate * 10**18 == rate * 10**18
    assert item.name == text.rpartition(":")[0]


@pytest.mark.parametrize("text", ["a.tsv", "a:b:c:2", ":2", "a::2", "", "1.2.3:1"])
def test_what_is_no_item_is_refused(text):
    if text == "1.2.3:1":  # alone, it is the name of something
        assert mixture_item(text).names == ("1.2.3",)
        return
    with pytest.raises(UserError, match=r"SOURCE:TARGET:RATE.*Received: ") as refused:
        mixture_item(text)
    assert str(refused.value).endswith(f"Received: {text!r}")


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf", "1/0", "two", "1001", ""])
def test_a_rate_that_cannot_be_meant_is_refused(rate):
    with pytest.raises(UserError, match="above 0, at most 1000: how often") as refused:
        mixture_item(f"a.tsv:{rate}")
    assert str(refused.value).endswith(f"Received: 'a.tsv:{rate}'")


def test_files_and_records_mean_the_same_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    assert not holds_records("made")
    (tmp_path / "made" / "manifest.json").touch()
    assert holds_records("made")
    items = ["a.en:b/a.de:0.50", "x*.tsv:2", "made:1/3", "grammar_ende:1.0"]
    assert [*map(with_absolute_names, items)] == [
        f"{tmp_path}/a.en:{tmp_path}/b/a.de:1/2",
        f"{tmp_path}/x*.tsv:2",
        f"{tmp_path}/made:1/3",
        "grammar_ende:1",  # a dataset, from wherever it is asked for
    ]
    # Twice is once: what a run has written is read again.
    for item in map(with_absolute_names, items):
        assert with_absolute_names(item) == item
