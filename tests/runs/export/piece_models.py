"""Models with vocabularies of imports, for exports to other toolkits."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.runs import models
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.tokenizers import SentencePieceTokenizer
from tests.interop.small_models import PIECES
from tests.interop.tokenizer_files import write_spm_pair
from tests.runs.random_model import CONFIG, as_trained_model, random_vocabulary


def write_pieces(folder: Path, extra: tuple[str, ...]) -> PieceVocabulary:
    """Returns a vocabulary with further pieces for sources."""
    write_spm_pair(folder)
    source, target = (
        SentencePieceTokenizer((folder / f"{side}.spm").read_bytes())
        for side in ("source", "target")
    )
    return PieceVocabulary(PIECES, target, PieceVocabulary([*PIECES, *extra], source))


def with_pieces(vocabulary: PieceVocabulary, **sizes: Any) -> TrainedModel:
    """Returns a model with weights far from those of a fresh one."""
    sizes = {"share_embeddings": False, **sizes}
    config = dataclasses.replace(CONFIG.model, **sizes)
    config = dataclasses.replace(CONFIG, model=config)
    model = models.build_model(config, vocabulary.size, "zero", vocabulary.source.size)
    rng = np.random.default_rng(4)
    for weight in model.weights:
        weight.assign(weight + rng.normal(scale=0.3, size=weight.shape))
    trained: Any = dataclasses.replace(
        as_trained_model(model, random_vocabulary()), vocabulary=vocabulary
    )
    return trained
