"""Imports of MarianMT models against the NumPy reference; refusals."""

import dataclasses
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.interop.formats import read_model
from t2t_keras.interop.transformers.marian_settings import STACKS
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.stored_vocabulary import load_vocabulary
from tests.interop.marian_faults import Executed
from tests.interop.small_models import (
    PIECES,
    TOLERANCE,
    V,
    max_error,
    read_arrays,
    small_weights,
)
from tests.interop.transformers_files import (
    ORDER,
    arrays_of,
    write_torch,
    write_transformers,
)
from tests.reference import transformer_np
from tests.reference.weights_np import Options, Weights

SHAPE = MappingProxyType(
    {
        "position_layout": "halves",
        "attention_bias": True,
        "output_bias": True,
        "layer_norm_epsilon": 1e-5,
    }
)
START = 5
SWISH = Options(**SHAPE, activation="swish")
UNTIED = Options(**SHAPE, activation="gelu", tie_output=False, share_embeddings=False)


def their_weights(options: Options) -> Weights:
    """Padding has a zero vector and, unlike other programs', a logit of its own."""
    weights = small_weights(options)
    for matrix in (weights.embedding, weights.source_embedding):
        if matrix is not None:
            matrix[0] = 0.0
    return weights


def convert(folder: Path, path: Path):
    imported = read_model("transformers", folder)
    return write_model_dir(imported, path, "transformers")


@pytest.mark.parametrize("options", [SWISH, UNTIED], ids=["swish", "untied"])
def test_logits_are_those_of_the_reference(tmp_path, options) -> None:
    weights = their_weights(options)
    model = convert(write_transformers(tmp_path / "mt", weights), tmp_path / "run")
    assert max_error(model, weights) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("untied", [False, True])
def test_a_decoder_may_start_from_a_piece(tmp_path, untied) -> None:
    """Also from padding, if training further gave it a vector."""
    options = dataclasses.replace(UNTIED if untied else SWISH, decoder_start=START)
    weights = their_weights(options)
    folder = write_transformers(tmp_path / "mt", weights)
    change_config(folder, decoder_start_token_id=ORDER.index(START))
    model = convert(folder, tmp_path / "run")
    assert model.sizes["decoder_start"] == START
    assert max_error(model, weights) < TOLERANCE
    weights.embedding[0] = weights.embedding[START]
    folder = write_transformers(tmp_path / "further", weights)
    model = convert(folder, tmp_path / "run2")
    assert model.sizes["decoder_start"] == V
    assert max_error(model, weights) < TOLERANCE
    tokens = np.array([[3, 4, 1]])
    batch = {"encoder_input_tokens": tokens, "decoder_input_tokens": tokens}
    assert np.all(np.array(model(batch))[..., V] < -50)
    entry = ModelDir(tmp_path / "run2").run_card()["import"]
    assert entry["original_ids"] == [V - 1, *range(V - 1), V - 1]


BFLOAT16 = tf.bfloat16.as_numpy_dtype
POSITIONS = tuple(f"model.{stack}.embed_positions.weight" for stack in STACKS)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        ("safetensors", np.float16),
        ("safetensors", BFLOAT16),
        ("bin", np.float32),
        ("bin", np.float16),
        ("bin", BFLOAT16),
        ("old", np.float16),
        ("sharded", BFLOAT16),
    ],
)
def test_weights_may_be_in_other_files_and_types(
    tmp_path, monkeypatch, form, dtype
) -> None:
    """Those of PyTorch are read without it."""
    weights = their_weights(SWISH)
    folder = write_transformers(tmp_path / "mt", weights)
    arrays = {name: value.astype(dtype) for name, value in arrays_of(weights).items()}
    path = folder / "model.safetensors"
    save_arrays(path, {name: value.astype("f") for name, value in arrays.items()})
    rounded = read_arrays(read_model("transformers", folder))
    path.unlink()
    arrays |= dict.fromkeys(POSITIONS, sinusoid_table().astype(dtype))
    if form == "sharded":
        names = sorted(arrays)
        places = {name: f"{i % 2}.safetensors" for i, name in enumerate(names)}
        for path in (folder / "0.safetensors", folder / "1.safetensors"):
            save_arrays(path, {n: arrays[n] for n in names if places[n] == path.name})
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    elif form == "safetensors":
        save_arrays(path, arrays)
    else:
        path = folder / "pytorch_model.bin"
        write_torch(path, arrays, monkeypatch, old=form == "old")
    imported = read_model("transformers", folder)
    found = read_arrays(imported)
    assert found.keys() == rounded.keys()
    for name, array in rounded.items():
        np.testing.assert_array_equal(found[name], array)
    assert path in imported.files
    content = path.read_bytes()
    path.write_bytes(content[:-200])
    with pytest.raises(UserError, match=r"damaged or cut short|cannot be read as"):
        read_model("transformers", folder)


