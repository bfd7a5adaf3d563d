"""Export of a trained model as a file of Keras."""

from pathlib import Path

import keras
import numpy as np
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.files.versions import new_version, next_version
from t2t_keras.runs.models import TrainedModel


def export_keras(trained: TrainedModel, base: Path) -> Path:
    """Writes a new version, model.keras and the vocabulary; returns its directory.

    `keras.models.load_model` loads it on each backend on which the model runs. Before
    the version gets its name, it is loaded again and its weights are compared.

    Raises:
        UserError: If the file has other weights than the model.
        OSError: If the version cannot be written.
    """
    with new_version(final := next_version(base)) as temporary:
        path = temporary / "model.keras"
        trained.model.save(path)
        again = keras.models.load_model(path)
        for ours, theirs in zip(trained.model.weights, again.weights, strict=True):
            written, read = map(ops.convert_to_numpy, (ours.value, theirs.value))
            if not np.array_equal(written, read, equal_nan=True):
                raise UserError(
                    f"{ours.path} was read from {path.name} with other numbers than "
                    "were written. Check the disk, and export again."
                )
        trained.vocabulary.save(temporary / "vocabulary.model")
    return final
