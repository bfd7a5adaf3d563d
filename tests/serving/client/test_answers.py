"""An answer is believed when it is what its signature promises."""

import pytest

from t2t_keras.serving.client.answers import Answer
from t2t_keras.serving.client.errors import ServerError


def answer(**outputs):
    return Answer(outputs, 2, "nbest")


def test_what_is_right_comes_through():
    found = answer(score=[1.0, 2.0], lengths=[[1], [2]], truncated=[True, False])
    assert found.column("score", float) == [1.0, 2.0]
    assert found.rows("lengths", int, at_least=1) == [[1], [2]]
    assert found.truncated() == [True, False]


def test_an_export_of_before_tells_of_nothing_cut():
    assert answer().truncated() == [False, False]


def test_of_no_text_there_is_nothing():
    found = Answer({"lengths": []}, 0, "nbest")
    assert found.rows("lengths", int, at_least=9) == []


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"b": [1.0], "a": [2.0]}, "'nbest' gave no 'score', but a, b. Is it a model"),
        ({}, "'nbest' gave no 'score', but nothing"),
        ({"score": [1.0]}, "gave 1 of 'score' for 2 texts"),
        ({"score": [1.0] * 3}, "gave 3 of 'score' for 2 texts"),
        ({"score": 1.0}, "gave a single value of 'score' for 2 texts"),
        ({"score": [1.0, b"x"]}, "gave 'score' as bytes, where float is expected"),
        ({"score": [[1.0], [1.0]]}, "gave 'score' as list, where float is"),
    ],
)
def test_what_is_wrong_in_a_column_is_named(outputs, message):
    with pytest.raises(ServerError, match=message) as raised:
        answer(**outputs).column("score", float)
    assert raised.value.code is None


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"lengths": [1, 2]}, "gave 'lengths' as int, where list is expected"),
        (
            {"lengths": [[1, 1], [2, 2.0]]},
            "gave 'lengths' as float, where int is expected",
        ),
        ({"lengths": [[1], [2]]}, "gives 1 translations of each text. Received: n_bes"),
    ],
)
def test_what_is_wrong_in_rows_is_named(outputs, message):
    with pytest.raises(ServerError, match=message):
        answer(**outputs).rows("lengths", int, at_least=2)
