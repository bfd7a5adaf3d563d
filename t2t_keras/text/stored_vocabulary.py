"""Opening of vocabularies of either kind from their files."""

from pathlib import Path

from t2t_keras.text.piece_vocabulary import PieceVocabulary, is_piece_vocabulary
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.vocabulary import Vocabulary, read_vocabulary_file


def load_vocabulary(path: str | Path) -> Vocabulary:
    """Returns the vocabulary in a file, such as MODEL_DIR/vocabulary.model.

    Raises:
        UserError: If the file cannot be read, or is neither a SentencePiece model with
            the special ids of this project nor a vocabulary that
            `t2t_keras.convert` wrote.
    """
    content = read_vocabulary_file(path)
    return vocabulary_from_bytes(content, f"The file {path}")


def vocabulary_from_bytes(content: bytes, name: str = "These bytes") -> Vocabulary:
    """Returns the vocabulary of a file with what `Vocabulary.to_bytes` returned.

    Raises:
        UserError: If it is not a vocabulary.
    """
    if is_piece_vocabulary(content):
        return PieceVocabulary.from_bytes(content, name)
    return SubwordVocabulary(content, name)
