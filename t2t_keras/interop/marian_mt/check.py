"""Comparison of a written MarianMT model with the model that it was written from."""

from pathlib import Path

import numpy as np
from keras import ops

from t2t_keras.interop.marian_mt.reader import read_transformers
from t2t_keras.interop.model_directory import load_model
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS

# Lengths of the compared sources and targets, without the end of the sentence.
_LENGTHS = ((1, 9), (40, 30), (12, 1), (7, 60))


def measure_difference(folder: Path, trained: TrainedModel) -> tuple[float, float]:
    """Returns the largest difference of logits, and the largest logit, both absolute.

    The folder is read again as its format says, and both models compute the logits of
    random sentences. Both have the same ids, except that of padding.

    Args:
        folder: Folder of the written model.
        trained: The model that it was written from.

    Raises:
        UserError: As `read_transformers`.
    """
    imported = read_transformers(folder)
    written = load_model(imported, imported.config(("und", "und")))
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
