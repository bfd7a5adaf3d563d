"""Glossaries: lookup in sentences, and files."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.text.glossary import Glossary, Term, read_glossary, unmet_terms

GLOSSARY = Glossary(
    {
        "dog": "Hund",
        "hot dog": "Würstchen",
        "May": "Mai",
        "C++": "C++",
        "公園": "park",
        "straße": "street",
        "big  dog": "Dogge",
        "example": "Beispiel",
    }
)


def test_terms_are_found():
    for text, expected in (
        ("The dog sleeps.", ["Hund"]),
        ("A hot dog and a dog, a hot dog", ["Würstchen", "Hund"]),
        ("HOT DOG! Dogs hotdog dog_1 dog-like", ["Würstchen", "Hund"]),
        ("Hot dogs", []),
        ("It may be in May.", ["Mai"]),
        ("MAY", []),
        ("Use C++, not C", ["C++"]),
        ("他在公園里 dog", ["park", "Hund"]),
        (b"a big \t dog", ["Dogge"]),
        ("Die STRAßE, straßen", ["street"]),
        ("See https://example.com and {dog} %s", []),
        ("an example\xff".encode("latin-1"), ["Beispiel"]),
        ("", []),
    ):
        assert [each.target for each in GLOSSARY.find(text)] == expected, text


def test_files(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\n\n red  apple\tApfel \r\ndog\tHund\n", "utf-8")
    assert read_glossary(path).terms == [
        Term("dog", "Hund"),
        Term("red apple", "Apfel"),
    ]
    where = f"Line 2 of {path} (--glossary)"
    for line, message in (
        (b"dog", " must have a source term, a tab and a target term. Received: dog"),
        (b"\tHund", " must have a source term, a tab and a target term."),
        (b"a\tb\tc", " must have a source term, a tab and a target term."),
        (b"d\xff\tb", " is not text in UTF-8. Convert the file."),
        (b"x\tz", " has another translation of 'x' than line 1: 'z' and 'y'. Keep one"),
    ):
        path.write_bytes(b"x\ty\n" + line + b"\n" + b"ok\tok\n" * 200)
        with pytest.raises(UserError) as caught:
            read_glossary(path)
        assert str(caught.value).startswith(where + message), line
    with pytest.raises(UserError, match="must have a source and a target"):
        Glossary({"a": " "})
    with pytest.raises(UserError, match=r"two translations of 'a b': 'x' and 'y'\."):
        Glossary({"a b": "x", "a  b": "y"})


def test_forms_of_characters_that_a_vocabulary_may_change_are_no_miss():
    terms = [Term("a", "\uff11\uff12"), Term("b", "Straße"), Term("c", "Hund")]
    assert unmet_terms("12 STRASSE, hunde", terms) == ()
    assert unmet_terms("12, Strasse Hun d", terms) == ("Hund",)
