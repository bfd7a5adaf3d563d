"""Exports as MarianMT models, computed by the NumPy reference; what is refused."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.interop.formats import read_model
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.export.keras_file import export_keras
from t2t_keras.runs.export.transformers import export_transformers
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.runs.training.imported_run import load_model
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.tokenizers import WordTokenizer
from tests.interop.small_models import PIECES
from tests.interop.transformers_files import read_reference
from tests.reference import transformer_np
from tests.runs.export.piece_models import with_pieces, write_pieces
from tests.runs.random_model import (
    as_trained_model,
    random_model,
    with_checkpoint,
)

# Heads of 8, of which keys use 5 and values 7.
SIZES = MappingProxyType({"num_layers": 1, "d_model": 24, "layer_norm_epsilon": 1e-5})
PAPER = MappingProxyType({"num_layers": 2})
SWISH = MappingProxyType(
    {
        "activation": "swish",
        "position_layout": "halves",
        "attention_bias": True,
        "output_bias": True,
        "num_layers": 2,
        "encoder_layers": 3,
    }
)
UNTIED = MappingProxyType({"activation": "gelu", "tie_output": False})
STARTED = MappingProxyType({"decoder_start": "<unk>", "attention_bias": True})
SEPARATE = MappingProxyType({"share_embeddings": False, "attention_bias": True})
# For float32, a few layers, and logits of up to 30.
TOLERANCE = 1e-4


def export(
    trained: TrainedModel,
    base: Path,
    log: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> Path:
    decoding = DecodingConfig(length_penalty="none")
    trained = with_checkpoint(trained, base.parent / f"{base.name}_checkpoint")
    with log_to(log):
        return export_transformers(trained, ModelDir(base), decoding, **options)


def compare(trained: TrainedModel, folder: Path) -> float:
    """Largest difference from the reference's logits of all but padding."""
    weights = read_reference(folder)
    rng = np.random.default_rng(2)
    sizes = trained.vocabulary.source.size, trained.vocabulary.size
    source, target = (rng.integers(1, size, (3, 9)) for size in sizes)
    source[:, -1] = source[1, 3] = 1  # the end
    source[1, 4:] = 0
    batch = {
        "encoder_input_tokens": source,
        "decoder_input_tokens": np.pad(target, [(0, 0), (1, 0)])[:, :-1],
    }
    found = np.array(trained.model(batch))
    expected = np.stack(
        [
            transformer_np.transformer(row, shifted, weights)
            for row, shifted in zip(*batch.values(), strict=True)
        ]
    )
    size = found.shape[-1]
    if expected.shape[-1] == size:
        return float(np.abs(expected - found)[..., 1:].max())
    # The last piece has the row of our padding, and their padding is never likely.
    assert expected[..., 0].max() < -90
    return float(np.abs(expected[..., 1:] - np.roll(found, -1, axis=-1)).max())


@pytest.mark.parametrize(
    "options",
    [PAPER, SWISH, UNTIED, STARTED, SEPARATE],
    ids=["paper", "swish", "untied", "started", "separate"],
)
def test_logits_are_those_of_the_reference(tmp_path, vocabulary, options) -> None:
    model = random_model(vocabulary, **{**SIZES, **options})
    trained = as_trained_model(model, vocabulary)
    log: list[str] = []
    folder = export(trained, tmp_path / "run", log=log.append)
    assert folder == tmp_path / "run" / "export_transformers" / "1"
    assert compare(trained, folder) < TOLERANCE
    assert log[-1].startswith("logits of random sentences differ by at most ")
    assert float(log[-1].split(";")[0].split()[-1]) < TOLERANCE
    imported = read_model("transformers", folder)
    assert [
        imported.vocabulary.source.encode(line) for line in ("grün Haus", "the .")
    ] == [vocabulary.encode(line) for line in ("grün Haus", "the .")]


def test_a_run_in_bfloat16_is_compared_in_float32(tmp_path, vocabulary) -> None:
    model = random_model(vocabulary, **SIZES)
    half = Transformer(**model.sizes, dtype="mixed_bfloat16")
    half.set_weights(model.get_weights())
    trained = as_trained_model(half, vocabulary)
    training = dataclasses.replace(trained.config.training, precision="bfloat16")
    config = dataclasses.replace(trained.config, training=training)
    log: list[str] = []
    folder = export(
        dataclasses.replace(trained, config=config), tmp_path / "run", log=log.append
    )
    assert float(log[-1].split(";")[0].split()[-1]) < TOLERANCE
    assert compare(as_trained_model(model, vocabulary), folder) < TOLERANCE


def test_ids_and_settings(tmp_path, vocabulary) -> None:
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    decoding = DecodingConfig(
        beam_size=3,
        length_penalty="power",
        alpha=0.7,
        min_length=2,
        suppress_unknown=True,
        renormalize=True,
        no_repeat_ngram=4,
    )
    trained = with_checkpoint(trained, tmp_path)
    folder = export_transformers(trained, ModelDir(tmp_path / "run"), decoding)
    size = vocabulary.size
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    pieces = sorted(ids, key=lambda piece: ids[piece])
    assert pieces == [*vocabulary.pieces(range(1, size)), "<blank>", "<pad>"]
    assert pieces[:2] == ["</s>", "<unk>"]
    for side in ("source", "target"):
        assert (folder / f"{side}.spm").read_bytes() == vocabulary.model_proto
    again = read_model("transformers", folder)
    assert again.decoding == dataclasses.replace(
        decoding, extra_length=again.decoding.extra_length
    )
    # That is the new piece; padding and unknown tokens are suppressed here too.
    assert again.warnings == [
        "bad_words_ids: 1 other words are not suppressed",
        "max_length: 512 is ignored; the limit here is --extra_length",
    ]
    assert again.languages == ("en", "fr")
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["bad_words_ids"] == [[size], [size - 1], [1]]
    assert generation["decoder_start_token_id"] == size
    assert generation["eos_token_id"] == generation["forced_eos_token_id"] == 0


