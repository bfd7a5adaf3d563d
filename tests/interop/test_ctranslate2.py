"""Imports of CTranslate2's models against the NumPy reference; refusals."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.interop.formats import read_model
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.text.stored_vocabulary import load_vocabulary
from tests.interop.ctranslate2_files import (
    variables_of,
    vocabulary,
    write_binary,
    write_ctranslate2,
)
from tests.interop.small_models import (
    TOLERANCE,
    V,
    max_error,
    read_arrays,
    small_weights,
)
from tests.reference import transformer_np
from tests.reference.weights_np import Options, Weights


def old_options() -> Options:
    """Of a model of OpenNMT-tf: the decoder starts from <s>, sources have no end."""
    return Options(
        normalization="pre",
        layer_norm_epsilon=1e-5,
        position_layout="halves_t2t",
        first_position=1,
        decoder_start=3,
        attention_bias=True,
        output_bias=True,
        tie_output=False,
        share_embeddings=False,
        source_eos=False,
    )


def convert(folder: Path, path: Path):
    return write_model_dir(read_model("ctranslate2", folder), path, "ctranslate2")


def heads(count: int) -> dict[str, np.ndarray]:
    return {
        f"{stack}/num_heads": np.array(count, np.int16)
        for stack in ("encoder", "decoder")
    }


@pytest.mark.parametrize("version, revision", [(2, 3), (3, 3), (6, 7)])
def test_logits_of_models_without_settings(tmp_path, version, revision) -> None:
    """Old files have no positions, no epsilon, no config.json and no <unk>."""
    weights = small_weights(old_options())
    names = ("num_heads",) if revision < 5 else tuple(heads(3))
    dtype = np.int16 if version >= 3 else np.int8
    counts = {name: np.array(3, dtype) for name in names}
    folder = write_ctranslate2(
        tmp_path / "ct2",
        variables_of(weights) | counts,
        None,
        version=version,
        revision=revision,
    )
    model = convert(folder, tmp_path / "run")
    assert max_error(model, weights) < TOLERANCE
    run = ModelDir(tmp_path / "run")
    assert run.config().model.decoder_start == "<s>"
    assert run.run_card()["import"]["original_ids"] == [
        0,
        2,
        V - 1,
        1,
        *range(3, V - 1),
    ]
    assert load_vocabulary(run.vocabulary_file).source.encode("w5 none w18") == [
        5,
        2,
        18,
        1,
    ]


def weights_and_variables() -> tuple[Weights, dict[str, np.ndarray]]:
    weights = small_weights(old_options())
    return weights, variables_of(weights) | heads(3)


@pytest.mark.parametrize("dtype", [np.float16, tf.bfloat16.as_numpy_dtype])
def test_weights_of_16_bits_are_read_as_they_are(tmp_path, dtype) -> None:
    _, variables = weights_and_variables()
    table = transformer_np.other_sinusoids(21, 12, "halves_t2t")[1:]
    names = [
        f"{stack}/position_encodings/encodings" for stack in ("encoder", "decoder")
    ]
    models, arrays = [], []
    for last in (np.float32, dtype):
        rounded = {
            name: value if value.dtype == np.int16 else value.astype(dtype).astype(last)
            for name, value in variables.items()
        } | dict.fromkeys(names, table.astype(last))
        folder = write_ctranslate2(tmp_path / last.__name__, rounded, None)
        models.append(read_model("ctranslate2", folder))
        arrays.append(read_arrays(models[-1]))
    assert models[1].model.position_layout == "halves_t2t"
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name])


def refusals() -> tuple[tuple[dict[str, Any], dict[str, Any], str], ...]:
    """Further variables, settings, and the message about them."""
    one, half = np.array(1, np.int8), np.array(0.5, np.float32)
    table = np.random.default_rng(1).normal(size=(20, 12)).astype(np.float32)
    return (
        ({"encoder/alibi": one}, {}, "encoder/alibi is 1"),
        ({"decoder/multi_query_attention": one}, {}, "multi_query_attention is 1"),
        ({"encoder/activation": np.array(1, np.int8)}, {}, "must be the same"),
        (
            {f"{s}/activation": np.array(1, np.int8) for s in ("encoder", "decoder")},
            {},
            r"activation 1, and only 0 \(ReLU\)",
        ),
        ({"encoder/scale_embeddings": half}, {}, "not multiplied .*0.5"),
        ({"encoder/position_encodings/encodings": table}, {}, "no sinusoids"),
        (
            {"encoder/layer_0/ffn/linear_0_noact/weight": table},
            {},
            "no place for: encoder/layer_0/ffn/linear_0_noact/weight",
        ),
        (
            {"encoder/layer_0/self_attention/relative_position_keys": table},
            {},
            "no place for: .*relative_position_keys",
        ),
        (
            {"decoder/projection/weight": np.ones((V, 12), np.int8)},
            {},
            "type int8.*quantized",
        ),
        (
            {"decoder/projection/weight_scale": np.ones(V, np.float32)},
            {},
            "its weights are quantized",
        ),
        ({}, {"add_source_bos": True}, "sources begin with <s>"),
        ({}, {"decoder_start_token": None}, "user of the model chooses"),
        ({}, {"eos_token": "<end>"}, "must have <end>"),
        ({}, {"eos_token": 3, "bos_token": []}, "must have 3"),
    )


@pytest.mark.parametrize("added, config, message", refusals())
def test_other_architectures_are_refused(tmp_path, added, config, message) -> None:
    _, variables = weights_and_variables()
    folder = write_ctranslate2(tmp_path / "ct2", variables | added, config)
    with pytest.raises(UserError, match=message):
        convert(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_files_are_refused(tmp_path) -> None:
    _, variables = weights_and_variables()
    folder = write_ctranslate2(tmp_path / "ct2", variables, {})
    file = folder / "model.bin"
    content = file.read_bytes()
    for damaged in (content[:-500], content[:9], b"", struct.pack("<I", 99)):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=r"model\.bin is damaged, cut short or no"):
            convert(folder, tmp_path / "run")
    write_binary(file, variables, spec="TransformerDecoderSpec")
    with pytest.raises(UserError, match="it is a TransformerDecoderSpec"):
        convert(folder, tmp_path / "run")
    file.write_bytes(content)
    (folder / "target_vocabulary.json").write_text('["a", "</s>"]')
    with pytest.raises(UserError, match=f"has 2 pieces, and the model has {V} rows"):
        convert(folder, tmp_path / "run")
    (folder / "target_vocabulary.json").unlink()
    with pytest.raises(UserError, match=r"has no target_vocabulary\.json or \.txt"):
        convert(folder, tmp_path / "run")
    assert len(vocabulary()) == V
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ct2"]
