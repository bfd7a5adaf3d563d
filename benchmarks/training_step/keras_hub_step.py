"""Training step of keras-hub's layers in Keras' `fit`, on the same batch."""

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


def build_model() -> keras.Model:
    """Returns encoder and decoder stacks with one shared embedding."""
    layers = keras_hub.layers
    source = keras.Input((None,), dtype="int32", name="source")
    shifted = keras.Input((None,), dtype="int32", name="shifted")
    embedding = layers.ReversibleEmbedding(VOCABULARY, WIDTH)
    positions = layers.SinePositionEncoding()

    def embed(tokens):
        vectors = embedding(tokens) * WIDTH**0.5
        return keras.layers.Dropout(DROPOUT)(vectors + positions(vectors))

    memory = embed(source)
    real = keras.ops.not_equal(source, 0)
    for _ in range(LAYERS):
        encoder = layers.TransformerEncoder(INNER, HEADS, dropout=DROPOUT)
        memory = encoder(memory, padding_mask=real)
    hidden = embed(shifted)
    for _ in range(LAYERS):
        decoder = layers.TransformerDecoder(INNER, HEADS, dropout=DROPOUT)
        hidden = decoder(hidden, memory, encoder_padding_mask=real)
    return keras.Model([source, shifted], embedding(hidden, reverse=True))


def smoothed_loss(targets, logits):
    """Returns the loss per token without a one-hot matrix."""
    true = keras.ops.take_along_axis(logits, targets[..., None], -1)[..., 0]
    normalizer = keras.ops.logsumexp(logits, -1)
    mean = normalizer - keras.ops.mean(logits, -1)
    return (1 - SMOOTHING) * (normalizer - true) + SMOOTHING * mean


class BatchEnds(keras.callbacks.Callback):
    """Callback that records when each batch of `fit` ended and the mean loss so far."""

    # Keras calls this in its own threads, which wait for a batch's numbers, so that
    # `fit` continues as it would without a callback.
    async_safe = True

    def __init__(self):
        super().__init__()
        self.ends: dict[int, tuple[float, float]] = {}

    def on_train_batch_end(self, batch, logs=None):
        """Records the loss, and the time at which it is known."""
        self.ends[batch] = time.perf_counter(), (logs or {})["loss"]


def main() -> None:
    """Times the steps of one `fit`; the first step includes compilation."""
    args = arguments(precision=["float32", "bfloat16"], xla=["on", "off"])
    if args.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    model = build_model()
    adam = keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9)
    model.compile(adam, smoothed_loss, jit_compile=args.xla == "on")
    shape = (args.rows, args.length)
    random = np.random.default_rng(0)
    source, target = (random.integers(3, VOCABULARY, shape, "int32") for _ in "st")
    shifted = np.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]
    batches = tf.data.Dataset.from_tensors(((source, shifted), target)).repeat()
    batch_ends = BatchEnds()
    start = time.perf_counter()
    steps = 1 + args.steps
    model.fit(batches, steps_per_epoch=steps, verbose=0, callbacks=[batch_ends])
    ends, means = zip(
        *(batch_ends.ends[batch] for batch in sorted(batch_ends.ends)), strict=True
    )
    first, *seconds = np.diff([start, *ends]).tolist()
    # `fit` reports means over the epoch so far.
    losses = np.diff([0.0, *np.arange(1, steps + 1) * means]).tolist()
    print_figures(first, seconds, target.size, losses)


if __name__ == "__main__":
    main()