@pytest.mark.parametrize("tie_output", [True, False])
def test_two_vocabularies(tmp_path, tie_output) -> None:
    vocabulary = write_pieces(tmp_path, (">>deu<<", "<blank>"))
    trained = with_pieces(vocabulary, **SIZES, tie_output=tie_output)
    folder = export(trained, tmp_path / "export")
    assert compare(trained, folder) < TOLERANCE
    again = read_model("transformers", folder)
    text = ">>deu<< w4w7"
    assert again.vocabulary.source.encode(text) == vocabulary.source.encode(text)
    # Its matrices are separate here too, so nothing is added the second time.
    model = load_model(again, again.config(("en", "fr")))
    second = dataclasses.replace(trained, model=model, vocabulary=again.vocabulary)
    folder = export(second, tmp_path / "export")
    assert folder.name == "2" and compare(second, folder) < TOLERANCE
    assert len(read_model("transformers", folder).original_ids) == again.vocabulary.size


def nearest_options() -> tuple[tuple[dict[str, Any], str], ...]:
    return (
        ({"position_layout": "halves_t2t"}, "has sinusoids of other wavelengths"),
        (
            {"first_position": 1},
            "another first position than .*interleaved",
        ),
        (
            {"layer_norm_epsilon": 1e-3},
            "has the epsilon 1e-05 .* not 0.001",
        ),
        ({"source_eos": False}, "reads the end of a source"),
        ({"encoder_neighborhood": 3}, "attends to all of a source"),
    )


@pytest.mark.parametrize("options, message", nearest_options())
def test_the_nearest_model_is_written_if_allowed(
    tmp_path, vocabulary, options, message
) -> None:
    model = random_model(vocabulary, **{**SIZES, **options})
    trained = as_trained_model(model, vocabulary)
    base = tmp_path / "export"
    with pytest.raises(UserError, match=f"{message}.* With --allow_approximate the"):
        export(trained, base)
    assert not base.exists()
    log: list[str] = []
    folder = export(trained, base, allow_approximate=True, log=log.append)
    assert log[0].startswith("warning: MarianMT ")
    measured = float(log[1].split(";")[0].split()[-1])
    assert measured > 1e-3
    assert folder == base / "export_transformers" / "1"


def test_a_difference_that_was_not_expected_is_refused(tmp_path, vocabulary) -> None:
    """Where the variance of a layer's input is near epsilon, 1e-6 is not 1e-5."""
    sizes = {**SIZES, **PAPER, "layer_norm_epsilon": 1e-6}
    model = random_model(vocabulary, **sizes)
    for weight in model.weights:
        is_last = "decoder/layer_1" in weight.path
        is_output = "/output" in weight.path or "/outer" in weight.path
        is_norm = "residual/norm" in weight.path and "decoder" in weight.path
        if (is_last and is_output) or (
            is_norm and not (is_last and "feed_forward" in weight.path)
        ):
            weight.assign(weight * 1e-3)
    trained = as_trained_model(model, vocabulary)
    with pytest.raises(UserError, match=r"logits differ by .*another epsilon"):
        export(trained, tmp_path / "export")
    assert not [*tmp_path.glob("export/*")]


def refused_options() -> tuple[tuple[dict[str, Any], str], ...]:
    return (
        ({"normalization": "pre"}, "no normalization before sub-layers"),
        ({"learned_positions": 90}, "no learned positions"),
        ({"d_k": 9}, "no heads that are larger than d_model / num_heads"),
        ({"d_model": 26}, "no d_model that is no multiple of num_heads"),
    )


@pytest.mark.parametrize("options, message", refused_options())
def test_other_architectures_are_refused(
    tmp_path, vocabulary, options, message
) -> None:
    model = random_model(vocabulary, **{**SIZES, **options})
    trained = as_trained_model(model, vocabulary)
    with pytest.raises(UserError, match=message):
        export(trained, tmp_path / "export", allow_approximate=True)
    assert not (tmp_path / "export").exists()


def test_a_vocabulary_without_sentencepiece_is_refused(tmp_path, vocabulary) -> None:
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    words: Any = PieceVocabulary(PIECES, WordTokenizer())
    with pytest.raises(UserError, match="by SentencePiece models, and this model has"):
        export(dataclasses.replace(trained, vocabulary=words), tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_file_of_keras(tmp_path, vocabulary, monkeypatch) -> None:
    options = {**SEPARATE, "normalization": "pre", "decoder_start": "<unk>"}
    trained = as_trained_model(random_model(vocabulary, **options), vocabulary)
    folder = export_keras(trained, tmp_path / "export")
    again = keras.models.load_model(folder / "model.keras")
    assert again.sizes == trained.model.sizes
    tokens = np.random.default_rng(5).integers(1, vocabulary.size, (2, 7))
    batch = {"encoder_input_tokens": tokens, "decoder_input_tokens": tokens[:, ::-1]}
    np.testing.assert_array_equal(again(batch), trained.model(batch))
    assert (folder / "vocabulary.model").read_bytes() == vocabulary.model_proto
    again.weights[3].assign(again.weights[3] + 1e-6)
    monkeypatch.setattr(keras.models, "load_model", lambda _: again)
    with pytest.raises(UserError, match="with other numbers than were written"):
        export_keras(trained, tmp_path / "export")
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == ["1"]
