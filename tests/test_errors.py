"""The exception for the person at the keyboard."""

import pytest

from t2t_keras.errors import UserError


def test_a_library_caller_can_catch_it_as_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"^give another$") as caught:
        raise UserError("give another")
    assert type(caught.value) is UserError
