"""Shares and micro-batches: every row once, in order, under its own number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.training.shares import (
    ROW_NUMBERS,
    micro_batch_count,
    micro_batches,
    share_of,
)


@given(
    rows=st.integers(1, 9),
    length=st.integers(1, 4),
    num_replicas=st.integers(1, 5),
    count=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_shares_are_the_batch_cut_up_in_order(
    rows, length, num_replicas, count, seed
) -> None:
    rng = np.random.default_rng(seed)
    batch = {
        "ids": rng.integers(1, 99, (rows, length)).astype("int32"),
        "weights": rng.uniform(0.5, 1.0, (rows, length)).astype("float32"),
    }
    shares = [share_of(batch, replica, num_replicas) for replica in range(num_replicas)]
    numbers = np.concatenate([share[ROW_NUMBERS] for share in shares])
    np.testing.assert_array_equal(numbers, np.arange(len(numbers)))
    for name, feature in batch.items():
        parts = [share[name] for share in shares]
        each = -(-rows // num_replicas)
        assert {part.shape for part in parts} == {(each, length)}
        joined = np.concatenate(parts)
        assert joined.dtype == feature.dtype
        np.testing.assert_array_equal(joined[:rows], feature)
        np.testing.assert_array_equal(joined[rows:], 0)
        cut = [micro_batches(share, count)[name] for share in shares]
        assert {part.shape for part in cut} == {(count, -(-each // count), length)}
        rejoined = [part.reshape(-1, length)[:each] for part in cut]
        np.testing.assert_array_equal(np.concatenate(rejoined), joined)
        rest = [part.reshape(-1, length)[each:] for part in cut]
        assert not np.concatenate(rest).any()


def test_a_process_has_the_rows_of_its_own_replicas() -> None:
    """As many as any other; their numbers are those of the global batch."""
    batch = {"ids": np.arange(1, 13).reshape(6, 2)}
    for process, numbers in ((0, range(0, 6)), (2, range(12, 18))):
        shares = [share_of(batch, 3 * process + local, 3) for local in range(3)]
        for name, expected in (("ids", batch["ids"]), (ROW_NUMBERS, numbers)):
            found = np.concatenate([share[name] for share in shares])
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("rows", "length", "max_tokens", "count"),
    [
        (10, 50, None, 1),
        (10, 50, 500, 1),
        (10, 50, 499, 2),
        (10, 50, 50, 10),
        (10, 50, 20, 10),  # one row at a time is the least there is
        (1, 50, 20, 1),
        (7, 3, 9, 3),
    ],
)
def test_parts_are_as_few_as_the_limit_allows(rows, length, max_tokens, count) -> None:
    assert micro_batch_count(rows, length, max_tokens) == count
