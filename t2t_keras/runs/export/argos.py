"""Export of a trained model as a package of Argos Translate, also for LibreTranslate.

Source: argostranslate 1.11, package.py, translate.py, tokenizer.py and sbd.py.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.versions import new_version, next_version
from t2t_keras.interop.argos_sentences import sentence_model
from t2t_keras.runs.export.ctranslate2 import check_expressible, write_model
from t2t_keras.runs.export.readable_card import UNDETERMINED, model_card
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.languages import language_name
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.sentencepiece_models import load_processor

# The release whose packages these are.
_ARGOS_VERSION = "1.11"
_TOKENIZER = "sentencepiece.model"
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_USAGE = """\
It is a package of [Argos Translate](https://github.com/argosopentech/argos-translate),
which LibreTranslate uses too. `argostranslate.package.install_from_path("{name}")`
installs it. It has a sentence splitter of its own, so nothing is downloaded."""


def export_argos(
    trained: TrainedModel,
    model_dir: ModelDir,
    quantization: str = "float32",
    license_name: str | None = None,
) -> Path:
    """Writes a new version, a file `.argosmodel`, and returns its directory.

    Args:
        trained: The model.
        model_dir: Directory of its run, which gets the new version.
        quantization: Storage type of the weights; see `write_ctranslate2`.
        license_name: License, for the README; None if it is not known.

    Raises:
        UserError: As `export_ctranslate2`, and if the languages or SentencePiece models
            are missing that a package needs.
        OSError: If the version cannot be written.
    """
    data = trained.config.data
    codes = data.source_language, data.target_language
    _check_languages(codes)
    tokenizer = tokenizer_file(trained)
    check_expressible(trained.model)
    folder_name = f"translate-{codes[0]}_{codes[1]}"
    final = next_version(model_dir.export_argos)
    with new_version(final) as temporary:
        folder = temporary / folder_name
        folder.mkdir()
        write_model(trained, folder / "model", quantization)
        (folder / _TOKENIZER).write_bytes(tokenizer)
        (folder / "minisbd").mkdir()
        rules = folder / "minisbd" / "rules.onnx"
        rules.write_bytes(sentence_model(codes[0]))
        metadata = _metadata(codes, final.name)
        (folder / "metadata.json").write_text(json.dumps(metadata, indent=2), "utf-8")
        usage = _USAGE.format(name=f"{folder_name}.argosmodel")
        card = model_card(trained, model_dir, license_name, usage)
        (folder / "README.md").write_text(card, "utf-8")
        _pack(folder, temporary / f"{folder_name}.argosmodel")
        shutil.rmtree(folder)
    return final


def _check_languages(codes: tuple[str, str]) -> None:
    for name, code in zip(("source", "target"), codes, strict=True):
        # A code is a part of the folder's name.
        if code == UNDETERMINED or not re.fullmatch("[A-Za-z][-A-Za-z0-9]*", code):
            raise UserError(
                "A package of Argos Translate is found by its languages' codes, such "
                f"as en and de, and the run has --{name}_language={code}. Change it in "
                "train.flags of the run, or convert the model again with "
                f"--{name}_language."
            )
    if codes[0] == codes[1]:
        raise UserError(
            "A package of Argos Translate is found by its languages' codes, which "
            f"differ. Received: {codes[0]} for both"
        )


def tokenizer_file(trained: TrainedModel) -> bytes:
    """Returns the SentencePiece model of a package, which splits sources.

    Argos Translate has one for both sides. It joins pieces that the model does not know
    as they are, so the source's serves for a target of other pieces too.

    Raises:
        UserError: If the vocabulary has none, or the target's pieces cannot be joined.
    """
    vocabulary = trained.vocabulary
    if not isinstance(vocabulary, PieceVocabulary):
        return vocabulary.to_bytes()
    content = vocabulary.tokenizer_files().get("source.spm")
    if content is None:
        raise UserError(
            "Argos Translate splits text by a SentencePiece model, and this model has "
            "none. Export it as a SavedModel or for CTranslate2."
        )
    processor = load_processor(content, "The source's SentencePiece model")
    for piece in vocabulary.pieces(range(vocabulary.size)):
        if _BYTE.fullmatch(piece) and not processor.is_byte(
            processor.piece_to_id(piece)
        ):
            raise UserError(
                "Argos Translate has one SentencePiece model for both languages, and "
                f"that of the source cannot join the target's bytes, such as {piece}. "
                "Export it as a SavedModel or for CTranslate2."
            )
    return content


def _metadata(codes: tuple[str, str], version: str) -> Mapping[str, Any]:
    source, target = codes
    return {
        "type": "translate",
        "package_version": f"{version}.0",
        "argos_version": _ARGOS_VERSION,
        "from_code": source,
        "from_name": language_name(source),
        "to_code": target,
        "to_name": language_name(target),
    }


def _pack(folder: Path, path: Path) -> None:
    """Writes a zip archive with the folder, whose name packages are installed by."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent).as_posix())
