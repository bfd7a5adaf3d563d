"""API keys from a file that may change."""

import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.translation_api.api_keys import ApiKeyFile, read_keys


def test_keys_and_their_limits(tmp_path):
    path = tmp_path / "keys"
    text = "\ufeffalpha\r\n\n# ours\n  beta 120  # of Anna\ngamma -1\nde#lta # x 5\n"
    path.write_text(text, "utf-8")
    keys = ApiKeyFile(str(path))
    limits = {
        name: (found.requests_per_minute if (found := keys.find(name)) else "none")
        for name in ("alpha", "beta", "gamma", "de#lta", "ours", "#", "", "alph", "120")
    }
    assert limits == {
        "alpha": None,
        "beta": 120,
        "gamma": -1,
        "de#lta": None,
        "ours": "none",
        "#": "none",
        "": "none",
        "alph": "none",
        "120": "none",
    }


def test_malformed_files_are_refused(tmp_path):
    path = tmp_path / "keys"
    for text, message in (
        ("secret 5 6", "Line 1 of .* must be a key.*Received: 3 words"),
        ("a\nsecret x", "Line 2 of .* must be a key"),
        ("secret 0", "positive number"),
        ("secret -5", "positive number"),
        ("a\nsecret\nsecret 5", "Line 3 of .* repeats a key"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message) as raised:
            read_keys(str(path))
        assert "secret" not in str(raised.value)
    path.write_bytes(b"\xff")
    for each in (path, tmp_path / "none", tmp_path):
        with pytest.raises(UserError, match="cannot be read as UTF-8"):
            ApiKeyFile(str(each))


def test_a_change_takes_effect_and_a_faulty_one_does_not(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_text("old\n")
    keys = ApiKeyFile(str(path))
    assert keys.find("old")
    replaced = tmp_path / "new"
    replaced.write_text("new\n")
    os.replace(replaced, path)
    assert not keys.find("old")
    assert keys.find("new")
    path.write_text("new\nother x\n")
    assert keys.find("new")
    assert "The keys before the change stay valid" in caplog.text
    path.unlink()
    assert keys.find("new")
    path.write_text("third\n")
    assert keys.find("third")
    assert not keys.find("new")