@pytest.mark.parametrize(
    "index, message",
    [
        ({}, "must have a weight_map"),
        ({"weight_map": {"a": "../model.safetensors"}}, "must have a weight_map"),
        ({"weight_map": {"a": 3}}, "must have a weight_map"),
        ({"weight_map": {"a": "no.safetensors"}}, r"Cannot read .*no\.safetensors"),
        ({"weight_map": {"a": "part.safetensors"}}, "No file of .* has a. Download"),
    ],
)
def test_indexes_of_parts_that_are_not_there_are_refused(
    tmp_path, index, message
) -> None:
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=message):
        convert(folder, tmp_path / "run")


@pytest.mark.parametrize("tables", [("encoder", "decoder"), ("decoder",), ()])
def test_untied_embeddings_may_have_a_shared_one_besides(tmp_path, tables) -> None:
    """transformers 5 reads each from its own array, and before there was one."""
    weights = their_weights(UNTIED)
    shared = weights.embedding[::-1] * (np.arange(V) > 0)[:, None]
    if "encoder" not in tables:
        weights = dataclasses.replace(weights, source_embedding=shared)
    if "decoder" not in tables:
        weights = dataclasses.replace(weights, embedding=shared)
    folder = write_transformers(tmp_path / "mt", weights)
    change_config(folder, share_encoder_decoder_embeddings=True)
    arrays = arrays_of(weights)
    arrays["model.shared.weight"] = shared[[*ORDER]].astype("f")
    for stack in {"encoder", "decoder"} - {*tables}:
        arrays.pop(f"model.{stack}.embed_tokens.weight")
    save_arrays(folder / "model.safetensors", arrays)
    model = convert(folder, tmp_path / "run")
    assert model.sizes["share_embeddings"] == (not tables)
    assert max_error(model, weights) < TOLERANCE


