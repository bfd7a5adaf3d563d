"""Placeholders, tags, URLs and e-mail addresses in text."""

import time

import pytest

from t2t_keras.text.protected_spans import find_spans, keeps_spans, without_spans

# Text and the spans that a reader would mark in it.
EXAMPLES = (
    ("Hi {name}, you have {} and {0:.2f}.", ["{name}", "{}", "{0:.2f}"]),
    ("{{ user.name }} ${HOME} %{count} #{x}", None),
    ("%s of %1$s, %(name)s, %-5.2f and %d%s", None),
    ("50 % of it, 50% do, 100%s, %sure, %20foo", []),
    ("<1>See</1> <br/> <br /> <a href=\"x y\" b='c'>z</a>", None),
    ("1 < 2 and a <b and c> d <3", []),
    ("See https://a.org/b_(c)?d=%s&e={f}#g.", ["https://a.org/b_(c)?d=%s&e={f}#g"]),
    ("(www.a.org/b), 'ftp://a.b/c'!", ["www.a.org/b", "ftp://a.b/c"]),
    ("awww.no, www. no, http:// no", []),
    ("<https://a.org> a.b+c@d-e.co.uk. x@y", ["https://a.org", "a.b+c@d-e.co.uk"]),
    ("见https://a.org/b。谢谢{name}吧", ["https://a.org/b", "{name}"]),
    ("a {not a name} b { c }", []),
)
ALL = (
    ["{{ user.name }}", "${HOME}", "%{count}", "#{x}"],
    ["%s", "%1$s", "%(name)s", "%-5.2f", "%d", "%s"],
    ["<1>", "</1>", "<br/>", "<br />", "<a href=\"x y\" b='c'>", "</a>"],
)


def test_spans_are_found():
    others = iter(ALL)
    for text, expected in EXAMPLES:
        found = [text[start:end] for start, end in find_spans(text)]
        assert found == (next(others) if expected is None else expected), text


def test_a_translation_keeps_each_span_once():
    source = "Give {a} to {b} and {a}."
    assert keeps_spans(source, "{b} {a}{a}")
    for translation in ("{b} {a}", "{b} {a} {a} {a}", "{b} {a} {a} %s", "{b} {a} {A}"):
        assert not keeps_spans(source, translation), translation
    assert without_spans("Give {a} to %s, <b>now</b>.") == "Give to , now ."


@pytest.mark.parametrize(
    "unit",
    ["<a a", "<a a=b ", "a", "a.", "{", "{{", "%(", "www.a", "a@", "<", "'<a a='"],
)
def test_time_is_in_proportion_to_the_text(unit):
    times = []
    for count in (2_000, 20_000):
        start = time.perf_counter()
        find_spans(unit * count)
        times.append(time.perf_counter() - start)
    assert times[1] < 60 * times[0] + 0.2
