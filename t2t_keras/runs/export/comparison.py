"""Comparison of a model of another toolkit that was written with the trained one."""

from typing import NamedTuple

import numpy as np
from keras import ops

from t2t_keras.interop.imported_model import ImportedModel
from t2t_keras.interop.imported_weights import load_weights
from t2t_keras.runs import models
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID, Vocabulary
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS

# Lengths of the compared sources and targets, without the end of the sentence.
_LENGTHS = ((1, 9), (40, 30), (12, 1), (7, 60))


class Difference(NamedTuple):
    """Difference of two models' logits for random sentences.

    Attributes:
        largest: The largest difference.
        logit: The largest logit, by its absolute value.
    """

    largest: float
    logit: float

    def __str__(self) -> str:
        return (
            f"logits of random sentences differ by at most {self.largest:.1e}; the "
            f"largest is {self.logit:.1f}"
        )


def measure_difference(imported: ImportedModel, trained: TrainedModel) -> Difference:
    """Returns the difference of a model that was read from the one it was written from.

    Padding is left out, which some formats cannot have. Other pieces have the same
    names in both.
    """
    config, theirs = imported.config(("und", "und")), imported.vocabulary
    written = models.build_model(
        config,
        theirs.size,
        models.find_decoder_start(config.model, theirs),
        theirs.source.size,
    )
    load_weights(imported, written)
    ours, rng = trained.vocabulary, np.random.default_rng(1)
    pairs = [
        (
            [*rng.integers(UNK_ID, ours.source.size, source).tolist(), EOS_ID],
            [*rng.integers(UNK_ID, ours.size, target).tolist(), EOS_ID],
        )
        for source, target in _LENGTHS
    ]
    limit = trained.model.max_positions
    pairs = (
        [(source[-limit:], target[-limit:]) for source, target in pairs]
        if limit
        else pairs
    )
    sources, targets = (pad_sentences(side) for side in zip(*pairs, strict=True))
    source_ids, target_ids = (
        _their_ids(ours.source, theirs.source),
        _their_ids(ours, theirs),
    )
    expected = trained.model(_batch(sources, targets))
    found = written(_batch(source_ids[sources], target_ids[targets]))
    is_token = targets != 0
    expected, found = (
        ops.convert_to_numpy(each)[is_token].astype(np.float64)[:, ids[EOS_ID:]]
        for each, ids in ((expected, np.arange(ours.size)), (found, target_ids))
    )
    return Difference(
        float(np.abs(found - expected).max()), float(np.abs(expected).max())
    )


def _their_ids(ours: Vocabulary, theirs: Vocabulary) -> np.ndarray:
    """Returns the id of each of our ids in a vocabulary with the same pieces."""
    ids = {piece: i for i, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = ours.pieces(range(ours.size))[UNK_ID + 1 :]
    return np.array([*range(UNK_ID + 1), *(ids[piece] for piece in pieces)])


def _batch(sources: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    return {
        ENCODER_INPUT_TOKENS: sources,
        DECODER_INPUT_TOKENS: shift_right(targets),
    }
