"""Which shape a batch has, and which it must have."""

import numpy as np
import pytest

from t2t_keras.training.shares import check_compiled, shape_of


def batch() -> dict[str, np.ndarray]:
    return {
        "encoder_input_tokens": np.zeros([5, 7], "int32"),
        "decoder_target_tokens": np.zeros([5, 6], "int32"),
    }


def test_both_lengths_belong_to_a_shape() -> None:
    assert shape_of(batch()) == (5, 7, 6)


def test_other_shapes_are_named_and_refused() -> None:
    check_compiled(batch(), None, "to train on")
    check_compiled(batch(), [(4, 7, 6), (5, 7, 6)], "to train on")
    for other in ([], [(5, 6, 7)], [(5, 7, 7), (4, 7, 6)]):
        message = r"to evaluate must be .* compiled before .* Received: \(5, 7, 6\)"
        with pytest.raises(ValueError, match=message) as error:
            check_compiled(batch(), other, "to evaluate")
        assert str(sorted(other)) in str(error.value)
