"""matplotlib is hidden while Keras is imported, and found afterwards."""

import importlib
import sys

import pytest

from t2t_keras.files.keras_import import matplotlib_hidden


def test_matplotlib_is_hidden_in_the_block_alone(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    with matplotlib_hidden():
        with pytest.raises(ImportError):
            importlib.import_module("matplotlib")
    assert importlib.import_module("matplotlib").__version__
    assert "matplotlib" in sys.modules
    with matplotlib_hidden():
        assert importlib.import_module("matplotlib").__version__
