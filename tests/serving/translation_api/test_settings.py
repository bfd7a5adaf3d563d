"""Settings of the API: invalid values are refused; its page names existing flags."""

import re
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.server.settings import ServerSettings
from t2t_keras.serving.translation_api.flags import API_FLAGS
from tests.serving.translation_api.fake_backend import EN_DE, settings


def refused_settings():
    return (
        ({"pairs": ()}, "No model to translate with"),
        ({"pairs": EN_DE * 2}, "both translate from en to de"),
        ({"batch_size": 0}, "batch_size must be at least 1. Received: 0"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"max_body_bytes": 0}, "max_body_bytes must be at least 1"),
        ({"max_waiting": -1}, "max_waiting must be at least 0"),
        ({"retries": -1}, "retries must be at least 0"),
        (
            {"port": 65536},
            "translation_api_port must be from 0 to 65535. Received: 65536",
        ),
        ({"timeout_seconds": 0}, "timeout_seconds must be positive. Received: 0"),
        (
            {"body_timeout_seconds": float("nan")},
            "body_timeout_seconds must be positive",
        ),
        ({"char_limit": 0}, "char_limit must be at least 1, or -1 for no limit"),
        ({"batch_limit": -2}, "batch_limit must be at least 1, or -1"),
        ({"alternatives_limit": -2}, "alternatives_limit must be at least 0, or -1"),
        ({"requests_per_minute": 0}, "requests_per_minute must be at least 1, or -1"),
        ({"alignment_heads": "x"}, "LAYER:HEAD"),
    )


@pytest.mark.parametrize(("changes", "message"), refused_settings())
def test_invalid_settings(changes, message):
    with pytest.raises(UserError, match=message):
        settings(**changes)


def test_the_smallest_valid_settings():
    settings(
        batch_size=1,
        threads=1,
        max_waiting=0,
        retries=0,
        port=0,
        char_limit=1,
        alternatives_limit=0,
        requests_per_minute=1,
        alignment_heads="1:2,3",
    )


def test_the_page_names_existing_flags():
    page = Path(__file__).parents[3] / "docs/translation_api.md"
    named = set(re.findall(r"`--([a-z_]+)", page.read_text()))
    own = {"server", "translation_api_port", "language_pairs"}
    exports = {"n_best", "max_attention_length"}
    known = own.union(API_FLAGS, vars(ServerSettings), exports)
    assert len(named) > 12
    assert named - known <= {f"no{name}" for name in API_FLAGS}