@pytest.mark.parametrize("old", [False, True])
def test_a_pickle_that_executes_code_is_refused(tmp_path, monkeypatch, old) -> None:
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    (folder / "model.safetensors").unlink()
    code = Executed(tmp_path / "executed")
    write_torch(folder / "pytorch_model.bin", [code], monkeypatch, old=old)
    with pytest.raises(UserError, match=r"it calls .*getattr, which rebuilds no"):
        convert(folder, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mt"]


def test_settings_of_the_search_and_the_ids(tmp_path) -> None:
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    generation = {
        "num_beams": 5,
        "length_penalty": 0.8,
        "renormalize_logits": True,
        "bad_words_ids": [[V - 1], [1], [4, 5]],
        "no_repeat_ngram_size": 3,
        "early_stopping": True,
        "min_length": 4,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation))
    tokenizer = {"source_lang": "eng", "target_lang": "deu"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    log: list[str] = []
    imported = read_model("transformers", folder)
    with log_to(log.append):
        write_model_dir(imported, tmp_path / "run", "transformers")
    run = ModelDir(tmp_path / "run")
    decoding = run.config().decoding
    assert (decoding.beam_size, decoding.alpha, decoding.min_length) == (5, 0.8, 3)
    assert decoding.length_penalty == "power" and decoding.no_repeat_ngram == 3
    assert decoding.suppress_unknown and decoding.renormalize
    assert log == [
        "warning: bad_words_ids: 1 other words are not suppressed",
        "warning: early_stopping: True is ignored; there is none here",
    ]
    data = run.config().data
    assert (data.source_language, data.target_language) == ("eng", "deu")
    entry = run.run_card()["import"]
    assert entry["original_ids"] == [V - 1, *range(V - 1)]
    assert "generation_config.json" in entry["files"]
    vocabulary = load_vocabulary(run.vocabulary_file)
    assert vocabulary.pieces(range(V)) == [*PIECES]
    assert vocabulary.source.encode("w4w18?") == [4, 18, 2, 1]
    assert vocabulary.decode([4, 2, 5, 1]) == "w4w5"
    assert vocabulary.decode_in_graph(tf.constant([[4, 2, 5, 1]])).numpy() == [b"w4w5"]


@pytest.mark.parametrize(
    "given, expected, warnings",
    [
        ({"min_new_tokens": 2, "min_length": 9}, {"min_length": 2}, []),
        ({"suppress_tokens": [1, V - 1]}, {"suppress_unknown": True}, []),
        (
            {"suppress_tokens": [4, 5, 1], "bad_words_ids": [[3]]},
            {"suppress_unknown": True},
            [
                "bad_words_ids: 1 other words are not suppressed",
                "suppress_tokens: 2 other words are not suppressed",
            ],
        ),
        (
            {"length_penalty": -1},
            {"length_penalty": "none", "alpha": 0.6},
            ["length_penalty: -1 is i"],
        ),
        ({"begin_suppress_tokens": [0]}, {}, ["begin_suppress_tokens: [0] is ignored"]),
        ({"sequence_bias": [[[4], -9.0]]}, {}, ["sequence_bias: [[[4], -9.0]] is"]),
        (
            {"exponential_decay_length_penalty": [9, 1.1]},
            {},
            ["exponential_decay_length_penalty: [9, 1.1] is ignored; there is"],
        ),
        ({"of_a_later_release": False}, {}, ["of_a_later_release: False is ignored"]),
        ({"max_length": 9}, {}, ["max_length: 9 is ignored; the limit here is --ex"]),
        ({"eos_token_id": [0, 3]}, {}, ["eos_token_id: [0, 3] is ignored"]),
        ({"forced_eos_token_id": 3}, {}, ["forced_eos_token_id: 3 is ignored"]),
        (
            {"temperature": 0.5, "do_sample": True},
            {},
            ["temperature: 0", "do_sample: T"],
        ),
        (
            # Defaults, what is the same here, and what no translation depends on.
            {
                "top_k": 50,
                "top_p": 1.0,
                "do_sample": False,
                "temperature": 1.0,
                "suppress_tokens": [],
                "sequence_bias": None,
                "pad_token_id": V - 1,
                "eos_token_id": 0,
                "forced_eos_token_id": [0],
                "bos_token_id": 0,
                "early_stopping": "never",
                "transformers_version": "5.0",
                "_from_model_config": True,
                "use_cache": False,
                "num_return_sequences": 3,
            },
            {},
            [],
        ),
    ],
    ids=lambda each: next(iter(each), "") if isinstance(each, dict) else "",
)
def test_settings_of_the_search_are_applied_or_named(
    tmp_path, given, expected, warnings
) -> None:
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    (folder / "generation_config.json").write_text(json.dumps(given))
    imported = read_model("transformers", folder)
    for found, start in zip(imported.warnings, warnings, strict=True):
        assert found.startswith(start)
    default = DecodingConfig(beam_size=1, alpha=1.0, length_penalty="power")
    assert imported.decoding == default.override(**expected)


def test_without_their_file_settings_of_the_search_are_in_the_other(tmp_path) -> None:
    """Among those of the architecture, of which none is named."""
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    change_config(folder, suppress_tokens=[1], max_length=9, of_a_later_release=True)
    imported = read_model("transformers", folder)
    assert imported.decoding.beam_size == 6 and imported.decoding.suppress_unknown
    assert [warning[:12] for warning in imported.warnings] == ["max_length: "]


def change_config(folder: Path, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def refused_changes() -> tuple[tuple[dict[str, Any], str], ...]:
    """Changes of config.json, and the message about them."""
    return (
        ({"model_type": "gpt2"}, "another architecture.* Received: gpt2"),
        ({"scale_embedding": False}, "not scaled"),
        ({"decoder_start_token_id": V}, "must have the decoder_start_token_id of a p"),
        ({"d_model": None}, "--d_model must be a whole number. Received: None"),
        ({"normalize_before": True}, "normalization before each sub-layer"),
        ({"activation_function": "gelu_new"}, "the activation gelu_new, which is not"),
        ({"decoder_ffn_dim": 11}, "same number of widths .* 10 and 11"),
        ({"encoder_layers": 1}, "arrays that this project has no place for"),
        ({"decoder_layers": 4}, "has no array model.decoder.layers.3"),
        ({"encoder_ffn_dim": 11, "decoder_ffn_dim": 11}, r"settings say \(12, 11\)"),
        ({"vocab_size": V + 1}, f"ids 0 to {V} of the model's {V + 1} rows"),
        ({"eos_token_id": 3}, "must have </s>, with the id of config.json"),
        ({"num_beams": 20_000}, "beam_size must be at most"),
        ({"dropout": 1.0}, "dropout_rate must be at most 0.99"),
        (
            {"encoder_attention_heads": 0, "decoder_attention_heads": 0},
            "--num_heads must be at least 1. Received: 0",
        ),
    )


@pytest.mark.parametrize("changes, message", refused_changes())
def test_other_architectures_are_refused(tmp_path, changes, message) -> None:
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    change_config(folder, **changes)
    with pytest.raises(UserError, match=message):
        convert(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_table_of_another_vocabulary_is_refused(tmp_path) -> None:
    """A piece more than rows: padding, the last, has none."""
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    ids = json.loads((folder / "vocab.json").read_text())
    ids |= {"more": V - 1, "<pad>": V}
    (folder / "vocab.json").write_text(json.dumps(ids))
    change_config(folder, vocab_size=V + 1, pad_token_id=V, decoder_start_token_id=V)
    with pytest.raises(UserError, match=f"must have {V + 1} rows.*, 12.. It has anoth"):
        convert(folder, tmp_path / "run")
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"A setting of .*|config.json is damaged"):
        convert(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_piece_may_have_the_name_of_the_start(tmp_path) -> None:
    weights = their_weights(SWISH)
    folder = write_transformers(tmp_path / "mt", weights)
    ids = json.loads((folder / "vocab.json").read_text())
    ids["<start>"] = ids.pop("w5")
    (folder / "vocab.json").write_text(json.dumps(ids))
    assert max_error(convert(folder, tmp_path / "run"), weights) < TOLERANCE
    arrays = arrays_of(weights)["model.shared.weight"].copy()
    arrays[-1] = 0.5
    save_with(folder, **{"model.shared.weight": arrays})
    imported = read_model("transformers", folder)
    assert imported.model.decoder_start == "<<start>>"


def save_with(folder: Path, **changes: np.ndarray) -> None:
    arrays = arrays_of(their_weights(SWISH)) | changes
    save_arrays(folder / "model.safetensors", arrays)


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    safetensors.numpy.save_file(arrays, path)


def sinusoid_table() -> np.ndarray:
    """Positions, as older releases stored them."""
    return transformer_np.other_sinusoids(30, 12, "halves").astype("f")


def test_arrays_that_repeat_others_must_be_the_same(tmp_path) -> None:
    """As older releases stored them."""
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    shared = arrays_of(their_weights(SWISH))["model.shared.weight"]
    repeated = {
        "lm_head.weight": shared,
        "model.encoder.embed_tokens.weight": shared,
        "model.decoder.embed_tokens.weight": shared,
        **dict.fromkeys(POSITIONS, sinusoid_table()),
    }
    save_with(folder, **repeated)
    convert(folder, tmp_path / "run")
    for name, value in repeated.items():
        save_with(folder, **{**repeated, name: value + 1e-3})
        with pytest.raises(UserError, match=f"{name} in .* has other numbers"):
            convert(folder, tmp_path / "other")


def test_damaged_files_are_refused(tmp_path) -> None:
    folder = write_transformers(tmp_path / "mt", their_weights(SWISH))
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    for damaged, message in (
        (content[:-100], "damaged or cut short"),
        (b"", "damaged or cut short"),
        (content[:50], "damaged or cut short"),
    ):
        weights.write_bytes(damaged)
        with pytest.raises(UserError, match=message):
            convert(folder, tmp_path / "run")
    weights.unlink()
    with pytest.raises(UserError, match=r"must have one of model\.safetensors, "):
        convert(folder, tmp_path / "run")
    weights.write_bytes(content)
    for name in ("source.spm", "vocab.json", "config.json"):
        (folder / name).write_text("{")
        with pytest.raises(UserError, match=f"{name}.* (damaged|cannot be read)"):
            convert(folder, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mt"]
