"""JSON documents: what is read, and the words and places of errors."""

import json
import random

import pytest

from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.json_documents import parse_document


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"\n\n ", "Expecting value: line 3 column 2 (char 3)"),
        ('{"ä": [1,}'.encode(), "Expecting value: line 1 column 10 (char 9)"),
        (b'\n{"a": [1 2]}', "Expecting ',' delimiter: line 2 column 10 (char 10)"),
        # TensorFlow Serving accepts this one, which docs/embedded_server.md says.
        (b'{"a": "b\xff"}', "'utf-8' codec can't decode byte 0xff in position 8"),
        (b'{"a": "b\\ud83d\\ud83d"}', "'utf-8' codec can't encode characters"),
        (b'{"b": "\\udfff"}', "'utf-8' codec can't encode character '\\udfff'"),
        (b'{"a": 1e400}', "a number is too large for a double: 1e400"),
        (b"9" * 5000, "Exceeds the limit (4300 digits)"),
        (b"[" * 100_000, "the document is nested too deeply"),
        (b'{"a":' * 100_000, "the document is nested too deeply"),
    ],
)
def test_errors(body, error):
    with pytest.raises(ServingError) as caught:
        parse_document(body)
    assert caught.value.message.startswith(f"JSON Parse error: {error}")
    assert caught.value.code.name == "INVALID_ARGUMENT"


def test_numbers_that_json_does_not_have():
    found = parse_document(b"[Infinity, -Infinity, NaN]")
    assert [str(each) for each in found] == ["inf", "-inf", "nan"]


def test_the_first_of_members_with_the_same_name_counts():
    assert parse_document(b'{"a": 1, "b": {"a": 2}, "a": 3, "a": []}') == {
        "a": 1,
        "b": {"a": 2},
    }


def test_what_follows_the_document_is_ignored():
    for end in (b"", b" x", b"]", b"\0", b"\n{"):
        assert parse_document(b"[1]" + end) == [1]


def random_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 5 else 5)
    if kind < 2:
        letters = 'aß"\\/\b\f\n\r\t\x7f\u2028😀漢'
        return "".join(rng.choices(letters, k=rng.randrange(6)))
    if kind == 2:
        return rng.choice([None, True, False, 0, -0.0, 10**300, -(10**300)])
    if kind == 3:
        return rng.randrange(-(2**65), 2**65) >> rng.randrange(65)
    if kind == 4:
        return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-320, 300)
    values = [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind < 7:
        return values
    return {f"{rng.randrange(10**6)}é\n": value for value in values}


def test_values_come_back():
    rng = random.Random(3)
    for _ in range(1000):
        value = random_value(rng)
        text = json.dumps(
            value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 0, 2])
        ).encode()
        # `repr` tells 1 from 1.0 and True.
        assert repr(parse_document(b"\xef\xbb\xbf \n" + text)) == repr(value)
