"""keras-hub's layers trained by Keras' own `fit`, on the same batch."""

import time

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.training_step.measured import (
    DROPOUT,
    HEADS,
    INNER,
    LAYERS,
    SMOOTHING,
    VOCABULARY,
    WIDTH,
    arguments,
    print_figures,
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


class BatchEnds(keras.callbacks.Callback):
    """When each batch of `fit` was over, and the mean loss so far."""

    # `fit` goes on meanwhile, as without it: called in threads of Keras' own, where the
    # numbers of a batch are waited for.
    async_safe = True

    def __init__(self):
        super().__init__()
        self.ends: dict[int, tuple[float, float]] = {}

    def on_train_batch_end(self, batch, logs=None):
        """Notes the time, once the loss is known, and the loss."""
        self.ends[batch] = time.perf_counter(), (logs or {})["loss"]


def main() -> None:
    """Times the steps of one `fit`, of which the first is also compiled."""
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
    batches = tf.data.Dataset.from_tensors(((source, shifted), target)).repeat()
    noted = BatchEnds()
    start = time.perf_counter()
    steps = 1 + given.steps
    model.fit(batches, steps_per_epoch=steps, verbose=0, callbacks=[noted])
    ends, means = zip(*(noted.ends[batch] for batch in sorted(noted.ends)), strict=True)
    first, *seconds = np.diff([start, *ends]).tolist()
    # `fit` reports means over the epoch so far.
    losses = np.diff([0.0, *np.arange(1, steps + 1) * means]).tolist()
    print_figures(first, seconds, target.size, losses)


if __name__ == "__main__":
    main()
