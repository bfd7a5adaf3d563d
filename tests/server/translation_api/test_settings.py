"""Settings of the API: invalid values are refused."""

import pytest

from t2t_keras.errors import UserError
from tests.server.translation_api.fake_backend import EN_DE, settings


def refused_settings():
    return (
        ({"pairs": ()}, "No model to translate with"),
        ({"pairs": EN_DE * 2}, "both translate from en to de"),
        ({"timeout_seconds": 0}, "timeout_seconds must be positive. Received: 0"),
        (
            {"body_timeout_seconds": float("nan")},
            "body_timeout_seconds must be positive",
        ),
        ({"char_limit": 0}, "char_limit must be at least 1, or -1 for no limit"),
        ({"alternatives_limit": -2}, "alternatives_limit must be at least 0, or -1"),
        ({"alignment_heads": "x"}, "LAYER:HEAD"),
    )


@pytest.mark.parametrize(("changes", "message"), refused_settings())
def test_invalid_settings(changes, message):
    with pytest.raises(UserError, match=message):
        settings(**changes)
