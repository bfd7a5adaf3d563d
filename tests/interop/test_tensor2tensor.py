"""Imports of Tensor2Tensor's checkpoints against the NumPy reference; refusals."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.interop.formats import read_model
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.text.stored_vocabulary import load_vocabulary
from tests.interop.small_models import TOLERANCE, V, max_error, small_weights
from tests.interop.t2t_files import (
    hparams_of,
    t2t_arrays,
    write_hparams,
    write_subwords,
    write_t2t,
)
from tests.reference.weights_np import Options, Weights

PRE = Options(position_layout="halves_t2t", normalization="pre")
POST = Options(position_layout="halves_t2t")
UNTIED = Options(position_layout="halves_t2t", tie_output=False)


def convert(folder: Path, path: Path, space: int | None = None):
    imported = read_model("tensor2tensor", folder, space)
    return write_model_dir(imported, path, "tensor2tensor")


def spaces() -> np.ndarray:
    return np.random.default_rng(8).normal(size=(32, 12))


def with_space(weights: Weights, number: int) -> Weights:
    """The reference's weights with a vector that is added to each scaled source."""
    moved = weights.embedding + spaces()[number] / np.sqrt(12)
    options = dataclasses.replace(weights.options, share_embeddings=False)
    return dataclasses.replace(weights, source_embedding=moved, options=options)


@pytest.mark.parametrize("options", [PRE, POST, UNTIED], ids=["pre", "post", "untied"])
def test_logits_are_those_of_the_reference(tmp_path, options) -> None:
    weights = small_weights(options, added=(2,))
    folder = write_t2t(tmp_path / "t2t", hparams_of(weights), t2t_arrays(weights, None))
    model = convert(folder, tmp_path / "run")
    assert max_error(model, weights) < TOLERANCE
    steps = "an" if options.normalization == "post" else "a"
    write_hparams(folder, hparams_of(weights, layer_postprocess_sequence=steps))
    assert read_model("tensor2tensor", folder).model.normalization == (
        options.normalization
    )


def test_the_vector_of_the_target_space_is_added_to_sources(tmp_path) -> None:
    weights = small_weights(PRE, added=(2,))
    arrays = t2t_arrays(weights, spaces())
    folder = write_t2t(tmp_path / "t2t", hparams_of(weights), arrays)
    for number, given in ((0, None), (5, 5)):
        model = convert(folder, tmp_path / f"run-{number}", given)
        assert max_error(model, with_space(weights, number)) < TOLERANCE
    with pytest.raises(UserError, match=r"must be from 0 to 31. Received: 32"):
        convert(folder, tmp_path / "other", 32)
    with pytest.raises(UserError, match=r"--target_space_id is for --from=tensor2te"):
        read_model("marian", folder, 0)


def test_ids_files_and_settings(tmp_path, pre_norm) -> None:
    """Of several vocabularies, the one with as many subwords as the model has rows."""
    convert(pre_norm, tmp_path / "run")
    run = ModelDir(tmp_path / "run")
    entry = run.run_card()["import"]
    assert entry["original_ids"] == [0, 1, None, *range(2, V - 1)]
    assert set(entry["files"]) == {
        "hparams.json",
        "vocab.ours.subwords",
        "model.ckpt-7.index",
        "model.ckpt-7.data-00000-of-00001",
    }
    decoding = run.config().decoding
    assert (decoding.beam_size, decoding.alpha) == (4, 0.6)
    assert load_vocabulary(run.vocabulary_file).pieces([3, 18]) == ["w3_", "w18_"]
    assert load_vocabulary(run.vocabulary_file).encode("w3 w18") == [3, 18, 1]
    assert load_vocabulary(run.vocabulary_file).decode([3, 18, 1]) == "w3 w18"


@pytest.fixture(scope="module")
def pre_norm(tmp_path_factory) -> Path:
    """The folder of a pre-norm model, to be copied."""
    weights = small_weights(PRE, added=(2,))
    folder = tmp_path_factory.mktemp("t2t")
    write_t2t(folder, hparams_of(weights), t2t_arrays(weights, None))
    (folder / "checkpoint").unlink()  # it has the absolute path
    return folder


def refusals() -> tuple[tuple[dict[str, Any], str], ...]:
    """Changes of hparams.json, and the message about them."""
    return (
        ({"pos": "emb"}, "other positions.* Received: emb"),
        ({"ffn_layer": "local_moe"}, "as of MoE"),
        ({"max_relative_position": 20}, "relative positions"),
        ({"multiply_embedding_mode": "none"}, "not scaled"),
        ({"layer_postprocess_sequence": "d"}, r"steps \('n', 'd'\)"),
        ({"num_encoder_layers": 1}, "no place for: transformer/body/encoder/layer_1/"),
        ({"num_decoder_layers": 4}, "no array transformer/body/decoder/layer_3/"),
        ({"filter_size": 11}, r"\(12, 10\), and its settings say \(12, 11\)"),
        ({"num_heads": 5}, r"settings say \(12, 10\)"),
    )


@pytest.mark.parametrize("changes, message", refusals())
def test_other_architectures_are_refused(tmp_path, pre_norm, changes, message) -> None:
    folder = shutil.copytree(pre_norm, tmp_path / "t2t")
    write_hparams(folder, hparams_of(small_weights(PRE, added=(2,)), **changes))
    with pytest.raises(UserError, match=message):
        convert(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_files_are_refused(tmp_path, pre_norm) -> None:
    weights = small_weights(PRE, added=(2,))
    arrays = t2t_arrays(weights, None)
    name = (
        "transformer/body/encoder/layer_0/self_attention/multihead_attention/q/kernel"
    )
    kernels = {**arrays, name: arrays[name].reshape(12, 3, 4)}
    folder = write_t2t(tmp_path / "t2t", hparams_of(weights), kernels)
    with pytest.raises(UserError, match=r"attention kernels have 3 axes"):
        convert(folder, tmp_path / "run")
    shutil.copytree(pre_norm, folder, dirs_exist_ok=True)
    data = folder / "model.ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-90])
    with pytest.raises(UserError, match=r"model.ckpt-7 cannot be read"):
        convert(folder, tmp_path / "run")
    (folder / "vocab.ours.subwords").unlink()
    with pytest.raises(UserError, match=f"of {V - 1} subwords.*other.subwords: {V}"):
        convert(folder, tmp_path / "run")
    write_subwords(folder / "vocab.ours.subwords", ["a"] * (V - 1))
    with pytest.raises(UserError, match=r"must begin with <pad>, <EOS>"):
        convert(folder, tmp_path / "run")
    for file in folder.glob("model*"):
        file.unlink()
    with pytest.raises(UserError, match=r"must have one checkpoint.* Found: none"):
        convert(folder, tmp_path / "run")
    (folder / "hparams.json").write_text("{")
    with pytest.raises(UserError, match=r"hparams.json is damaged"):
        convert(folder, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t2t"]
