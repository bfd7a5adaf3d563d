"""Masks against loops that say the same in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.layers.masks import causal_mask, neighborhood_mask, padding_mask


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1))
def test_padding_is_hidden_and_nothing_else(tokens: list[list[int]]) -> None:
    mask = np.array(padding_mask(np.array(tokens)))
    assert mask.dtype == bool
    assert mask.tolist() == [[[token != 0 for token in row]] for row in tokens]


def test_padding_may_have_another_id() -> None:
    mask = np.array(padding_mask(np.array([[7, 0, 3]]), pad_id=7))
    assert mask.tolist() == [[[False, True, True]]]


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


@pytest.mark.parametrize("neighborhood", [-3, 0, 4])
def test_a_neighborhood_without_a_center_is_refused(neighborhood: int) -> None:
    message = rf"must be a positive odd number.*centered.*Received: {neighborhood}$"
    with pytest.raises(ValueError, match=message):
        neighborhood_mask(5, neighborhood)
