"""Shards and micro-batches: every row once, in order; shapes of batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.training.step import (
    check_compiled,
    computed_rows,
    micro_batch_count,
    micro_batches,
    shard_batch,
)
from t2t_keras.training.update import ROW_NUMBERS


@given(
    rows=st.integers(1, 9),
    length=st.integers(1, 4),
    num_replicas=st.integers(1, 5),
    count=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_shards_are_the_batch_cut_up_in_order(
    rows, length, num_replicas, count, seed
) -> None:
    rng = np.random.default_rng(seed)
    batch = {
        "ids": rng.integers(1, 99, (rows, length)).astype("int32"),
        "weights": rng.uniform(0.5, 1.0, (rows, length)).astype("float32"),
    }
    shards = [
        shard_batch(batch, replica, num_replicas) for replica in range(num_replicas)
    ]
    numbers = np.concatenate([shard[ROW_NUMBERS] for shard in shards])
    np.testing.assert_array_equal(numbers, np.arange(len(numbers)))
    for name, feature in batch.items():
        parts = [shard[name] for shard in shards]
        each = -(-rows // num_replicas)
        assert {part.shape for part in parts} == {(each, length)}
        joined = np.concatenate(parts)
        assert joined.dtype == feature.dtype
        np.testing.assert_array_equal(joined[:rows], feature)
        np.testing.assert_array_equal(joined[rows:], 0)
        cut = [micro_batches(shard, count)[name] for shard in shards]
        assert {part.shape for part in cut} == {(count, -(-each // count), length)}
        rejoined = [part.reshape(-1, length)[:each] for part in cut]
        np.testing.assert_array_equal(np.concatenate(rejoined), joined)
        rest = [part.reshape(-1, length)[each:] for part in cut]
        assert not np.concatenate(rest).any()


def test_a_process_has_the_rows_of_its_own_replicas() -> None:
    """All processes have equally many rows, numbered as in the global batch."""
    batch = {"ids": np.arange(1, 13).reshape(6, 2)}
    for process, numbers in ((0, range(0, 6)), (2, range(12, 18))):
        shards = [shard_batch(batch, 3 * process + local, 3) for local in range(3)]
        for name, expected in (("ids", batch["ids"]), (ROW_NUMBERS, numbers)):
            actual = np.concatenate([shard[name] for shard in shards])
            np.testing.assert_array_equal(actual, expected)


@given(
    rows=st.integers(1, 90),
    num_replicas=st.integers(1, 9),
    most=st.integers(1, 60),
    length=st.integers(1, 3),
)
def test_the_rows_computed_are_those_of_all_parts(rows, num_replicas, most, length):
    batch = {"ids": np.ones((rows, length), "int32")}
    max_tokens = most * length + length - 1
    counted = 0
    for replica in range(num_replicas):
        shard = shard_batch(batch, replica, num_replicas)
        count = micro_batch_count(len(shard["ids"]), length, max_tokens)
        parts, part_rows, _ = micro_batches(shard, count)["ids"].shape
        assert part_rows <= most
        # The number of extra micro-batches is limited.
        assert count < 2 * -(-len(shard["ids"]) // most)
        counted += parts * part_rows
    settings = {"num_replicas": num_replicas, "max_tokens": max_tokens}
    assert computed_rows(rows, length, **settings) == counted
    whole = computed_rows(rows, length, num_replicas=num_replicas, max_tokens=None)
    assert rows <= whole <= counted
    assert whole < rows + num_replicas


def empty_batch() -> dict[str, np.ndarray]:
    return {
        "encoder_input_tokens": np.zeros([5, 7], "int32"),
        "decoder_target_tokens": np.zeros([5, 6], "int32"),
    }


def test_other_shapes_are_named_and_refused() -> None:
    check_compiled(empty_batch(), None, "to train on")
    check_compiled(empty_batch(), [(4, 7, 6), (5, 7, 6)], "to train on")
    for other in ([], [(5, 6, 7)], [(5, 7, 7), (4, 7, 6)]):
        message = r"to evaluate must be .* compiled for. Received: \(5, 7, 6\)"
        with pytest.raises(ValueError, match=message) as error:
            check_compiled(empty_batch(), other, "to evaluate")
        assert str(sorted(other)) in str(error.value)
