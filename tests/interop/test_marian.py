"""Imports of Marian's models against the NumPy reference; refusals."""

from pathlib import Path
from typing import Any

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.interop.formats import read_model
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import load_trained
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.text.stored_vocabulary import load_vocabulary
from tests.interop.marian_faults import FAULTS
from tests.interop.marian_files import (
    MARIAN,
    ORDER,
    POST,
    marian_settings,
    write_marian,
)
from tests.interop.small_models import (
    NO_LOGIT,
    PIECES,
    TOLERANCE,
    V,
    max_error,
    small_weights,
)
from tests.reference.weights_np import Options

PRE = Options(**MARIAN, normalization="pre", share_embeddings=False)
UNTIED = Options(**MARIAN, tie_output=False, output_bias=True)


def convert(folder: Path, path: Path):
    return write_model_dir(read_model("marian", folder), path, "marian")


@pytest.mark.parametrize("options", [POST, PRE, UNTIED], ids=["post", "pre", "untied"])
def test_logits_are_those_of_the_reference(tmp_path, options) -> None:
    weights = small_weights(options, added=(0,))
    model = convert(write_marian(tmp_path / "marian", weights), tmp_path / "run")
    assert max_error(model, weights) < TOLERANCE


@pytest.mark.parametrize(
    "options, steps",
    [(POST, ("", "an", "")), (POST, ("d", "adnd", "d")), (PRE, ("nd", "a", "n"))],
)
def test_steps_of_dropout_change_nothing(tmp_path, options, steps) -> None:
    weights = small_weights(options, added=(0,))
    names = ("preprocess", "postprocess", "postprocess_top")
    changed = {f"transformer_{name}": s for name, s in zip(names, steps, strict=True)}
    settings = marian_settings(weights, **changed)
    folder = write_marian(tmp_path / "marian", weights, settings=settings)
    plain = write_marian(tmp_path / "plain", weights)
    assert read_model("marian", folder).model == read_model("marian", plain).model


def test_the_directory_has_settings_ids_and_digests_of_the_source(tmp_path) -> None:
    weights = small_weights(POST, added=(0,))
    folder = write_marian(tmp_path / "marian", weights)
    convert(folder, tmp_path / "run")
    run = ModelDir(tmp_path / "run")
    entry = run.run_card()["import"]
    assert entry["original_ids"] == [None, *range(V - 1)]
    assert [ORDER[i] for i in entry["original_ids"][1:]] == [*range(1, V)]
    assert set(entry["files"]) == {"model.npz", "vocab.yml", "decoder.yml"}
    assert entry["settings"]["model"]["transformer-heads"] == 3
    assert run.run_card()["vocabulary"]["size"] == V
    decoding = run.config().decoding
    assert (decoding.beam_size, decoding.alpha) == (3, 1.0)
    assert decoding.length_penalty == "power" and decoding.suppress_unknown
    vocabulary = load_vocabulary(run.vocabulary_file)
    assert vocabulary.pieces(range(V)) == [*PIECES]
    assert vocabulary.source.encode("w4  ?\tw18 </s>") == [4, 2, 18, 2, 1]
    model = load_trained(run, "latest").model
    assert max_error(model, weights) < TOLERANCE
    assert model.embedding.output_bias.numpy()[0] == NO_LOGIT


def test_decoder_settings_of_a_file_beside_the_weights(tmp_path) -> None:
    """Marian writes model.npz.decoder.yml while it trains, with paths of its own."""
    weights = small_weights(POST, added=(0,))
    folder = write_marian(
        tmp_path / "marian",
        weights,
        decoder={"models": ["/train/model.npz"], "vocabs": ["/train/vocab.yml"] * 2},
    )
    (folder / "decoder.yml").rename(folder / "model.npz.decoder.yml")
    for path in (folder, folder / "model.npz"):
        assert read_model("marian", path).decoding.beam_size == 3
    (folder / "model.npz.decoder.yml").unlink()
    settings = marian_settings(weights, vocabs=["vocab.yml", "vocab.yml"])
    alone = write_marian(tmp_path / "alone", weights, settings=settings)
    (alone / "decoder.yml").unlink()
    assert read_model("marian", alone).decoding.length_penalty == "none"


