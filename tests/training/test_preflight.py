"""Before step 1: every shape tried, and what does not fit said with what would."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.preflight import preflight


class SmallDevice:
    """A stepper that has room for so many positions of a side on each device."""

    def __init__(self, room: int, num_replicas: int = 1):
        self.room = room
        self.num_local_replicas = num_replicas
        self.rehearsed = []
        self.evaluated = []
        self.allowed = None

    def evaluate(self, batch):
        self.evaluated.append(batch["encoder_input_tokens"].shape)

    def rehearse(self, batch):
        rows, length = batch["encoder_input_tokens"].shape
        self.rehearsed.append((rows, length))
        if -(-rows // self.num_local_replicas) * length > self.room:
            raise tf.errors.ResourceExhaustedError(None, None, "no room")

    def allow_only(self, to_train, to_evaluate):
        self.allowed = to_train, to_evaluate


def batch_of(rows: int, source: int, target: int) -> dict[str, np.ndarray]:
    return {
        "encoder_input_tokens": np.zeros([rows, source], "int32"),
        "decoder_target_tokens": np.zeros([rows, target], "int32"),
    }


def test_every_shape_is_tried_and_said() -> None:
    stepper, said = SmallDevice(room=100), []
    batches = [batch_of(5, 20, 17), batch_of(9, 8, 11)]
    preflight(stepper, batches, [batch_of(4, 9, 7)], said.append, only_these=True)
    assert stepper.rehearsed == [(5, 20), (9, 8)]
    assert stepper.evaluated == [(4, 9)]
    assert stepper.allowed == ([(5, 20, 17), (9, 8, 11)], [(4, 9, 7)])
    assert said[0].startswith("  5 x (20 + 17) tokens: ")
    assert said[0].endswith(" GB")
    assert "peak memory 0.00" not in said[0]
    assert said[2].startswith("  4 x (9 + 7) tokens to evaluate: ")
    assert said[3].startswith(
        "2 shapes to train on and 1 to evaluate on compiled and tried in "
    )


def test_other_shapes_stay_allowed_if_nothing_is_compiled() -> None:
    stepper = SmallDevice(room=100)
    preflight(stepper, [batch_of(5, 20, 17)], [], [].append, only_these=False)
    assert stepper.allowed is None


@pytest.mark.parametrize(
    ("room", "replicas", "rows", "tokens"),
    [(100, 1, 2, 60), (59, 1, 1, 30), (100, 2, 5, 90), (30, 1, 1, 30)],
)
def test_what_would_fit_is_named(room, replicas, rows, tokens) -> None:
    """Of 11 rows 5, 2 and 1 are tried; on two devices 5 rows are 3 on the first."""
    stepper = SmallDevice(room, replicas)
    message = (
        rf"A batch of 11 x \(30 \+ 20\) tokens needs more memory than there is. {rows} "
        rf"rows of it fit: give --max_tokens_per_replica={tokens},"
    )
    with pytest.raises(UserError, match=message):
        preflight(stepper, [batch_of(11, 30, 20)], [], [].append, only_these=True)
    # The setting is of one device, and must hold what was tried there.
    assert tokens <= room


def test_nothing_would_fit() -> None:
    with pytest.raises(UserError, match=r"so does a single row of it. Lower --max_len"):
        preflight(
            SmallDevice(29), [batch_of(11, 30, 20)], [], [].append, only_these=True
        )


def test_where_others_wait_nothing_smaller_is_tried() -> None:
    """11 rows are 6 on the first of two devices; half of them are 3 of 30 tokens."""
    stepper = SmallDevice(room=100, num_replicas=2)
    message = (
        r"A batch of 11 x \(30 \+ 20\) tokens needs more memory than this worker has. "
        r".* --max_tokens_per_replica=90, or half of what it is"
    )
    with pytest.raises(UserError, match=message):
        preflight(
            stepper,
            [batch_of(11, 30, 20)],
            [],
            [].append,
            only_these=True,
            together=True,
        )
    assert stepper.rehearsed == [(11, 30)]


def test_a_shape_to_evaluate_that_does_not_fit_is_named_too(monkeypatch) -> None:
    stepper = SmallDevice(room=100)
    monkeypatch.setattr(stepper, "evaluate", stepper.rehearse)
    message = (
        r"of 7 x \(30 \+ 9\) tokens to evaluate needs more .* 3 rows of it fit: .*=90, "
        "and the same evaluation"
    )
    with pytest.raises(UserError, match=message):
        preflight(stepper, [], [batch_of(7, 30, 9)], [].append, only_these=True)
