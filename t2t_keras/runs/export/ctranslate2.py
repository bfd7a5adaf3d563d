"""Export of a trained model for CTranslate2."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.files.versions import next_version
from t2t_keras.interop.ctranslate2.writer import (
    Architecture,
    Weights,
    write_ctranslate2,
)
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.vocabulary import Vocabulary

# Positions of the sinusoidal encoding to write. CTranslate2 truncates sources to 1,024
# tokens by default.
_POSITIONS = 1024


def export_ctranslate2(
    trained: TrainedModel, base: Path, quantization: str = "float32"
) -> Path:
    """Writes a new version for CTranslate2, with the vocabulary; returns its directory.

    Args:
        trained: The model.
        base: Directory of the versions, each named by an integer.
        quantization: Storage type of the weights; see `write_ctranslate2`.

    Raises:
        UserError: As `write_ctranslate2`, and if the encoder's attention is
            restricted to a neighborhood.
        OSError: If the version cannot be written.
    """
    check_expressible(trained.model)
    files = _tokenizer_files(trained.vocabulary)
    return write_model(trained, next_version(base), quantization, files)


def check_expressible(model: Transformer) -> None:
    """Raises `UserError` if CTranslate2 has no such model."""
    if model.sizes["encoder_neighborhood"]:
        raise UserError(
            "CTranslate2 has no encoder whose attention is restricted to a "
            "neighborhood, and this model was trained with --encoder_neighborhood="
            f"{model.sizes['encoder_neighborhood']}. Export it as a SavedModel."
        )


def write_model(
    trained: TrainedModel,
    directory: Path,
    quantization: str,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """Writes a model that `check_expressible` accepts, and returns its directory.

    Args:
        trained: The model.
        directory: As in `write_ctranslate2`.
        quantization: As in `write_ctranslate2`.
        files: As in `write_ctranslate2`.

    Raises:
        UserError: As `write_ctranslate2`.
        OSError: If the directory cannot be written.
    """
    model, vocabulary = trained.model, trained.vocabulary
    pieces = (
        vocabulary.source.pieces(range(vocabulary.source.size)),
        vocabulary.pieces(range(vocabulary.size)),
    )
    return write_ctranslate2(
        model_weights(model),
        position_encodings(model, model.max_positions or _POSITIONS),
        pieces,
        directory,
        architecture=Architecture(
            *(model.sizes[name] for name in Architecture._fields)
        ),
        quantization=quantization,
        files=files,
    )


def _tokenizer_files(vocabulary: Vocabulary) -> dict[str, bytes]:
    """Returns the SentencePiece models that split text into the pieces."""
    if isinstance(vocabulary, PieceVocabulary):
        return vocabulary.tokenizer_files()
    return {"vocabulary.model": vocabulary.to_bytes()}


def model_weights(model: Transformer) -> Weights:
    """Returns a model's weights by their path below the model."""
    return {
        weight.path.split("/", 1)[1]: ops.convert_to_numpy(weight.value)
        for weight in model.weights
    }


def position_encodings(model: Transformer, length: int):
    """Returns the positional encoding of the first positions, [L, D] float32 NumPy."""
    zeros = ops.zeros((1, length, model.sizes["d_model"]))
    return ops.convert_to_numpy(model.position_encoding(zeros))[0]
