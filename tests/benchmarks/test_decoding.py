"""Benchmark of decoding: our program does the work of CTranslate2."""

import os
import subprocess
import sys

import ctranslate2
import numpy as np
import pytest

from benchmarks.decoding import export_ours, measured, ours, write

# A model that takes two seconds instead of minutes. All sizes differ.
SMALL = (
    ("VOCABULARY", 67),
    ("LAYERS", 2),
    ("WIDTH", 24),
    ("INNER", 40),
    ("HEADS", 3),
)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Folder of a small model, as written by `write`."""
    for name, size in SMALL:
        monkeypatch.setattr(measured, name, size)
    monkeypatch.setattr("sys.argv", ["write", f"--model={tmp_path}"])
    write.main()
    return tmp_path


def by_ctranslate2(folder, sentences):
    translator = ctranslate2.Translator(str(folder / "ctranslate2_float32"))
    found = translator.translate_batch(
        [list(map(str, sentence)) for sentence in sentences],
        beam_size=measured.BEAM,
        length_penalty=measured.ALPHA,
        max_decoding_length=measured.LENGTH,
        min_decoding_length=measured.LENGTH,
    )
    return [[int(piece) for piece in one.hypotheses[0]] for one in found]


@pytest.mark.slow
def test_ours_finds_what_ctranslate2_finds(small, monkeypatch):
    monkeypatch.setattr("sys.argv", ["export", f"--to={small}/saved"])
    export_ours.main()
    sentences = measured.sentences(9)
    expected = by_ctranslate2(small, sentences)
    with ours.open_translator(f"{small}/saved", threads=1, at_once=1) as translate:
        found = translate(sentences)
    assert {len(ids) for ids in found} == {measured.LENGTH}
    # Our search must end at the limit, which can change the best hypothesis.
    assert sum(a[:18] == b[:18] for a, b in zip(found, expected, strict=True)) >= 8
    assert len({tuple(ids) for ids in found}) > 3
    for ids in found:
        assert ids[-1] == measured.EOS
        assert not {0, measured.EOS} & set(ids[:-1])


# The quantized product has a kernel with oneDNN only, which a process has or has not.
_INT8 = """
import sys
import keras, numpy as np, tensorflow as tf
from benchmarks.decoding import int8
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.model.transformer import Transformer

keras.utils.set_random_seed(1)
random = np.random.default_rng(0)
inputs = random.normal(size=(3, 5, 23)).astype("float32") * [[[9.0]], [[0.1]], [[1.0]]]
inputs[1, 2] = 0.0
weights = random.uniform(0.0, 1.0, (23, 41)).astype("float32")
weights[:, 3] = 0.0
kernel = int8.QuantizedKernel(weights)
product = tf.function(kernel.multiply)(tf.constant(inputs, tf.float32))
sizes = {"d_model": 24, "num_heads": 3, "d_k": 7, "d_v": 5, "d_ff": 40}
model = Transformer(67, encoder_layers=2, decoder_layers=2, **sizes)
source = tf.constant([[5, 9, 66, 1, 0, 0], [7, 12, 33, 41, 8, 1], [1, 0, 0, 0, 0, 0]])
settings, scores = BeamSearchSettings(beam_size=3, alpha=0.6), []
for each in (model, int8.quantized(model)):
    search = tf.function(lambda ids: search_translations(each, ids, settings, 4))
    scores.append(search(source).log_probs[:, 0])
np.savez(sys.argv[1], inputs=inputs, weights=weights, product=product, scores=scores)
"""


@pytest.mark.slow
def test_int8_products_are_those_of_integers(tmp_path):
    result = tmp_path / "result.npz"
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}
    command = [sys.executable, "-c", _INT8, str(result)]
    subprocess.run(command, env=environment, check=True)
    found = np.load(result)
    inputs, weights = (found[name].astype("float64") for name in ("inputs", "weights"))
    step = np.maximum(np.abs(inputs).max(axis=2, keepdims=True), 1e-30) / 127
    scale = np.maximum(np.abs(weights).max(axis=0), 1e-30) / 64
    expected = np.round(inputs / step) @ np.round(weights / scale) * step * scale
    # Rounding may take another side, in float32, of one input or weight among many.
    error = np.abs(found["product"] - expected) / (step * scale * 127)
    assert error.max() < 1.01
    assert np.median(error) < 1e-4
    floats, integers = found["scores"]
    np.testing.assert_allclose(integers, floats, rtol=0.05)
