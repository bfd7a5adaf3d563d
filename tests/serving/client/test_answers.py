"""Checks of a server's answer: names, types and sizes of its outputs."""

import pytest

from t2t_keras.serving.client.answers import Answer
from t2t_keras.serving.client.errors import ServerError


def answer(**outputs):
    return Answer(outputs, 2, "nbest")


def test_a_correct_answer_is_returned():
    correct = answer(score=[1.0, 2.0], lengths=[[1], [2]], truncated=[True, False])
    assert correct.column("score", float) == [1.0, 2.0]
    assert correct.rows("lengths", int, at_least=1) == [[1], [2]]
    assert correct.truncated() == [True, False]


def test_an_older_export_without_truncated_counts_as_not_truncated():
    assert answer().truncated() == [False, False]


def test_no_texts_have_no_rows():
    empty = Answer({"lengths": []}, 0, "nbest")
    assert empty.rows("lengths", int, at_least=9) == []


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"b": [1.0], "a": [2.0]},
            r"returned no output 'score' \(got: a, b\)\. Is it a model",
        ),
        ({}, r"'nbest' returned no output 'score' \(got: nothing\)"),
        ({"score": [1.0]}, "returned 1 value for 2 texts in output 'score'"),
        ({"score": [1.0] * 3}, "returned 3 values for 2 texts in output 'score'"),
        ({"score": 1.0}, "returned a scalar for 2 texts in output 'score'"),
        ({"score": [1.0, b"x"]}, "returned 'score' as bytes instead of float"),
        ({"score": [[1.0], [1.0]]}, "returned 'score' as list instead of float"),
    ],
)
def test_errors_of_a_column(outputs, message):
    with pytest.raises(ServerError, match=message) as raised:
        answer(**outputs).column("score", float)
    assert raised.value.code is None


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"lengths": [1, 2]}, "returned 'lengths' as int instead of list"),
        (
            {"lengths": [[1, 1], [2, 2.0]]},
            "returned 'lengths' as float instead of int",
        ),
        (
            {"lengths": [[1], [2]]},
            "returns 1 translations of each text. Received: n_bes",
        ),
    ],
)
def test_errors_of_rows(outputs, message):
    with pytest.raises(ServerError, match=message):
        answer(**outputs).rows("lengths", int, at_least=2)


def test_maps_have_four_dimensions_for_each_text():
    weights = [[[[[0.5, 0.5]]]], [[[[1.0]]]]]
    assert answer(weights=weights).maps("weights") == weights
    for wrong, message in (
        ([[[[0.5]]], [[[1.0]]]], "'weights' as float instead of list"),
        ([[[[[1]]]], [[[[1.0]]]]], "'weights' as int instead of float"),
        ([[[[[1.0]]]]], "1 value for 2 texts in output 'weights'"),
    ):
        with pytest.raises(ServerError, match=message):
            answer(weights=wrong).maps("weights")
