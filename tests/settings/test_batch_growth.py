"""Growth of the batch, compared with a list of the updates of all batches."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.settings.batch_growth import BatchGrowth
from t2t_keras.settings.data_config import DataConfig

_UPDATES = 60


@st.composite
def _changes(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(updates before it, batches of an update) of some phases after the first."""
    steps = draw(st.lists(st.integers(1, 40), max_size=4, unique=True))
    return [(step, draw(st.integers(1, 7))) for step in sorted(steps)]


@given(_changes(), st.integers(2, 99))
def test_each_batch_belongs_to_one_update(changes, tokens) -> None:
    items = [f"{step}:{count * tokens}" for step, count in changes]
    growth = BatchGrowth.parse(items, tokens)
    updates: list[int] = []  # the update of each batch
    for step in range(1, _UPDATES + 1):
        count = dict([(0, 1), *changes])[max([0, *(s for s, _ in changes if s < step)])]
        assert growth.batches(step) == count
        assert growth.batches_before(step) == len(updates)
        updates += [step] * count
    assert growth.has_several == any(count > 1 for _, count in changes)
    assert growth.updates(0) == 0
    for number, step in enumerate(updates, start=1):
        assert growth.updates(number) == step


def test_what_is_no_growth_is_refused() -> None:
    for item, message in (
        ("2000", "must be UPDATES:TOKENS, .*Received: 2000"),
        ("2000:", "must be UPDATES:TOKENS"),
        ("-1:600", "must be UPDATES:TOKENS"),
        ("5:500", "multiple of --tokens_per_batch=300, .*Received: 5:500"),
        ("5:0", "multiple of --tokens_per_batch=300"),
        ("5:307500", "at most 1024 times as many"),
        ("0:600", "must rise, from 1"),
        ("5:600,5:900", "must rise, from 1. Received: 5:600,5:900"),
    ):
        with pytest.raises(UserError, match=message):
            DataConfig(tokens_per_batch=300, tokens_per_batch_steps=item.split(","))
            pytest.fail(f"{item} was taken")
    largest = {"tokens_per_batch": 2**20, "tokens_per_batch_steps": (f"5:{2**21}",)}
    assert DataConfig(**largest).batch_growth().batches(6) == 2
    with pytest.raises(UserError, match=re.escape(f"at most {2**20}. Received: 10485")):
        DataConfig(**{**largest, "tokens_per_batch": 2**20 + 1})
