"""SentencePiece models of source and target beside an imported model."""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import IdMap
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.sentencepiece_models import load_processor
from t2t_keras.text.tokenizers import (
    SentencePieceTokenizer,
    Tokenizer,
    WordTokenizer,
)

# Fraction of a SentencePiece model's pieces that the vocabulary must have. A vocabulary
# counted on text may lack rare ones; that of another model has about the characters.
_LEAST_KNOWN = 0.5


def open_piece_vocabulary(
    folder: Path,
    source: IdMap,
    target: IdMap,
    files: Sequence[Path] | None = None,
    skips_unknown: bool = False,
) -> tuple[PieceVocabulary, list[Path]]:
    """Returns the vocabulary with its tokenizers, and the files that these are.

    Args:
        folder: Folder that may have source.spm and target.spm. Without them, tokens
            are words between spaces.
        source: Ids of sources.
        target: Ids of targets.
        files: SentencePiece models, one or two, instead of those of the folder; none
            for words.
        skips_unknown: As in `PieceVocabulary`.

    Raises:
        UserError: If only one of the two files exists, one cannot be read, or it has
            other pieces than the vocabulary.
    """
    paths = _find_files(folder, files)
    tokenizers: list[Tokenizer] = []
    for path, ids in zip(paths, (source, target), strict=False):
        content, name = read_spm(path)
        if tokenizers and tokenizers[0].to_files() == {"spm": content}:
            tokenizers.append(tokenizers[0])
            continue
        tokenizer = SentencePieceTokenizer(content, name)
        check_pieces(path, tokenizer.processor, ids.pieces)
        tokenizers.append(tokenizer)
    of_source, of_target = tokenizers or [WordTokenizer()] * 2
    vocabulary = PieceVocabulary(
        target.pieces,
        of_target,
        PieceVocabulary(source.pieces, of_source),
        skips_unknown=skips_unknown,
    )
    return vocabulary, list(dict.fromkeys(paths))


def _find_files(folder: Path, files: Sequence[Path] | None) -> list[Path]:
    """Returns the SentencePiece models of source and target; none for words."""
    if files is None:
        paths = [folder / f"{side}.spm" for side in ("source", "target")]
        found = [path for path in paths if path.is_file()]
        if len(found) == 1:
            missing = next(path for path in paths if path not in found)
            raise UserError(
                f"{folder} has {found[0].name}, but no {missing.name}. Put both there, "
                "or none if the text is split into pieces already."
            )
        return found
    return [files[0], files[-1]] if files else []


def read_processor(path: Path) -> sentencepiece.SentencePieceProcessor:
    """Returns the SentencePiece model in a file.

    Raises:
        UserError: If it cannot be read.
    """
    return load_processor(*read_spm(path))


def read_spm(path: Path) -> tuple[bytes, str]:
    """Returns the content of a SentencePiece model, and its name for messages.

    Raises:
        UserError: If it cannot be read.
    """
    try:
        return path.read_bytes(), f"The file {path}"
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def check_pieces(
    path: Path,
    processor: sentencepiece.SentencePieceProcessor,
    pieces: Sequence[str],
) -> None:
    """Raises `UserError` if a SentencePiece model has other pieces than a vocabulary.

    `path` is its file, for the message.
    """
    own = [
        processor.id_to_piece(i)
        for i in range(processor.get_piece_size())
        if not (processor.is_control(i) or processor.is_unknown(i))
    ]
    known = len(set(own) & set(pieces))
    if known < _LEAST_KNOWN * len(own):
        raise UserError(
            f"{path} does not belong to this model: the vocabulary has {known} of its "
            f"{len(own)} pieces. Put the file of the model itself there."
        )
