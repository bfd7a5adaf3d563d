"""JSON documents: what RapidJSON reads, and the messages and offsets of its errors.

Expected errors are those of RapidJSON with the flags of
tensorflow_serving/util/json_tensor.cc, run on the same bodies.
"""

import json
import math
import random

import pytest

from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.json_documents import MOST_LEVELS, parse_document

# Python's parser refuses it, so the other one reads the document.
INF = b"[Inf, "


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\n\n ", "The document is empty. at offset: 3"),
        (b"\xef\xbb\xbf", "The document is empty. at offset: 3"),
        (b"]", "The document is empty. at offset: 0"),
        (b"a = [1, 2]", "Invalid value. at offset: 0"),
        (b'\n\n  {"instances": [1,}', "Invalid value. at offset: 21"),
        ('{"ä": [1,}'.encode(), "Invalid value. at offset: 10"),
        (b'{"a": [1,]}', "Invalid value. at offset: 9"),
        (b'{"a": }', "Invalid value. at offset: 6"),
        (b'{"a": [', "Invalid value. at offset: 7"),
        (b'{"a": tru }', "Invalid value. at offset: 9"),
        (b'{"a": -x}', "Invalid value. at offset: 7"),
        (b'{"a": Infinite}', "Invalid value. at offset: 13"),
        (b'{"a": Nan}', "Invalid value. at offset: 8"),
        (
            b'{"a": [1 2]}',
            "Missing a comma or ']' after an array element. at offset: 9",
        ),
        (b'{"a": ["b"', "Missing a comma or ']' after an array element. at offset: 10"),
        (b'{"a": 01}', "Missing a comma or '}' after an object member. at offset: 7"),
        (b'{"a": 1', "Missing a comma or '}' after an object member. at offset: 7"),
        (b"{a: 1}", "Missing a name for object member. at offset: 1"),
        (b'{"a": 1, }', "Missing a name for object member. at offset: 9"),
        (b'{"a" 1}', "Missing a colon after a name of object member. at offset: 5"),
        (b'{"a": "b', "Missing a closing quotation mark in string. at offset: 8"),
        (b'{"a": "b\0"}', "Missing a closing quotation mark in string. at offset: 8"),
        (b'{"a": "b\n"}', "Invalid encoding in string. at offset: 8"),
        (b'{"a": "b\\x"}', "Invalid escape character in string. at offset: 8"),
        (
            b'{"a": "\\u12g4"}',
            "Incorrect hex digit after \\u escape in string. at offset: 7",
        ),
        (
            b'{"a": "\\ud83d\\u12"}',
            "Incorrect hex digit after \\u escape in string. at offset: 7",
        ),
        *(
            (body, f"The surrogate pair in string is invalid. at offset: {offset}")
            for body, offset in (
                (b'{"a": "\\ud800"}', 7),
                (b'{"a": "\\udc00\\u12"}', 7),
                (b'{"a": "b\\ud83d\\ud83d"}', 8),
                (b'{"a": 1, "a": "\\udfff"}', 15),
            )
        ),
        (b'{"a": 1.}', "Miss fraction part in number. at offset: 8"),
        (b'{"a": 1e+}', "Miss exponent in number. at offset: 9"),
        *(
            (
                b'{"a": %b}' % number,
                "Number too big to be stored in double. at offset: 6",
            )
            for number in (b"1e400", b"-1e309", b"9" * 309, b"9" * 400, b"9" * 5000)
        ),
    ],
)
def test_errors(body, error):
    with pytest.raises(ServingError) as caught:
        parse_document(body)
    assert caught.value.message == f"JSON Parse error: {error}"
    assert caught.value.code.name == "INVALID_ARGUMENT"


def test_an_empty_body_has_no_offset():
    with pytest.raises(ServingError) as caught:
        parse_document(b"")
    assert caught.value.message == "JSON Parse error: The document is empty"


def test_strings_that_are_not_utf_8_are_refused():
    """TensorFlow Serving accepts them, which docs/embedded_server.md says."""
    with pytest.raises(ServingError) as caught:
        parse_document(b'{"a": "b\xff"}')
    expected = "JSON Parse error: Invalid encoding in string. at offset: 8"
    assert caught.value.message == expected


def test_numbers_that_json_does_not_have():
    found = parse_document(b"[Inf, -Inf, Infinity, -Infinity, NaN, -NaN,Inf ]")
    assert [str(each) for each in found] == "inf -inf inf -inf nan nan inf".split()
    # More digits than every double has, but not too many.
    assert parse_document(b"[" + b"1" * 309 + b"]") == [int("1" * 309)]


def test_the_first_of_members_with_the_same_name_counts():
    assert parse_document(b'{"a": 1, "b": {"a": 2}, "a": 3, "a": []}') == {
        "a": 1,
        "b": {"a": 2},
    }


@pytest.mark.parametrize("value", [b"[1]", INF + b"1]"])
def test_what_follows_the_document_is_ignored(value):
    for end in (b"", b" x", b"]", b"\0", b"\xff", b"\n{"):
        assert parse_document(value + end)[-1] == 1


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


def test_both_parsers_read_the_same():
    rng = random.Random(3)
    for _ in range(1000):
        value = random_value(rng)
        text = json.dumps(
            value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 0, 2])
        ).encode()
        # `repr` tells 1 from 1.0 and True.
        assert repr(parse_document(b"\xef\xbb\xbf \n" + text)) == repr(value)
        assert repr(parse_document(INF + text + b"]")) == repr([math.inf, value])


def test_documents_of_any_depth():
    """As in json_tensor_test.cc."""
    value = parse_document(b'{"a": ' + b"[" * 500_000 + b"]" * 500_000 + b', "b": 1}')
    assert value["b"] == 1
    levels = 1
    inner = value["a"]
    while inner:
        (inner,) = inner
        levels += 1
    assert levels == 500_000
    objects = parse_document(b'{"a": ' * 100_000 + b"2" + b"}" * 100_000)
    for _ in range(100_000):
        objects = objects["a"]
    assert objects == 2


def test_a_document_may_not_fill_the_memory_with_levels():
    with pytest.raises(ServingError) as caught:
        parse_document(b"[" * (MOST_LEVELS + 1))
    expected = "JSON Parse error: The document has more than 1,048,576 levels"
    assert caught.value.message == expected
