"""Export of a trained model as a MarianMT model of Hugging Face transformers."""

import logging
from pathlib import Path

import numpy as np
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.files.versions import new_version, next_version
from t2t_keras.interop.imported_weights import load_weights
from t2t_keras.interop.transformers.marian_writer import (
    check_expressible,
    find_differences,
    tokenizer_files,
    write_marian_mt,
)
from t2t_keras.interop.transformers.reader import read_transformers
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS

logger = logging.getLogger(__name__)

# A larger difference is no rounding, as a fraction of the largest logit.
_TOLERANCE = 0.01
# Lengths of the compared sources and targets, without the end of the sentence.
_LENGTHS = ((1, 9), (40, 30), (12, 1), (7, 60))


def export_transformers(
    trained: TrainedModel,
    base: Path,
    decoding: DecodingConfig,
    *,
    allow_approximate: bool = False,
) -> Path:
    """Writes a new version, a MarianMTModel of transformers, and returns its directory.

    Before it gets its name, it is read again and compared with the model.

    Args:
        trained: The model.
        base: Directory of the versions, each named by an integer.
        decoding: Settings of the search, for generation_config.json.
        allow_approximate: Whether to write a model that MarianMT computes otherwise.

    Raises:
        UserError: If MarianMT has no such model; or it has only a similar one, and
            `allow_approximate` is false.
        OSError: If the version cannot be written.
    """
    # Weights are written, and logits compared, in float32.
    trained = models.cast_to_precision(trained, "float32")
    tokenizer_files(trained.vocabulary)  # raises before anything is written
    check_expressible(trained.model)
    differences = find_differences(trained.model)
    if differences and not allow_approximate:
        raise UserError(
            f"MarianMT of transformers {'; it '.join(differences)}. With "
            "--allow_approximate the nearest model is written, and the difference of "
            "its logits is measured."
        )
    for difference in differences:
        logger.warning(f"MarianMT {difference}")
    if decoding.length_penalty == "gnmt":
        logger.warning(
            "transformers has no GNMT length penalty: it divides by "
            f"length^{decoding.alpha:g}"
        )
    data = trained.config.data
    with new_version(final := next_version(base)) as folder:
        write_marian_mt(
            trained.model,
            trained.vocabulary,
            folder,
            decoding=decoding,
            languages=(data.source_language, data.target_language),
        )
        difference, largest = _measure_difference(folder, trained)
        if not allow_approximate and difference > _TOLERANCE * max(1.0, largest):
            raise UserError(
                f"The written model's logits differ by {difference:.2g}, and the "
                f"largest is {largest:.3g}: layer normalization has another epsilon "
                "there. Use --allow_approximate to write it all the same."
            )
    logger.info(
        f"logits of random sentences differ by at most {difference:.1e}; the largest "
        f"is {largest:.1f}"
    )
    return final


def _read_again(folder: Path) -> Transformer:
    imported = read_transformers(folder)
    config = imported.config(("und", "und"))
    vocabulary = imported.vocabulary
    model = models.build_model(
        config,
        vocabulary.size,
        models.find_decoder_start(config.model, vocabulary),
        vocabulary.source.size,
    )
    load_weights(imported, model)
    return model


def _measure_difference(folder: Path, trained: TrainedModel) -> tuple[float, float]:
    """Returns the largest difference of logits, and the largest logit, both absolute.

    The folder is read again as its format says, and both models compute the logits of
    random sentences. Both have the same ids, except that of padding.
    """
    written = _read_again(folder)
    vocabulary = trained.vocabulary
    rng = np.random.default_rng(1)

    def draw(length: int, size: int) -> list[int]:
        return [*rng.integers(UNK_ID, size, length).tolist(), EOS_ID]

    pairs = [
        (draw(source, vocabulary.source.size), draw(target, vocabulary.size))
        for source, target in _LENGTHS
    ]
    sources, targets = (pad_sentences(side) for side in zip(*pairs, strict=True))
    batch = {
        ENCODER_INPUT_TOKENS: sources,
        DECODER_INPUT_TOKENS: shift_right(targets),
    }
    is_token = targets != 0
    expected, found = (
        ops.convert_to_numpy(model(batch))[is_token][:, EOS_ID : vocabulary.size]
        for model in (trained.model, written)
    )
    difference = np.abs(found.astype(np.float64) - expected)
    return float(difference.max()), float(np.abs(expected).max())
