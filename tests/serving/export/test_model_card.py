"""Model card: hashes of files, described signatures, readable text."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.export.model_card import write_model_card
from t2t_keras.serving.export.requests import Request, write_warm_up

FACTS: Mapping[str, Any] = MappingProxyType(
    {
        "name": "toy",
        "languages": {"source": "en", "target": "de"},
        "source": {
            "checkpoint": "averaged/step-7",
            "step": 1007,
            "averaged": [5, 6, 7],
        },
        "model": {"parameters": 1266, "num_layers": 2, "precision": "float32"},
        "decoding": {"beam_size": 4, "alpha": 0.5},
        "limits": {"source_length": 12, "characters": None},
        "xla": False,
        "scores": {"test averaged/step-7": {"bleu": 12.345, "chrf": 45.6}},
        "versions": {"tensorflow": "2.21.0"},
    }
)


@pytest.fixture
def version(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "1")
    return tmp_path / "1"


def test_every_file_is_listed_with_its_hash(version):
    (version / "assets.extra").mkdir()
    (version / "assets.extra/more").write_bytes(b"more")
    write_model_card(version, FACTS)
    card = json.loads((version / "model_card.json").read_text())
    assert {name: card[name] for name in FACTS} == dict(FACTS)
    assert "variables/variables.index" in card["files"]
    assert card["files"]["assets.extra/more"] == hashlib.sha256(b"more").hexdigest()
    graph = (version / "saved_model.pb").read_bytes()
    assert card["files"]["saved_model.pb"] == hashlib.sha256(graph).hexdigest()
    assert card["ops_beside_tensorflow"] == [
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
    ]
    assert card["tested_with"].startswith(f"TensorFlow {tf.__version__}, in a session")
    assert str(version.parent) not in json.dumps(card)


def test_signatures_are_described_as_saved(version):
    write_model_card(version, FACTS)
    signatures = json.loads((version / "model_card.json").read_text())["signatures"]
    assert signatures["serving_default"]["inputs"] == {
        "text": {"dtype": "string", "shape": [-1]}
    }
    assert signatures["nbest"]["outputs"]["scores"] == {
        "dtype": "float32",
        "shape": [-1, 3],
    }
    options = signatures["translate_with_options"]
    assert options["defaults"] == {"alpha": 0.5, "beam_size": 4, "max_length": 15}
    assert options["inputs"]["alpha"] == {"dtype": "float32", "shape": None}


def test_the_readable_card(version):
    write_model_card(version, FACTS)
    text = (version / "model_card.md").read_text()
    assert (
        "from en to de, checkpoint averaged/step-7 (step 1,007, the average of 3)"
        in text
    )
    assert "1,266 parameters" in text
    assert "| test averaged/step-7 | 12.35 | 45.60 |  |" in text
    assert "| nbest | text | lengths, scores, translations, truncated |" in text
    write_model_card(version, {**FACTS, "scores": {}, "xla": True})
    again = (version / "model_card.md").read_text()
    assert "It has not been scored." in again
    assert "compiled by XLA" in again


def warm_up(version, names):
    """Writes requests to these signatures, and the card."""
    text = np.array([b"a"], dtype=object)
    write_warm_up(version, [Request(name, {"text": text}) for name in names])
    write_model_card(version, FACTS)
    card = json.loads((version / "model_card.json").read_text())
    return card, (version / "model_card.md").read_text()


def test_the_card_lists_what_is_warmed_up(version):
    card, text = warm_up(version, [])
    assert card["warm_up"] == []
    names = ", ".join(card["signatures"])
    assert f"\n\nThe first call is slow of {names}.\n\n" in text
    card, text = warm_up(version, ["serving_default", "nbest", "serving_default"])
    assert card["warm_up"] == ["serving_default", "nbest"]
    assert (
        "\n\nWhile it loads, a server warms up serving_default, nbest. The first call "
        "is slow of attention, score, translate_ids, translate_with_options.\n\n"
    ) in text
    card, text = warm_up(version, [*card["signatures"]])
    assert card["warm_up"] == [*card["signatures"]]
    assert f"a server warms up {names}.\n\n" in text
    assert "The first call is slow" not in text