def refused_settings() -> tuple[tuple[dict[str, Any], str], ...]:
    """A change of the settings, and the message about it."""
    return (
        ({"type": "s2s"}, "another architecture.* Received: s2s"),
        ({"transformer-decoder-autoreg": "rnn"}, r"\(SSRU, AAN or another RNN\)"),
        ({"transformer-decoder-autoreg": "average-attention"}, "average-attention"),
        ({"transformer-tied-layers": [1, 1]}, "share weights"),
        ({"lemma-dim-emb": 4}, "factors"),
        ({"transformer-train-position-embeddings": True}, "learned positions"),
        ({"transformer-ffn-activation": "gelu"}, "another activation .*1.702.*: gelu"),
        ({"transformer-ffn-activation": "mish"}, "another activation .*Received: mish"),
        ({"transformer-postprocess": "da"}, r"steps \('', 'da', ''\)"),
        ({"transformer-postprocess": "dhn"}, r"steps \('', 'dhn', ''\)"),
        ({"transformer-postprocess": "dar"}, r"steps \('', 'dar', ''\)"),
        ({"transformer-postprocess-emb": "dn"}, "a layer after the emb.*Received: dn"),
        ({"transformer-heads": None}, "must have a number transformer-heads"),
        ({"transformer-heads": 5}, "--d_model must be a multiple of --num_heads"),
        ({"enc-depth": 1}, "arrays that this project has no place for: encoder_l2_"),
        ({"dec-depth": 4}, "no array decoder_l4_self_W.*cut short"),
        (
            {"transformer-dim-ffn": 11},
            r"shape \(12, 10\), and its settings say \(12, 11\)",
        ),
    )


@pytest.mark.parametrize("change, message", refused_settings())
def test_other_architectures_are_refused(tmp_path, change, message) -> None:
    weights = small_weights(POST, added=(0,))
    settings = {**marian_settings(weights), **change}
    folder = write_marian(tmp_path / "marian", weights, settings=settings)
    check_refused(folder, message)


def test_pre_norm_models_of_old_releases_are_refused(tmp_path) -> None:
    """Their keys and values were not normalized."""
    weights = small_weights(PRE, added=(0,))
    settings = marian_settings(weights, version="v1.10.28 0a1b2c 2021")
    folder = write_marian(tmp_path / "marian", weights, settings=settings)
    check_refused(folder, r"pre-norm model of Marian v1\.10\.28.* 1\.11 and later")


def check_refused(folder: Path, message: str) -> None:
    """Checks that a folder cannot be imported, and that nothing is written."""
    target = folder.parent / "run"
    with pytest.raises(UserError, match=message):
        convert(folder, target)
    assert not target.exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_damaged_files_are_refused(tmp_path, fault) -> None:
    folder = write_marian(tmp_path / "marian", small_weights(POST, added=(0,)))
    check_refused(folder, fault(folder))
    assert not (tmp_path / "executed").exists()


def test_a_vocabulary_of_pieces_without_their_tool_is_warned_of(tmp_path) -> None:
    folder = write_marian(tmp_path / "marian", small_weights(POST, added=(0,)))
    text = (folder / "vocab.yml").read_text().replace("w5", "w5@@")
    (folder / "vocab.yml").write_text(text)
    log: list[str] = []
    imported = read_model("marian", folder)
    with log_to(log.append):
        write_model_dir(imported, tmp_path / "run", "marian")
    assert log == [
        "warning: there is no source.spm and target.spm, so lines must be split into "
        "the pieces of the vocabulary, with spaces between, and so are translations"
    ]


def test_a_directory_with_files_is_not_overwritten(tmp_path) -> None:
    folder = write_marian(tmp_path / "marian", small_weights(POST, added=(0,)))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes").write_text("mine")
    with pytest.raises(UserError, match="run is not empty"):
        convert(folder, tmp_path / "run")
    assert (tmp_path / "run/notes").read_text() == "mine"
