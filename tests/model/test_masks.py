"""Masks against explicit loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.model.masks import (
    causal_mask,
    neighborhood_mask,
    padding_mask,
    segment_mask,
)


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1))
def test_padding_is_hidden_and_nothing_else(tokens: list[list[int]]) -> None:
    mask = np.array(padding_mask(np.array(tokens)))
    assert mask.dtype == bool
    assert mask.tolist() == [[[token != 0 for token in row]] for row in tokens]


def test_padding_may_have_another_id() -> None:
    mask = np.array(padding_mask(np.array([[7, 0, 3]]), pad_id=7))
    assert mask.tolist() == [[[False, True, True]]]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=2),
    st.lists(st.integers(0, 3), min_size=7, max_size=7),
)
def test_a_pair_sees_itself_alone(queries: list[list[int]], keys: list[int]) -> None:
    # Different keys in each row.
    key_rows = [keys[row % 7 :] + keys[: row % 7] for row in range(len(queries))]
    mask = np.array(segment_mask(np.array(queries), np.array(key_rows)))
    assert mask.dtype == bool
    assert mask.tolist() == [
        [[key == query and key != 0 for key in key_row] for query in query_row]
        for query_row, key_row in zip(queries, key_rows, strict=True)
    ]


@given(st.integers(0, 9))
def test_a_position_sees_itself_and_what_came_before(length: int) -> None:
    mask = np.array(causal_mask(length))
    assert mask.dtype == bool
    assert mask.shape == (1, length, length)
    for query in range(length):
        assert set(np.flatnonzero(mask[0, query])) == set(range(query + 1))


@given(st.integers(0, 9), st.integers(0, 6))
def test_a_neighborhood_is_centered_on_the_query(length: int, reach: int) -> None:
    mask = np.array(neighborhood_mask(length, 2 * reach + 1))
    assert mask.dtype == bool
    assert mask.shape == (1, length, length)
    for query in range(length):
        near = set(range(query - reach, query + reach + 1)) & set(range(length))
        assert set(np.flatnonzero(mask[0, query])) == near
