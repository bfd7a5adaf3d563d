"""Model that all programs translate with, written in each format that they read.

    python -m benchmarks.decoding.write

The weights are drawn from a seed. The decoder's last layer normalization flips the
signs of random features, because a fresh model would repeat one token forever. It also
sets the first feature to a constant, for which EOS has a large negative weight, so that
every search continues to its limit. The embedding of padding, which the decoder starts
from, is the zero vector.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
from keras import ops

from benchmarks.decoding import measured
from t2t_keras.interop.ctranslate2.writer import Architecture, write_ctranslate2
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.export.ctranslate2 import model_weights, position_encodings
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig

# Length of the longest source and translation.
POSITIONS = 128


def main() -> None:
    """Writes weights.npz and the models of CTranslate2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("runs/decoding_benchmark"))
    folder = parser.parse_args().model
    folder.mkdir(parents=True, exist_ok=True)
    model = build_model(base_config(), measured.VOCABULARY)
    encodings, weights = position_encodings(model, POSITIONS), model_weights(model)
    np.savez(folder / "weights.npz", positions=encodings, **weights)
    pieces = ["<pad>", "</s>", "<unk>", *map(str, range(3, measured.VOCABULARY))]
    for quantization in ("float32", "int8"):
        directory = folder / f"ctranslate2_{quantization}"
        shutil.rmtree(directory, ignore_errors=True)
        write_ctranslate2(
            weights,
            encodings,
            (pieces, pieces),
            directory,
            architecture=Architecture(measured.HEADS),
            quantization=quantization,
        )


def base_config(layers: str | None = None) -> ExperimentConfig:
    """Returns the settings of the base model, or with other numbers of layers."""
    default = f"{measured.LAYERS},{measured.LAYERS}"
    encoder_layers, decoder_layers = map(int, (layers or default).split(","))
    return ExperimentConfig(
        model=ModelConfig(
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            d_model=measured.WIDTH,
            d_ff=measured.INNER,
            num_heads=measured.HEADS,
        )
    )


def build_model(config: ExperimentConfig, vocabulary_size: int) -> Transformer:
    """Returns a model with seeded weights whose searches continue to their limit."""
    model = models.build_model(config, vocabulary_size)
    embeddings_VD = ops.convert_to_numpy(model.output_embeddings.value).copy()
    embeddings_VD[0] = 0.0
    embeddings_VD[:, 0] = 0.0
    embeddings_VD[measured.EOS, 0] = -1.0
    model.output_embeddings.assign(embeddings_VD)
    norm = model.decoder.layers[-1].feed_forward_residual.norm
    width = config.model.d_model
    first_D = np.arange(width) == 0
    signs_D = np.random.default_rng(1).choice([-1.0, 1.0], width)
    norm.gamma.assign(np.where(first_D, 0.0, signs_D))
    norm.beta.assign(np.where(first_D, 30.0, 0.0))
    return model


if __name__ == "__main__":
    main()
