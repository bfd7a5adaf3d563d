"""The table of docs/exports.md: what each format can express, by exports of models."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t2t_keras.errors import UserError
from t2t_keras.runs.export.export_settings import (
    FORMATS,
    ExportSettings,
    check_one_model,
)
from t2t_keras.runs.export.formats import export_model
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.setting import default_values, settings_of
from t2t_keras.text.language_tags import LanguageTags
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.t2t_subwords import T2TSubwordTokenizer
from t2t_keras.text.tokenizers import WordTokenizer
from tests.forked import REPOSITORY
from tests.interop.small_models import PIECES
from tests.runs.export.piece_models import with_pieces, write_pieces
from tests.runs.random_model import (
    CONFIG,
    as_trained_model,
    random_model,
    random_vocabulary,
    with_checkpoint,
)

PAGE = (REPOSITORY / "docs/exports.md").read_text("utf-8")
# Small models whose heads have the size d_model / num_heads, which all formats have.
SIZES: Any = {"num_layers": 1, "d_model": 24, "d_k": None, "d_v": None}
SLOW = ("text", "ids")
# Numbers of which any value can be expressed.
SIZES_OF_ALL = "d_model d_ff num_layers dropout_rate attention_dropout_rate".split()


def read_rows() -> list[tuple[str, dict[str, str]]]:
    """Returns the first cell of each row of the table, and the others by format."""
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE[PAGE.index("| setting |") :].split("\n\n")[0].splitlines()
    ]
    assert head[1:] == sorted(FORMATS, key=head.index)
    return [(row[0], dict(zip(head[1:], row[1:], strict=True))) for row in rows[1:]]


def parse_flags(text: str) -> dict[str, Any]:
    """Returns settings of the model, from `--name`, `--noname` and `--name=1`."""
    options: dict[str, Any] = {}
    defaults = CONFIG.model.architecture()
    for flag in re.findall(r"--(\S+)", text):
        name, _, value = flag.partition("=")
        if value:
            kind = type(defaults.get(name) or 1)
            kind = str if name == "decoder_start" else kind
            options[name] = kind(value)
        else:
            options[name.removeprefix("no")] = not name.startswith("no")
    return options


def with_flags(folder: Path, flags: str) -> TrainedModel:
    model = random_model(random_vocabulary(), **{**SIZES, **parse_flags(flags)})
    return as_trained_model(model, random_vocabulary())


def with_class(folder: Path, _: str) -> TrainedModel:
    """A model whose settings name a class; its layers are those of the project."""
    trained = with_flags(folder, "")
    model = dataclasses.replace(trained.config.model, model="own.models:Own")
    config = dataclasses.replace(trained.config, model=model)
    return dataclasses.replace(trained, config=config)


def with_two_spms(folder: Path, _: str) -> TrainedModel:
    return with_pieces(write_pieces(folder, ("x", "y")), **SIZES)


def with_words(folder: Path, _: str) -> TrainedModel:
    words = PieceVocabulary(PIECES, WordTokenizer())
    return with_pieces(words, **SIZES, share_embeddings=True)


def with_t2t_subwords(folder: Path, _: str) -> TrainedModel:
    letters = [*"abcdefgh_ \\;0123456789u"]
    pieces = ["<pad>", "</s>", "<unk>", *(f"{letter}_" for letter in "abc"), *letters]
    subwords = PieceVocabulary(pieces, T2TSubwordTokenizer(pieces[3:]))
    return with_pieces(subwords, **SIZES, share_embeddings=True)


def with_languages(folder: Path, _: str) -> TrainedModel:
    pieces = [*PIECES, "__de__", "__en__"]
    tags = LanguageTags({"de": "__de__", "en": "__en__"}, "de", "en")
    words = PieceVocabulary(pieces, WordTokenizer(), languages=tags)
    return with_pieces(words, **SIZES, share_embeddings=True)


MAKERS: dict[str, Callable[[Path, str], TrainedModel]] = {
    "none: the paper's model": lambda folder, _: with_flags(folder, ""),
    "`--model=CLASS`": with_class,
    "imported, two SentencePiece models": with_two_spms,
    "imported, words between spaces": with_words,
    "imported, subwords of Tensor2Tensor": with_t2t_subwords,
    "imported, multilingual (M2M100, NLLB)": with_languages,
}
TOGETHER = "`--ensemble_with`, `--shortlist`"


def make(folder: Path, row: str) -> TrainedModel:
    flags = " ".join(re.findall("`(.*?)`", row))
    return with_checkpoint(MAKERS.get(row, with_flags)(folder, flags), folder)


def export(trained: TrainedModel, folder: Path, export_format: str) -> str:
    """Returns what the table must say."""
    settings = ExportSettings(DecodingConfig(length_penalty="none"), warm_up=("none",))
    for word, is_allowed in (("yes", False), ("similar", True)):
        try:
            export_model(
                trained,
                ModelDir(folder / "run"),
                export_format,
                settings,
                allow_approximate=is_allowed,
            )
        except UserError as error:
            assert re.search(r"Export it as|allow_approximate|--format=", str(error))
        else:
            return word
    return "no"


ROWS = [row for row in read_rows() if row[0] != TOGETHER]


@pytest.mark.parametrize("row, cells", ROWS, ids=[row for row, _ in ROWS])
@pytest.mark.slow
def test_the_table_is_what_exports_do(tmp_path, row, cells) -> None:
    trained = make(tmp_path, row)
    for export_format, word in cells.items():
        if export_format not in SLOW:
            found = export(trained, tmp_path, export_format)
            assert (export_format, found) == (export_format, word)


@pytest.mark.parametrize("row, cells", ROWS, ids=[row for row, _ in ROWS])
@pytest.mark.release
def test_saved_models_have_every_setting(tmp_path, row, cells) -> None:
    trained = make(tmp_path, row)
    for export_format in SLOW:
        found = export(trained, tmp_path, export_format)
        assert (export_format, found) == (export_format, cells[export_format])


def test_models_together_are_for_saved_models() -> None:
    cells = dict(read_rows())[TOGETHER]
    for export_format, word in cells.items():
        for values in ((["other"], None), ((), "file")):
            found = "yes"
            try:
                check_one_model(export_format, *values)
            except UserError as error:
                assert "is for SavedModels" in str(error)
                found = "no"
            assert (export_format, found) == (export_format, word)


def test_the_table_has_every_setting_of_a_model() -> None:
    """And every choice, so that a new one is tried in each format."""
    text = " ".join(row for row, _ in ROWS)
    defaults = default_values(ModelConfig)
    for name, each in settings_of(ModelConfig).items():
        for choice in each.choices:
            assert choice == defaults[name] or f"--{name}={choice}`" in text
        if not each.choices and name not in SIZES_OF_ALL:
            assert re.search(rf"--(no)?{name}\b", text), name
