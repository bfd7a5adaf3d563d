"""Memory check before step 1: every shape is tried; errors name a budget that fits."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.training.preflight import compile_if_new, preflight
from t2t_keras.training.step import micro_batch_count


class SmallDevice:
    """Fake stepper with memory for `room` positions of a side on each device.

    Accumulating gradients over several micro-batches costs `kept` positions.
    """

    def __init__(
        self,
        room: int,
        num_replicas: int = 1,
        max_tokens: int | None = None,
        kept: int = 0,
    ):
        self.room = room
        self.kept = kept
        self.max_tokens = max_tokens
        self.num_local_replicas = num_replicas
        self.compiled = []
        self.updates = []
        self.evaluated = []
        self.allowed = None

    def evaluate(self, batch, max_tokens=None):
        self.evaluated.append(batch["encoder_input_tokens"].shape)

    def compile_step(self, batch, *more, max_tokens=None):
        self.updates.append(1 + len(more))
        rows, length = batch["encoder_input_tokens"].shape
        if "alignment" in batch:
            target_length = batch["decoder_target_tokens"].shape[1]
            assert batch["alignment"].shape == (rows, target_length, length)
        self.compiled.append((rows, length))
        if not self.has_room(rows, length, max_tokens or self.max_tokens):
            raise tf.errors.ResourceExhaustedError(None, None, "no room")

    def has_room(self, rows: int, length: int, max_tokens: int | None) -> bool:
        shard_rows = -(-rows // self.num_local_replicas)
        parts = micro_batch_count(shard_rows, length, max_tokens)
        kept = self.kept if parts > 1 else 0
        return -(-shard_rows // parts) * length + kept <= self.room

    def allow_only(self, to_train, to_evaluate):
        self.allowed = to_train, to_evaluate

    def must_compile(self, batches):
        return batches[0]["encoder_input_tokens"].shape not in self.compiled


def zero_batch(rows: int, source: int, target: int) -> dict[str, np.ndarray]:
    return {
        "encoder_input_tokens": np.zeros([rows, source], "int32"),
        "decoder_target_tokens": np.zeros([rows, target], "int32"),
    }


def test_every_shape_is_tried_and_logged() -> None:
    stepper, said = SmallDevice(room=100), []
    batches = [zero_batch(5, 20, 17), zero_batch(9, 8, 11)]
    with log_to(said.append):
        preflight(stepper, batches, [zero_batch(4, 9, 7)], only_these=True)
    assert stepper.compiled == [(5, 20), (9, 8)]
    assert stepper.evaluated == [(4, 9)]
    assert stepper.allowed == ([(5, 20, 17), (9, 8, 11)], [(4, 9, 7)])
    assert said.pop(0) == "compiling …"
    assert said[0].startswith("  5 x (20 + 17) tokens: ")
    assert said[0].endswith(" GB")
    assert "peak memory 0.00" not in said[0]
    assert said[2].startswith("  4 x (9 + 7) tokens to evaluate: ")
    assert said[3].startswith(
        "compiled and tried 2 training and 1 evaluation shape in "
    )


def test_a_shape_is_compiled_once_when_its_first_batch_comes() -> None:
    stepper, said = SmallDevice(room=100), []
    with log_to(said.append):
        for rows in (5, 9, 5, 9):
            compile_if_new(stepper, [zero_batch(rows, 8, 11)])
        with pytest.raises(UserError, match="6 rows fit"):
            compile_if_new(stepper, [zero_batch(7, 16, 11)])
    assert stepper.compiled[:2] == [(5, 8), (9, 8)]
    assert [line.split(":")[0] for line in said] == [
        "  5 x (8 + 11) tokens",
        "  9 x (8 + 11) tokens",
    ]


def test_other_shapes_stay_allowed_if_nothing_is_compiled() -> None:
    stepper = SmallDevice(room=100)
    preflight(stepper, [zero_batch(5, 20, 17)], [], only_these=False)
    assert stepper.allowed is None


def test_updates_on_several_batches_are_tried_too() -> None:
    stepper, said = SmallDevice(room=100), []
    batch = zero_batch(5, 20, 17)
    more = {"several": [[batch] * 2, [batch] * 4], "only_these": True}
    with log_to(said.append):
        preflight(stepper, [batch], [], **more)
    assert stepper.updates == [1, 2, 4]
    assert stepper.allowed == ([(5, 20, 17)], [])
    assert said[2].startswith("  2 batches of 5 x (20 + 17) tokens: ")


def test_what_would_fit_is_named() -> None:
    """On two devices, 6 of 11 rows are on the first."""
    for room, replicas, rows, tokens in (
        (100, 1, 3, 90),
        (59, 1, 1, 30),
        (100, 2, 3, 90),
        (30, 1, 1, 30),
    ):
        stepper = SmallDevice(room, replicas)
        message = (
            r"A batch of 11 x \(30 \+ 20\) tokens needs more memory than there is. "
            rf"{rows} rows fit. Set --max_tokens_per_replica={tokens} for the same "
            "update with gradient accumulation"
        )
        with pytest.raises(UserError, match=message):
            preflight(stepper, [zero_batch(11, 30, 20)], [], only_these=True)
            pytest.fail(f"{(room, replicas)} fits")
        # The setting limits one device, and must hold the rows that were tried there.
        assert tokens <= room, (room, replicas)


def proposed_budget(stepper: SmallDevice, rows: int, length: int) -> int | None:
    """Budget in tokens that the error proposes, or None if nothing fits."""
    with pytest.raises(UserError) as caught:
        preflight(stepper, [zero_batch(rows, length, 1)], [], only_these=True)
    match = re.search(r"--max_tokens_per_replica=(\d+)", str(caught.value))
    return int(match[1]) if match else None


BUDGETS = (
    # 15 rows of 10 fail in micro-batches of 5. Half of all rows would be tried in
    # micro-batches of 4, which fit: that would give 70, more than the failed limit.
    (15, 45, 60, 0, 40),
    # Nearly everything fits; by halving alone the budget would be 50.
    (11, 105, None, 0, 100),
    # The additional memory of accumulation is accounted for.
    (16, 85, None, 10, 70),
)


def test_the_largest_budget_that_fits_is_found() -> None:
    for rows, room, max_tokens, kept, tokens in BUDGETS:
        stepper = SmallDevice(room, max_tokens=max_tokens, kept=kept)
        assert proposed_budget(stepper, rows, 10) == tokens, (rows, room)


@given(
    rows=st.integers(2, 60),
    length=st.integers(1, 9),
    replicas=st.integers(1, 3),
    share=st.floats(0.0, 0.999),
    limit=st.none() | st.integers(1, 200),
    kept=st.integers(0, 30),
)
def test_it_holds_and_a_row_more_would_not(
    rows, length, replicas, share, limit, kept
) -> None:
    stepper = SmallDevice(0, replicas, limit, kept)
    each = -(-rows // replicas)
    part = -(-each // micro_batch_count(each, length, limit))
    stepper.room = int(share * part * length)
    budget = proposed_budget(stepper, rows, length) or 0
    fit = max(stepper.room - kept, 0) // length
    assert budget == min(fit, part - 1) * length
    if budget:
        assert stepper.has_room(rows, length, budget)
    # Few are tried, because each takes a compilation.
    assert len(stepper.compiled) <= 1 + part.bit_length()


@pytest.mark.parametrize(
    ("rows", "multi_worker", "message"),
    [
        (11, False, "so does a single row of it. Lower --max_len"),
        (1, True, "nothing smaller was tried. Lower --max_len"),
    ],
)
def test_nothing_would_fit(rows, multi_worker, message) -> None:
    links = {"alignment": np.zeros([rows, 20, 30], "uint8")}
    batches, more = [{**zero_batch(rows, 30, 20), **links}], {"only_these": True}
    with pytest.raises(UserError, match=message):
        preflight(SmallDevice(29), batches, [], multi_worker=multi_worker, **more)


def test_where_others_wait_nothing_smaller_is_tried() -> None:
    """On two devices, 6 of 11 rows are on the first; half of these is 3 x 30 tokens."""
    stepper = SmallDevice(room=100, num_replicas=2)
    message = (
        r"A batch of 11 x \(30 \+ 20\) tokens needs more memory than this worker has. "
        r".* --max_tokens_per_replica=90\."
    )
    with pytest.raises(UserError, match=message):
        preflight(
            stepper,
            [zero_batch(11, 30, 20)],
            [],
            only_these=True,
            multi_worker=True,
        )
    assert stepper.compiled == [(11, 30)]


def test_a_shape_to_evaluate_that_does_not_fit_is_named_too(monkeypatch) -> None:
    stepper = SmallDevice(room=100)
    monkeypatch.setattr(stepper, "evaluate", stepper.compile_step)
    message = (
        r"of 7 x \(30 \+ 9\) tokens to evaluate needs more .* 3 rows fit\. .*=90 "
        "for the same evaluation"
    )
    with pytest.raises(UserError, match=message):
        preflight(stepper, [], [zero_batch(7, 30, 9)], only_these=True)
