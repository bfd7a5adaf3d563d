"""Table cells: numbers, powers of ten, spreads and search settings as text."""

from collections.abc import Mapping
from typing import Any

from t2t_keras.reports.blocks import Cell, Missing
from t2t_keras.reports.seed_statistics import Spread
from t2t_keras.settings.decoding_config import DecodingConfig


def as_number(value: float | None, digits: int, why: str = "not run") -> Cell:
    """Returns a figure with a number of digits after the point.

    >>> as_number(4.9161, 2), as_number(None, 2)
    ('4.92', Missing(why='not run'))
    """
    return Missing(why) if value is None else f"{value:,.{digits}f}"


def as_power(value: float | None, why: str = "not run") -> Cell:
    """Returns a large figure as the paper writes costs.

    >>> as_power(3.2832e18), as_power(9.99e19), as_power(0)
    ('3.3·10¹⁸', '1.0·10²⁰', '0')
    """
    if value is None:
        return Missing(why)
    if not value:
        return "0"
    digits, _, power = f"{value:.1e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}·10{raised}"


def as_spread(spread: Spread | None, digits: int, why: str = "not run") -> Cell:
    """Returns a mean and its standard deviation.

    >>> as_spread(Spread(30.123, 0.456, 3), 2), as_spread(Spread(7.0, None, 1), 1)
    ('30.12 ± 0.46', '7.0')
    """
    if spread is None:
        return Missing(why)
    mean = f"{spread.mean:,.{digits}f}"
    return mean if spread.sd is None else f"{mean} ± {spread.sd:.{digits}f}"


def as_search(decoding: Mapping[str, Any] | None) -> Cell:
    """Returns the beam search that made a score, as its record has it.

    >>> as_search({"beam_size": 4, "alpha": 0.6})
    'beam 4, alpha 0.6'
    >>> as_search({"beam_size": 8, "alpha": 1.0, "length_penalty": "power"})
    'beam 8, alpha 1, length_penalty power'
    """
    if not decoding:
        return Missing()
    return DecodingConfig(**decoding).describe()
