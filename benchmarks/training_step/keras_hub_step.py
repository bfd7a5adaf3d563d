"""keras-hub's layers under Keras' own training step, on the same batch."""

import keras
import keras_hub
import numpy as np

from benchmarks.training_step.measured import (
    DROPOUT,
    HEADS,
    INNER,
    LAYERS,
    SMOOTHING,
    VOCABULARY,
    WIDTH,
    arguments,
    report,
)


def built() -> keras.Model:
    """Returns encoder and decoder stacks round one shared embedding."""
    layers = keras_hub.layers
    source = keras.Input((None,), dtype="int32", name="source")
    shifted = keras.Input((None,), dtype="int32", name="shifted")
    embedding = layers.ReversibleEmbedding(VOCABULARY, WIDTH)
    positions = layers.SinePositionEncoding()

    def embedded(tokens):
        vectors = embedding(tokens) * WIDTH**0.5
        return keras.layers.Dropout(DROPOUT)(vectors + positions(vectors))

    memory = embedded(source)
    real = keras.ops.not_equal(source, 0)
    for _ in range(LAYERS):
        encoder = layers.TransformerEncoder(INNER, HEADS, dropout=DROPOUT)
        memory = encoder(memory, padding_mask=real)
    hidden = embedded(shifted)
    for _ in range(LAYERS):
        decoder = layers.TransformerDecoder(INNER, HEADS, dropout=DROPOUT)
        hidden = decoder(hidden, memory, encoder_padding_mask=real)
    return keras.Model([source, shifted], embedding(hidden, reverse=True))


def smoothed(targets, logits):
    """Returns the loss per token without a one-hot matrix."""
    true = keras.ops.take_along_axis(logits, targets[..., None], -1)[..., 0]
    normalizer = keras.ops.logsumexp(logits, -1)
    mean = normalizer - keras.ops.mean(logits, -1)
    return (1 - SMOOTHING) * (normalizer - true) + SMOOTHING * mean


def main() -> None:
    """Times the step that `fit` makes, one batch at a time."""
    given = arguments(precision=["float32", "bfloat16"], xla=["on", "off"])
    if given.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    model = built()
    adam = keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9)
    model.compile(adam, smoothed, jit_compile=given.xla == "on")
    shape = (given.rows, given.length)
    random = np.random.default_rng(0)
    source, target = (random.integers(3, VOCABULARY, shape, "int32") for _ in "st")
    shifted = np.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]

    def step() -> float:
        return float(model.train_on_batch((source, shifted), target))

    report(step, target.size, given.steps)


if __name__ == "__main__":
    main()
