"""Exports to Marian, computed by Marian itself: pymarian of the release tier."""

import dataclasses
import re
import subprocess
import sys
from types import MappingProxyType

import numpy as np
import pytest

from benchmarks.imports.marian import ask_marian, word_score_errors
from t2t_keras.interop.formats import read_model
from t2t_keras.runs import translators
from t2t_keras.runs.export.marian import export_marian
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.settings.decoding_config import DecodingConfig
from tests.forked import REPOSITORY
from tests.runs.random_model import (
    as_trained_model,
    random_lines,
    random_model,
    random_vocabulary,
)

# Marian prints five digits.
TOLERANCE = 1e-4
SEARCH = DecodingConfig(beam_size=6, length_penalty="power", alpha=1.0)
SIZES = MappingProxyType({"d_model": 24, "num_layers": 2})
MODELS = (
    MappingProxyType({}),
    MappingProxyType(
        {
            "position_layout": "halves_t2t",
            "activation": "swish",
            "attention_bias": True,
            "encoder_layers": 3,
        }
    ),
    MappingProxyType(
        {"normalization": "pre", "share_embeddings": False, "output_bias": True}
    ),
    MappingProxyType(
        {
            "tie_output": False,
            "decoder_start": "<unk>",
            "layer_norm_epsilon": 1e-3,
            "position_layout": "halves",
            "first_position": 2,
            "activation": "swish",
        }
    ),
    MappingProxyType(
        {"learned_positions": 90, "normalization": "pre", "tie_output": False}
    ),
)


@pytest.mark.release
@pytest.mark.parametrize("options", MODELS, ids=["", "classic", "pre", "untied", "own"])
def test_marian_computes_the_same_word_scores(tmp_path, options) -> None:
    vocabulary = random_vocabulary()
    model = random_model(vocabulary, **{**SIZES, **options})
    trained = as_trained_model(model, vocabulary)
    folder = export_marian(trained, tmp_path / "export", SEARCH)
    lines = random_lines(12, seed=3)
    found = ask_marian(sys.executable, folder, lines, tmp_path)["beam"]
    scored = [(line, x) for line, each in zip(lines, found, strict=True) for x in each]
    assert len(scored) > 60
    assert word_score_errors(trained, scored).max() < TOLERANCE
    # And so does the model that is imported again.
    model = write_model_dir(read_model("marian", folder), tmp_path / "run", "marian")
    tokens = np.random.default_rng(4).integers(1, vocabulary.size, size=(3, 9))
    batch = {"encoder_input_tokens": tokens, "decoder_input_tokens": tokens[:, ::-1]}
    np.testing.assert_allclose(model(batch), trained.model(batch), atol=TOLERANCE)


@pytest.mark.release
def test_marian_translates_as_the_search_here(tmp_path, reverse_run, trained) -> None:
    folder = export_marian(trained, tmp_path / "export", SEARCH)
    lines = [source for source, _ in reverse_run.held_out[:200]]
    found = ask_marian(sys.executable, folder, lines, tmp_path)["greedy"]
    search = dataclasses.replace(SEARCH, beam_size=1)
    ours = translators.text_translator(trained, search).translate(lines)
    assert [line.text for line in ours] == [each[0]["text"] for each in found]
    # As the page says, with the settings of decoder.yml.
    page = (REPOSITORY / "docs/marian.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = program.replace("runs/tiny/export_marian/1", str(folder))
    program = program.replace("The old woman reads a book.", lines[0])
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == f"{[found[0][0]['text']]}\n"
