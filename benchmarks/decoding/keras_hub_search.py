"""keras-hub's BeamSampler over its encoder and decoder layers, with the same weights.

    python -m benchmarks.decoding.keras_hub_search --batch=32

It has no encoder-decoder of this kind, so its layers are joined here: positions,
caches of the decoder, and the keys and values of the source, once for each beam, as
its sampler wants them. Its sampler knows no length penalty; all outputs are equally
long.
"""

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops

from benchmarks.decoding import measured

WIDTH, HEADS, LENGTH = measured.WIDTH, measured.HEADS, measured.LENGTH


class Translator:
    """The layers, joined.

    Args:
        weights: Of `write`.
    """

    def __init__(self, weights):
        layers = keras_hub.layers
        sizes = {
            "intermediate_dim": measured.INNER,
            "num_heads": HEADS,
            "layer_norm_epsilon": 1e-6,
        }
        self.embedding = layers.ReversibleEmbedding(measured.VOCABULARY, WIDTH)
        self.embedding.build()
        self.embedding.embeddings.assign(weights["embedding/embeddings"])
        self.positions = ops.convert_to_tensor(weights["positions"], "float32")
        self.encoder = [layers.TransformerEncoder(**sizes) for _ in range(6)]
        self.decoder = [layers.TransformerDecoder(**sizes) for _ in range(6)]
        shape = (None, None, WIDTH)
        for i, layer in enumerate(self.encoder):
            layer.build(shape)
            copy_layer(layer, weights, f"encoder/layer_{i}")
        for i, layer in enumerate(self.decoder):
            layer.build(shape, shape)
            copy_layer(layer, weights, f"decoder/layer_{i}")
        self.sampler = keras_hub.samplers.BeamSampler(num_beams=measured.BEAM)

    def embedded(self, tokens, position=0):
        """Returns vectors with positions, [B, L, D]."""
        length = tokens.shape[1] or ops.shape(tokens)[1]
        vectors = self.embedding(tokens) * WIDTH**0.5
        rows = position + ops.arange(length)
        return vectors + ops.cast(ops.take(self.positions, rows, 0), vectors.dtype)

    def translate(self, source):
        """Returns the best hypotheses [B, 25] of sources [B, S] int32."""
        real = ops.not_equal(source, 0)
        memory = self.embedded(source)
        for layer in self.encoder:
            memory = layer(memory, padding_mask=real)

        def beams(x):
            return ops.repeat(x, measured.BEAM, axis=0)

        remembered = []
        for layer in self.decoder:
            attention = layer._cross_attention_layer
            pair = attention._key_dense(memory), attention._value_dense(memory)
            remembered.append(beams(ops.stack(pair, axis=1)))
        memory, real = beams(memory), beams(real)

        def following(prompt, cache, index):
            newest = ops.slice(prompt, [0, index - 1], [prompt.shape[0] or -1, 1])
            hidden = self.embedded(newest, index - 1)
            caches = []
            for i, layer in enumerate(self.decoder):
                hidden, kept, _ = layer(
                    hidden,
                    memory,
                    encoder_padding_mask=real,
                    self_attention_cache=cache[i],
                    self_attention_cache_update_index=index - 1,
                    cross_attention_cache=remembered[i],
                )
                caches.append(kept)
            logits = self.embedding(hidden, reverse=True)
            return ops.squeeze(logits, 1), None, caches

        batch = source.shape[0] or ops.shape(source)[0]
        size = WIDTH // HEADS
        empty = ops.zeros((batch, 2, LENGTH, HEADS, size), memory.dtype)
        prompt = ops.zeros((batch, LENGTH + 1), "int32")
        found = self.sampler(
            following, prompt, cache=[empty] * len(self.decoder), index=1
        )
        return found[:, 1:]


def copy_layer(layer, weights, path: str) -> None:
    """Gives a layer its weights; biases of attention stay zero."""
    attentions = [(layer._self_attention_layer, "attention")]
    norms = [(layer._self_attention_layer_norm, "attention")]
    if hasattr(layer, "_cross_attention_layer"):
        attentions.append((layer._cross_attention_layer, "memory_attention"))
        norms.append((layer._cross_attention_layer_norm, "memory"))
    norms.append((layer._feedforward_layer_norm, "feed_forward"))
    for attention, ours in attentions:
        for name in ("query", "key", "value", "output"):
            kernel = getattr(attention, f"_{name}_dense").kernel
            given = weights[f"{path}/{ours}/{name}_kernel"]
            kernel.assign(np.reshape(given, kernel.shape))
    for dense, ours in (
        (layer._feedforward_intermediate_dense, "inner"),
        (layer._feedforward_output_dense, "outer"),
    ):
        dense.kernel.assign(weights[f"{path}/feed_forward/{ours}/kernel"])
        dense.bias.assign(weights[f"{path}/feed_forward/{ours}/bias"])
    for norm, ours in norms:
        norm.gamma.assign(weights[f"{path}/{ours}_residual/norm/gamma"])
        norm.beta.assign(weights[f"{path}/{ours}_residual/norm/beta"])


def main() -> None:
    """Times the search as one graph."""
    given = measured.arguments(
        description=__doc__, xla=["on", "off"], precision=["float32", "bfloat16"]
    )
    tf.config.threading.set_intra_op_parallelism_threads(given.threads)
    if given.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    translator = Translator(np.load(given.model / "weights.npz"))
    search = tf.function(
        translator.translate,
        jit_compile=given.xla == "on" or None,
        reduce_retracing=given.xla == "off",
    )

    def translate(batch: measured.Sentences) -> measured.Sentences:
        longest = measured.LONGEST if given.xla == "on" else None
        return search(tf.constant(measured.padded(batch, longest))).numpy().tolist()

    measured.measure(translate, given)


if __name__ == "__main__":
    main()
