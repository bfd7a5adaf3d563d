"""Beam search of keras-hub, over its encoder and decoder layers, with the same weights.

    python -m benchmarks.decoding.keras_hub_search --batch=32

keras-hub has no such encoder-decoder, so this module joins its layers: positional
encoding, the decoder's KV cache, and the keys and values of the source, repeated for
each beam as its `BeamSampler` expects. The sampler has no length penalty; all outputs
have the same length.
"""

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops

from benchmarks.decoding import measured

WIDTH, HEADS, LENGTH = measured.WIDTH, measured.HEADS, measured.LENGTH


class Translator:
    """Encoder-decoder of keras-hub's layers.

    Args:
        weights: Weights that `write` stored, by name.
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

    def embed(self, tokens, position=0):
        """Returns embeddings with positional encodings [B, L, D]."""
        length = tokens.shape[1] or ops.shape(tokens)[1]
        vectors = self.embedding(tokens) * WIDTH**0.5
        rows = position + ops.arange(length)
        return vectors + ops.cast(ops.take(self.positions, rows, 0), vectors.dtype)

    def translate(self, source):
        """Returns the best hypotheses [B, 25] of sources [B, S] int32."""
        source_mask = ops.not_equal(source, 0)
        encoded = self.embed(source)
        for layer in self.encoder:
            encoded = layer(encoded, padding_mask=source_mask)

        def repeat_for_beams(x):
            return ops.repeat(x, measured.BEAM, axis=0)

        cross_attention_caches = []
        for layer in self.decoder:
            attention = layer._cross_attention_layer
            pair = attention._key_dense(encoded), attention._value_dense(encoded)
            cross_attention_caches.append(repeat_for_beams(ops.stack(pair, axis=1)))
        encoded, source_mask = repeat_for_beams(encoded), repeat_for_beams(source_mask)

        def next_logits(prompt, cache, index):
            newest = ops.slice(prompt, [0, index - 1], [prompt.shape[0] or -1, 1])
            hidden = self.embed(newest, index - 1)
            caches = []
            for i, layer in enumerate(self.decoder):
                hidden, layer_cache, _ = layer(
                    hidden,
                    encoded,
                    encoder_padding_mask=source_mask,
                    self_attention_cache=cache[i],
                    self_attention_cache_update_index=index - 1,
                    cross_attention_cache=cross_attention_caches[i],
                )
                caches.append(layer_cache)
            logits = self.embedding(hidden, reverse=True)
            return ops.squeeze(logits, 1), None, caches

        batch = source.shape[0] or ops.shape(source)[0]
        size = WIDTH // HEADS
        empty = ops.zeros((batch, 2, LENGTH, HEADS, size), encoded.dtype)
        prompt = ops.zeros((batch, LENGTH + 1), "int32")
        hypotheses = self.sampler(
            next_logits, prompt, cache=[empty] * len(self.decoder), index=1
        )
        return hypotheses[:, 1:]


def copy_layer(layer, weights, path: str) -> None:
    """Assigns the weights of a layer; biases of attention stay zero."""
    attentions = [(layer._self_attention_layer, "attention")]
    norms = [(layer._self_attention_layer_norm, "attention")]
    if hasattr(layer, "_cross_attention_layer"):
        attentions.append((layer._cross_attention_layer, "memory_attention"))
        norms.append((layer._cross_attention_layer_norm, "memory"))
    norms.append((layer._feedforward_layer_norm, "feed_forward"))
    for attention, ours in attentions:
        for name in ("query", "key", "value", "output"):
            kernel = getattr(attention, f"_{name}_dense").kernel
            value = weights[f"{path}/{ours}/{name}_kernel"]
            kernel.assign(np.reshape(value, kernel.shape))
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
    """Times the search, traced as one graph."""
    args = measured.arguments(
        description=__doc__, xla=["on", "off"], precision=["float32", "bfloat16"]
    )
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    if args.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    translator = Translator(np.load(args.model / "weights.npz"))
    search = tf.function(
        translator.translate,
        jit_compile=args.xla == "on" or None,
        reduce_retracing=args.xla == "off",
    )

    def translate(batch: measured.Sentences) -> measured.Sentences:
        longest = measured.LONGEST if args.xla == "on" else None
        return search(tf.constant(measured.pad_batch(batch, longest))).numpy().tolist()

    measured.measure(translate, args)


if __name__ == "__main__":
    main()
