"""Packages of Argos Translate: files, languages, vocabularies, and what is refused."""

import dataclasses
import json
import zipfile
from typing import Any

import ctranslate2
import pytest
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.runs.export.argos import export_argos
from t2t_keras.runs.export.ctranslate2 import export_ctranslate2
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.tokenizers import SentencePieceTokenizer, WordTokenizer
from tests.interop.small_models import PIECES
from tests.runs.export.piece_models import with_pieces, write_pieces
from tests.runs.random_model import as_trained_model, random_model, with_checkpoint

SIZES: Any = {"num_layers": 1, "d_model": 24}


def write(trained: TrainedModel, folder: Any, **options: Any) -> zipfile.ZipFile:
    trained = with_checkpoint(trained, folder)
    version = export_argos(trained, ModelDir(folder / "run"), **options)
    assert version.parent == folder / "run" / "export_argos"
    (package,) = version.iterdir()
    assert package.name == "translate-en_fr.argosmodel"
    return zipfile.ZipFile(package)


def test_a_package_has_the_files_that_argos_translate_reads(
    tmp_path, vocabulary
) -> None:
    """And the model is that of an export to CTranslate2."""
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    with write(trained, tmp_path, license_name="mit") as package:
        names = set(package.namelist())
        assert {name.split("/")[0] for name in names} == {"translate-en_fr"}
        root = "translate-en_fr"
        metadata = json.loads(package.read(f"{root}/metadata.json"))
        assert metadata == {
            "type": "translate",
            "package_version": "1.0",
            "argos_version": "1.11",
            "from_code": "en",
            "from_name": "English",
            "to_code": "fr",
            "to_name": "French",
        }
        tokenizer = package.read(f"{root}/sentencepiece.model")
        assert tokenizer == vocabulary.model_proto
        assert f"{root}/minisbd/rules.onnx" in names
        readme = package.read(f"{root}/README.md").decode()
        assert "`mit`" in readme and "translate-en_fr.argosmodel" in readme
        package.extractall(tmp_path / "packages")
    model = tmp_path / "packages" / root / "model"
    other = export_ctranslate2(trained, tmp_path / "ctranslate2")
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        assert (model / name).read_bytes() == (other / name).read_bytes()
    with write(trained, tmp_path, quantization="int8") as package:
        metadata = json.loads(package.read(f"{root}/metadata.json"))
        assert metadata["package_version"] == "2.0"
        size = package.getinfo(f"{root}/model/model.bin").file_size
    # A quarter, but for what has one axis and the positions.
    assert size < 0.8 * (model / "model.bin").stat().st_size


def test_two_vocabularies_have_the_tokenizer_of_the_source(tmp_path) -> None:
    """It joins pieces of the target that it does not have, as that of the target."""
    vocabulary = write_pieces(tmp_path, ("x", "y"))
    trained = with_pieces(vocabulary, **SIZES)
    with write(trained, tmp_path) as package:
        package.extractall(tmp_path)
    folder = tmp_path / "translate-en_fr"
    processor = sentencepiece.SentencePieceProcessor()
    processor.Load(str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder / "model"))
    pieces = processor.encode("w4 w7", out_type=str)
    (answer,) = translator.translate_batch([pieces], max_decoding_length=6)
    found = answer.hypotheses[0]
    assert set(found) <= {*PIECES}
    ids = [PIECES.index(piece) for piece in found]
    assert processor.decode_pieces(found).split() == vocabulary.decode(ids).split()


def test_without_a_sentencepiece_model_it_is_refused(tmp_path) -> None:
    words = PieceVocabulary(PIECES, WordTokenizer())
    trained = with_pieces(words, **SIZES, share_embeddings=True)
    with pytest.raises(UserError, match="by a SentencePiece model, and this model has"):
        write(trained, tmp_path)
    assert not (tmp_path / "run").exists()


def test_bytes_that_the_source_cannot_join_are_refused(tmp_path) -> None:
    vocabulary = write_pieces(tmp_path, ("x",))
    tokenizer = SentencePieceTokenizer((tmp_path / "target.spm").read_bytes())
    target = PieceVocabulary([*PIECES, "<0xE2>"], tokenizer, vocabulary.source)
    with pytest.raises(UserError, match=r"cannot join the target's bytes.* <0xE2>"):
        write(with_pieces(target, **SIZES), tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "languages, message",
    [
        ({"source_language": "und"}, "--source_language=und. Change it in train.flags"),
        ({"target_language": "../x"}, r"--target_language=\.\./x"),
        ({"target_language": "en"}, "which differ. Received: en for both"),
    ],
)
def test_languages_are_needed(tmp_path, vocabulary, languages, message) -> None:
    trained = as_trained_model(random_model(vocabulary, **SIZES), vocabulary)
    data = dataclasses.replace(trained.config.data, **languages)
    config = dataclasses.replace(trained.config, data=data)
    with pytest.raises(UserError, match=message):
        write(dataclasses.replace(trained, config=config), tmp_path)
    assert not (tmp_path / "run").exists()


def test_what_ctranslate2_lacks_is_refused_before_anything_is_written(
    tmp_path, vocabulary
) -> None:
    model = random_model(vocabulary, **SIZES, encoder_neighborhood=3)
    with pytest.raises(UserError, match="--encoder_neighborhood=3"):
        write(as_trained_model(model, vocabulary), tmp_path)
    assert not (tmp_path / "run").exists()
