"""Exports as models of Marian, computed by the NumPy reference; what is refused."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import yaml

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.interop.formats import read_model
from t2t_keras.runs.export import marian
from t2t_keras.runs.export.marian import export_marian
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.t2t_subwords import T2TSubwordTokenizer
from t2t_keras.text.tokenizers import WordTokenizer
from tests.interop.marian_reference import WrittenMarian
from tests.interop.small_models import PIECES
from tests.runs.export.piece_models import with_pieces, write_pieces
from tests.runs.random_model import as_trained_model, random_model

# Heads of 8, of which keys use 5 and values 7.
SIZES = MappingProxyType({"num_layers": 1, "d_model": 24})
PAPER = MappingProxyType({"num_layers": 2})
CLASSIC = MappingProxyType(
    {
        "position_layout": "halves_t2t",
        "activation": "swish",
        "attention_bias": True,
        "output_bias": True,
        "encoder_layers": 3,
    }
)
PRE = MappingProxyType(
    {
        "normalization": "pre",
        "tie_output": False,
        "decoder_start": "<unk>",
        "layer_norm_epsilon": 1e-2,
        "decoder_layers": 2,
    }
)
LEARNED = MappingProxyType(
    {
        "learned_positions": 30,
        "first_position": 2,
        "activation": "swish",
        "share_embeddings": False,
        "layer_norm_epsilon": 1e-3,
    }
)
PLAIN = DecodingConfig(length_penalty="none")
# For float32, a few layers, and logits of up to 30.
TOLERANCE = 1e-4


def export(
    trained: TrainedModel, base: Path, log: Callable[[str], object] = lambda _: None
) -> Path:
    with log_to(log):
        return export_marian(trained, base, PLAIN)


def compare(trained: TrainedModel, folder: Path) -> float:
    """Largest difference from the logits that the reference computes from the files."""
    written, rng = WrittenMarian(folder), np.random.default_rng(2)
    sizes = trained.vocabulary.source.size, trained.vocabulary.size
    source, target = (rng.integers(1, size, (3, 12)) for size in sizes)
    source[:, -1] = source[1, 3] = 1  # the end
    source[1, 4:] = 0
    shifted = np.pad(target, [(0, 0), (1, 0)])[:, :-1]
    batch = {"encoder_input_tokens": source, "decoder_input_tokens": shifted}
    expected = [
        written.logits(list(row), list(inputs))
        for row, inputs in zip(source, shifted, strict=True)
    ]
    return float(np.abs(np.array(trained.model(batch)) - np.stack(expected)).max())


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (PAPER, "transformer-new"),
        (CLASSIC, "transformer"),
        (PRE, "transformer-new"),
        (LEARNED, "transformer-new"),
    ],
    ids=["paper", "classic", "pre", "learned"],
)
def test_logits_are_those_of_the_reference(tmp_path, vocabulary, options, kind) -> None:
    model = random_model(vocabulary, **{**SIZES, **options})
    trained = as_trained_model(model, vocabulary)
    log: list[str] = []
    folder = export(trained, tmp_path, log=log.append)
    assert folder == tmp_path / "1"
    assert compare(trained, folder) < TOLERANCE
    assert log[-1].startswith(f"type {kind} of Marian; logits of random sentences ")
    assert float(log[-1].split(";")[1].split()[-1]) < TOLERANCE
    assert (folder / "vocab.spm").read_bytes() == vocabulary.model_proto
    imported = read_model("marian", folder)
    assert imported.model.decoder_start == options.get("decoder_start", "zero")
    for line in ("grün Haus", "the ."):
        assert imported.vocabulary.source.encode(line) == vocabulary.encode(line)


def test_positions_past_the_last_learned_one_are_that_one(tmp_path, vocabulary) -> None:
    """As in a search here, and 1,024 in all, so that Marian does not end there."""
    model = random_model(vocabulary, **{**SIZES, **LEARNED})
    folder = export(as_trained_model(model, vocabulary), tmp_path)
    with np.load(folder / "model.npz") as arrays:
        tables = [arrays[name] for name in arrays if "positionEmbedding" in name]
    assert len(tables) == 2 and all(len(table) == 1024 for table in tables)
    for table in tables:
        np.testing.assert_array_equal(table[28:], np.tile(table[27], (996, 1)))
        assert (table[27] != table[26]).all()


@pytest.mark.parametrize("tie_output", [True, False])
def test_two_vocabularies(tmp_path, tie_output) -> None:
    """Lists, as in OPUS-MT, beside the SentencePiece models."""
    vocabulary = write_pieces(tmp_path, (">>deu<<", "~", '"\\', "\x85"))
    trained = with_pieces(vocabulary, **SIZES, tie_output=tie_output)
    folder = export(trained, tmp_path / "export")
    assert compare(trained, folder) < TOLERANCE
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("model.npz", "decoder.yml", "source.yml", "target.yml"),
        *("source.spm", "target.spm"),
    }
    again = read_model("marian", folder)
    text = ">>deu<< w4w7"
    assert again.vocabulary.source.encode(text) == vocabulary.source.encode(text)
    assert again.vocabulary.source.pieces(range(23)) == vocabulary.source.pieces(
        range(23)
    )


def test_words_are_a_list(tmp_path) -> None:
    words = PieceVocabulary(PIECES, WordTokenizer())
    trained = with_pieces(words, **SIZES, share_embeddings=True)
    folder = export(trained, tmp_path / "export")
    assert compare(trained, folder) < TOLERANCE
    ids = yaml.safe_load((folder / "vocab.yml").read_text())
    assert ids == {
        "</s>": 0,
        "<unk>": 1,
        **{p: i for i, p in enumerate(PIECES[3:], 2)},
        "<pad>": 18,
    }


def test_settings_of_the_search(tmp_path, vocabulary) -> None:
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    decoding = DecodingConfig(
        beam_size=3, length_penalty="power", alpha=0.7, suppress_unknown=True
    )
    log: list[str] = []
    with log_to(log.append):
        folder = export_marian(trained, tmp_path, decoding)
        assert len(log) == 1
        others = dataclasses.replace(
            decoding,
            length_penalty="gnmt",
            min_length=2,
            no_repeat_ngram=3,
            renormalize=True,
        )
        export_marian(trained, tmp_path, others)
    again = read_model("marian", folder).decoding
    assert again == dataclasses.replace(decoding, extra_length=again.extra_length)
    assert log[1:-1] == [
        "warning: Marian has no GNMT length penalty: it divides by length^0.7",
        "warning: Marian has no counterpart of --min_length, which is left out",
        "warning: Marian has no counterpart of --no_repeat_ngram, which is left out",
        "warning: Marian has no counterpart of --renormalize, which is left out",
    ]


def refused_options() -> tuple[tuple[dict[str, Any], str], ...]:
    return (
        ({"activation": "gelu"}, "no --activation=gelu: it has relu and swish"),
        ({"encoder_neighborhood": 3}, "no encoder .*--encoder_neighborhood=3"),
        ({"source_eos": False}, "does not read the end of a source .--nosource_eos"),
        ({"d_k": 9}, "no heads of size 9 .* larger than d_model / num_heads, 8"),
        ({"d_model": 26}, "no --d_model=26 that is no multiple of --num_heads=3"),
    )


@pytest.mark.parametrize("options, message", refused_options())
def test_what_marian_lacks_is_refused(tmp_path, vocabulary, options, message) -> None:
    model = random_model(vocabulary, **{**SIZES, **options})
    trained = as_trained_model(model, vocabulary)
    with pytest.raises(UserError, match=f"{message}.* Export it as a SavedModel"):
        export(trained, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_vocabulary_that_marian_lacks_is_refused(tmp_path, vocabulary) -> None:
    trained: Any = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    subwords = PieceVocabulary(PIECES, T2TSubwordTokenizer(PIECES[3:]))
    with pytest.raises(UserError, match=r"Marian has no vocabulary of kind t2t"):
        export(dataclasses.replace(trained, vocabulary=subwords), tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_file_with_other_numbers_is_refused(
    tmp_path, vocabulary, monkeypatch
) -> None:
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    write = marian.write_marian

    def damage(model, vocabularies, folder, **options):
        write(model, vocabularies, folder, **options)
        with np.load(folder / "model.npz") as archive:
            arrays = {name: archive[name] for name in archive}
        arrays["Wemb"] = arrays["Wemb"] * 1.01
        np.savez(folder / "model.npz", **arrays)

    monkeypatch.setattr(marian, "write_marian", damage)
    with pytest.raises(UserError, match=r"written model's logits differ by .* again"):
        export(trained, tmp_path / "export")
    assert not (tmp_path / "export").exists()


@pytest.mark.parametrize("row", [0, 5])
def test_other_positions_in_the_decoder_are_not_imported(
    tmp_path, vocabulary, row
) -> None:
    """As training makes them; a first row may differ by a piece's embedding."""
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    folder = export(trained, tmp_path)
    with np.load(folder / "model.npz") as archive:
        arrays = {name: archive[name] for name in archive}
    name = "TransformerBatchDecoder->decoder->positionEmbedding->embeddings"
    arrays[name][row, 3] += 1e-3
    np.savez(folder / "model.npz", **arrays)
    with pytest.raises(UserError, match="other learned positions in the encoder than"):
        read_model("marian", folder)
