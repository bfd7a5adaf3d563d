"""CTranslate2 model directories: files, quantization, and refused models.

tests/system/test_ctranslate2_export.py tests their results.
"""

import json
import os

import ctranslate2
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.interop.ctranslate2.writer import (
    QUANTIZATIONS,
    Architecture,
    write_ctranslate2,
)

WIDTH, INNER, VOCABULARY, HEADS, LENGTH = 6, 10, 11, 3, 9
PIECES = ("<pad>", "</s>", "<unk>", *"▁abcdefg")


def random_weights() -> dict[str, np.ndarray]:
    """Returns weights of one layer per side, with d_k = 2 and d_v = 4."""
    generator = np.random.default_rng(0)
    kernels = {"query": (6, 6), "key": (6, 6), "value": (6, 12), "output": (12, 6)}
    shapes: dict[str, tuple[int, ...]] = {"embedding/embeddings": (VOCABULARY, WIDTH)}
    for side, attentions in (
        ("encoder", {"attention": "attention"}),
        ("decoder", {"attention": "attention", "memory": "memory_attention"}),
    ):
        layer = f"{side}/layer_0"
        for attention in attentions.values():
            for name, shape in kernels.items():
                shapes[f"{layer}/{attention}/{name}_kernel"] = shape
        for name in (*attentions, "feed_forward"):
            for part in ("gamma", "beta"):
                shapes[f"{layer}/{name}_residual/norm/{part}"] = (WIDTH,)
        dense = f"{layer}/feed_forward"
        shapes |= {f"{dense}/inner/kernel": (WIDTH, INNER)}
        shapes |= {f"{dense}/inner/bias": (INNER,)}
        shapes |= {f"{dense}/outer/kernel": (INNER, WIDTH)}
        shapes |= {f"{dense}/outer/bias": (WIDTH,)}
    return {
        path: generator.normal(size=shape).astype("float32")
        for path, shape in shapes.items()
    }


def write(directory, weights=None, length=LENGTH, pieces=(PIECES, PIECES), **settings):
    encodings = np.random.default_rng(1).normal(size=(length, WIDTH))
    return write_ctranslate2(
        random_weights() if weights is None else weights,
        encodings.astype("float32"),
        pieces,
        directory,
        architecture=Architecture(HEADS),
        **settings,
    )


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_quantization_is_written_and_used(tmp_path, quantization):
    directory = write(tmp_path / "made" / "1", quantization=quantization)
    assert directory == tmp_path / "made" / "1"
    translator = ctranslate2.Translator(str(directory))
    (result,) = translator.translate_batch([["a", "b"]], max_decoding_length=LENGTH)
    assert set(result.hypotheses[0]) <= set(PIECES)
    # There are no encodings for more positions.
    with pytest.raises(RuntimeError, match="position"):
        translator.translate_batch([["a"] * LENGTH])


def test_the_files_of_a_model(tmp_path):
    directory = write(tmp_path / "1", files={"vocabulary.model": b"bytes\0"})
    assert {path.name for path in directory.iterdir()} == {
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "vocabulary.model",
    }
    config = json.loads((directory / "config.json").read_text())
    assert config["layer_norm_epsilon"] == 1e-6
    assert config["add_source_eos"]
    assert not config["add_source_bos"]
    assert config["decoder_start_token"] == "<pad>"
    assert (directory / "vocabulary.model").read_bytes() == b"bytes\0"
    vocabulary = json.loads((directory / "shared_vocabulary.json").read_text())
    assert tuple(vocabulary) == PIECES


def test_each_language_has_its_own_pieces(tmp_path):
    targets = (*PIECES[:3], *"▁tuvwxyz")
    directory = write(tmp_path / "1", pieces=(PIECES, targets))
    translator = ctranslate2.Translator(str(directory))
    (result,) = translator.translate_batch([["a", "b"]], max_decoding_length=LENGTH)
    assert result.hypotheses[0] and set(result.hypotheses[0]) <= set(targets)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(UserError, match=r"1 exists already\. Give a folder"):
        write(tmp_path / "1")
    assert os.listdir(tmp_path / "1") == []


def test_an_unknown_quantization_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"one of float32, .*Received: int3"):
        write(tmp_path / "1", quantization="int3")
    assert os.listdir(tmp_path) == []


def test_a_model_with_nan_is_refused(tmp_path):
    weights = random_weights()
    weights["decoder/layer_0/feed_forward/outer/bias"][3] = np.nan
    with pytest.raises(UserError, match=r"must be finite\. Received: nan"):
        write(tmp_path / "1", weights)
    assert os.listdir(tmp_path) == []


def test_a_model_that_ctranslate2_refuses_is_not_kept(tmp_path):
    with pytest.raises(UserError, match=r"CTranslate2 cannot translate .*position"):
        write(tmp_path / "1", length=1)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_created_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write(tmp_path / "file" / "1")
