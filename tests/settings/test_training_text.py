"""Settings of the training text: items of `--mixture` and `--filter`."""

from fractions import Fraction

import pytest

from t2t_keras.errors import UserError
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.training_text import (
    FilterItem,
    MixtureItem,
    is_records_folder,
    make_names_absolute,
    parse_filter_item,
    parse_mixture_item,
)

TAGGED = (
    ("a.en:a.de:2:<bt>", ("a.en", "a.de"), Fraction(2), "<bt>"),
    ("a.tsv:0.5:web", ("a.tsv",), Fraction(1, 2), "web"),
    ("wmt14/de-en:1.0.0:1:<w>", ("wmt14/de-en:1.0.0",), Fraction(1), "<w>"),
    ("a:2:3", ("a", "2"), Fraction(3), ""),  # a tag is no number
)
# Python would compute powers of ten with ten million digits.
HUGE = ("1e9999999", "1e-9999999")
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


def test_an_item_with_a_tag_is_read():
    for text, names, rate, tag in TAGGED:
        assert parse_mixture_item(text) == MixtureItem(names, rate, tag), text
    for tag in ("", "a b", " "):
        with pytest.raises(UserError, match="must be one symbol, without spaces"):
            parse_mixture_item(f"a.tsv:1:{tag}")


def test_what_is_no_item_is_refused():
    for text in ("a.tsv", "a:b:c:2", ":2", "a::2", ""):
        with pytest.raises(UserError, match="SOURCE:TARGET:RATE") as refused:
            parse_mixture_item(text)
            pytest.fail(f"{text!r} was taken")
        assert str(refused.value).endswith(f"Received: {text!r}"), text
    # Alone, it is the name of something.
    assert parse_mixture_item("1.2.3:1").names == ("1.2.3",)


def test_a_rate_that_cannot_be_meant_is_refused():
    for rate in ("0", "-1", "nan", "inf", "1/0", "two", "1001", "", *HUGE):
        with pytest.raises(UserError, match="above 0 and at most 1000") as refused:
            parse_mixture_item(f"a.tsv:{rate}")
            pytest.fail(f"{rate!r} was taken")
        assert str(refused.value).endswith(f"Received: 'a.tsv:{rate}'"), rate


def test_files_and_records_mean_the_same_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "made").mkdir()
    assert not is_records_folder("made")
    (tmp_path / "made" / "manifest.json").touch()
    assert is_records_folder("made")
    items = ["a.en:b/a.de:0.50", "x*.tsv:2", "made:1/3", "grammar_ende:1.0"]
    items += ["a.tsv:0.5:<bt>", "~/made:2"]
    assert [*map(make_names_absolute, items)] == [
        f"{tmp_path}/a.en:{tmp_path}/b/a.de:1/2",
        f"{tmp_path}/x*.tsv:2",
        f"{tmp_path}/made:1/3",
        "grammar_ende:1",  # a dataset, from wherever it is asked for
        f"{tmp_path}/a.tsv:1/2:<bt>",
        f"{tmp_path}/made:2",
    ]
    # Idempotent, because settings that a run has written are read again.
    for item in map(make_names_absolute, items):
        assert make_names_absolute(item) == item


# --- Items of --filter


def test_a_filter_is_read():
    assert parse_filter_item("copied") == FilterItem("copied")
    assert parse_filter_item("script").ratio is None
    assert parse_filter_item("length_ratio:2") == FilterItem(
        "length_ratio", Fraction(2), "words"
    )
    item = parse_filter_item("length_ratio:7/3:characters")
    assert item == FilterItem("length_ratio", Fraction(7, 3), "characters")


def test_an_unknown_filter_is_refused():
    for text in ("copied:2", "duplicate", "", "ratio:2"):
        with pytest.raises(UserError, match=r"--filter must be one of length_ratio:R"):
            parse_filter_item(text)
            pytest.fail(f"{text!r} was taken")
    with pytest.raises(UserError, match=r"Did you mean duplicates\?"):
        parse_filter_item("duplicate")


def test_a_length_ratio_that_cannot_be_meant_is_refused():
    faults = ("", ":", ":0.9", ":nan", ":inf", ":2:bytes", ":2:words:2", ":1001")
    for options in (*faults, *(f":{number}" for number in HUGE)):
        with pytest.raises(UserError, match="maximum ratio of the longer") as refused:
            parse_filter_item(f"length_ratio{options}")
            pytest.fail(f"{options!r} was taken")
        assert str(refused.value).endswith(f"Received: 'length_ratio{options}'")


def test_filters_that_do_not_fit_together_are_refused():
    with pytest.raises(
        UserError, match=r"must name each filter once\. Received: copied"
    ):
        DataConfig(filter=("copied", "copied"))
    with pytest.raises(UserError, match="must name each filter once"):
        DataConfig(filter=("length_ratio:2", "length_ratio:3"))
    with pytest.raises(UserError, match=r"--rejected needs --filter.*=r.tsv alone"):
        DataConfig(rejected="r.tsv")
    DataConfig(filter=("copied",), rejected="r.tsv")


# --- Symbols of --user_symbols


def test_symbols_that_cannot_be_pieces_are_refused():
    for symbol in ("", "a b", " a", "\u2581", "<unk>", "</s>", "<pad>", "<0x0A>"):
        with pytest.raises(UserError, match="must have no space, and not be the name"):
            DataConfig(user_symbols=("<2de>", symbol))
            pytest.fail(f"{symbol!r} was taken")
    with pytest.raises(UserError, match=r"must name each symbol once\. Received: a,a"):
        DataConfig(user_symbols=("a", "a"))
    DataConfig(user_symbols=("<2de>", "ü", "<0x1>"))
