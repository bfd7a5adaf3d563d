"""Export of a trained model for Marian."""

import logging
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.versions import new_version, next_version
from t2t_keras.interop.marian.reader import read_marian
from t2t_keras.interop.marian.settings import (
    find_search_differences,
    marian_type,
    vocabulary_files,
)
from t2t_keras.interop.marian.writer import write_marian
from t2t_keras.runs import models
from t2t_keras.runs.export.comparison import measure_difference
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig

logger = logging.getLogger(__name__)

# A larger difference is no rounding, as a fraction of the largest logit.
_TOLERANCE = 1e-4


def export_marian(trained: TrainedModel, base: Path, decoding: DecodingConfig) -> Path:
    """Writes a new version, a model of Marian, and returns its directory.

    Before it gets its name, it is read again and compared with the model.

    Args:
        trained: The model.
        base: Directory of the versions, each named by an integer.
        decoding: Settings of the search, for decoder.yml.

    Raises:
        UserError: If Marian has no such model, or the written one computes another
            function.
        OSError: If the version cannot be written.
    """
    trained = models.cast_to_precision(trained, "float32")
    vocabularies = vocabulary_files(
        trained.vocabulary, share_embeddings=trained.model.sizes["share_embeddings"]
    )
    kind = marian_type(trained.model)
    for difference in find_search_differences(decoding):
        logger.warning(difference)
    with new_version(final := next_version(base)) as folder:
        write_marian(trained.model, vocabularies, folder, decoding=decoding)
        found = measure_difference(read_marian(folder), trained)
        if found.largest > _TOLERANCE * max(1.0, found.logit):
            raise UserError(
                f"The written model's logits differ by {found.largest:.2g}, and the "
                f"largest is {found.logit:.3g}. Check the disk, and export again; if "
                "it happens again, this project has a fault."
            )
    logger.info(f"type {kind} of Marian; {found}")
    return final
