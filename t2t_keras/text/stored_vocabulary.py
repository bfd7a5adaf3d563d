"""Opening of vocabularies of either kind from their files."""

from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.text.piece_archive import is_piece_vocabulary
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.vocabulary import Vocabulary, read_vocabulary_file


def load_vocabulary(path: str | Path, sha256: str | None = None) -> Vocabulary:
    """Returns the vocabulary in a file, such as MODEL_DIR/vocabulary.model.

    Args:
        path: The file.
        sha256: Digest of the vocabulary that a model was trained with. Default: any.

    Raises:
        UserError: If the file cannot be read, is neither a SentencePiece model with
            the special ids of this project nor a vocabulary that `t2t_keras.convert`
            wrote, or has another digest.
    """
    content = read_vocabulary_file(path)
    vocabulary = vocabulary_from_bytes(content, f"The file {path}")
    if sha256 and sha256 != vocabulary.sha256:
        raise UserError(
            f"{path} is not the vocabulary that this model was trained with: its "
            f"SHA-256 is {vocabulary.sha256[:12]}…, expected {sha256[:12]}…. Put the "
            "original file back."
        )
    return vocabulary


def vocabulary_from_bytes(content: bytes, name: str = "These bytes") -> Vocabulary:
    """Returns the vocabulary with this content, which `Vocabulary.to_bytes` returned.

    `name` says in messages what the content is.

    Raises:
        UserError: If it is not a vocabulary.
    """
    if is_piece_vocabulary(content):
        return PieceVocabulary.from_bytes(content, name)
    return SubwordVocabulary(content, name)
