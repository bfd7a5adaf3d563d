"""The base class of settings: types, bounds and choices, the same for all classes."""

import dataclasses

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class Kitchen(Settings):
    """Settings of every type."""

    pots: int = setting(3, "Pots.", low=1, high=9)
    heat: float = setting(0.5, "Heat.", low=0)
    gas: bool = setting(False, "Gas.")
    cook: str | None = setting(None, "Cook.")
    menu: str = setting("soup", "Menu.", ("soup", "salad"))
    hours: tuple[int, ...] = setting((), "Hours.", low=1)
    from_: str | None = setting(None, "Market.")


REFUSED = (
    ({"pots": 0}, "--pots must be at least 1. Received: 0"),
    ({"pots": 10}, "--pots must be at most 9. Received: 10"),
    ({"pots": 2.5}, "--pots must be a whole number. Received: 2.5"),
    ({"pots": True}, "--pots must be a whole number. Received: True"),
    ({"pots": None}, "--pots must be a whole number. Received: None"),
    ({"heat": "hot"}, "--heat must be a number. Received: 'hot'"),
    ({"heat": np.nan}, "--heat must be a number. Received: nan"),
    ({"heat": np.inf}, "--heat must be a number. Received: inf"),
    ({"heat": -1e-9}, "--heat must be at least 0. Received: -1e-09"),
    ({"gas": 1}, "--gas must be true or false. Received: 1"),
    ({"cook": 5}, "--cook must be text. Received: 5"),
    ({"menu": "soap"}, "--menu must be one of soup, salad. Received: soap. Did you"),
    ({"hours": 5}, "--hours must be a list. Received: 5"),
    ({"hours": (8, 0)}, "--hours must be at least 1. Received: 0"),
    ({"from_": 5}, "--from must be text. Received: 5"),
)


def test_a_value_of_another_type_or_out_of_bounds_is_refused() -> None:
    for values, message in REFUSED:
        for make in (Kitchen, Kitchen().override):
            if None in values.values() and make is not Kitchen:
                continue  # it keeps the value
            with pytest.raises(UserError) as caught:
                make(**values)
            assert str(caught.value).startswith(message), values


def test_bounds_themselves_are_legal() -> None:
    kitchen = Kitchen(pots=1, heat=0, hours="1, 9")
    assert (kitchen.pots, kitchen.heat, kitchen.hours) == (1, 0.0, (1, 9))
    assert kitchen.override(pots=9, heat=None).pots == 9
