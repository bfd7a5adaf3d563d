"""The vocabulary of a run."""

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary


def vocabulary_of(model_dir: ModelDir) -> Vocabulary:
    """Returns the vocabulary of a run, checked against its run card."""
    return load_vocabulary(model_dir.vocabulary_file, model_dir.vocabulary_sha256)
