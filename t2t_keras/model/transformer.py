"""Transformer model, from token ids to logits (section 3).

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
W beams, X slots of a KV cache.
"""

from typing import NamedTuple

import keras
from keras import ops

from t2t_keras.model.decoder import DecodeContext, Decoder
from t2t_keras.model.dropout import Dropout, DropoutKeyGenerator, fold_in
from t2t_keras.model.embedding import (
    LearnedPositionEncoding,
    SharedEmbedding,
    SinusoidalPositionEncoding,
)
from t2t_keras.model.encoder import Encoder
from t2t_keras.model.kv_cache import DecodeState
from t2t_keras.model.masks import causal_mask, padding_mask, segment_mask
from t2t_keras.typing import (
    DECODER_INPUT_TOKENS,
    DECODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    ENCODER_INPUT_TOKENS,
    ENCODER_POSITIONS,
    ENCODER_SEGMENT_IDS,
    Batch,
    Tensor,
)

# Settings that encoder and decoder share.
_STACK_SETTINGS = (
    *("num_layers", "num_heads", "d_k", "d_v", "d_ff"),
    *("dropout_rate", "attention_dropout_rate"),
)


class DecodeKernels(NamedTuple):
    """Kernels in the layout that is fastest for the few rows of a decoding step.

    Attributes:
        fused_qkv: For each decoder layer, `MultiHeadAttention.fused_qkv_kernel`.
        output: `SharedEmbedding.output_kernel`.
    """

    fused_qkv: list[Tensor]
    output: Tensor | None


@keras.saving.register_keras_serializable(package="t2t_keras")
class Transformer(keras.Model):
    """Encoder and decoder with one shared embedding.

    Args:
        vocabulary_size: V.
        num_layers: N, of the encoder and of the decoder.
        d_model: D, even.
        d_ff: Inner width of the feed-forward networks.
        num_heads: h.
        d_k: Size of queries and keys per head; d_model / num_heads if None.
        d_v: Size of values per head; d_model / num_heads if None.
        dropout_rate: P_drop.
        attention_dropout_rate: Fraction of the attention weights to drop (section 6.3).
        learned_positions: Number of learned positions (Table 3, row E); None for
            sinusoids.
        encoder_neighborhood: r of restricted self-attention in the encoder
            (section 4), odd; None for attention to every position.
        **kwargs: Passed on to `keras.Model`.

    Call args:
        inputs: Dict with "encoder_input_tokens" [B, S] int and
            "decoder_input_tokens" [B, T] int, ids in [0, V), 0 = padding. The
            latter is the target shifted right by one (teacher forcing). In packed rows
            also "encoder_segment_ids", "encoder_positions" [B, S] int,
            "decoder_segment_ids" and "decoder_positions" [B, T] int: the number of a
            token's pair in its row, from 1, and its position in that pair, from 0.
        training: bool. True applies dropout, with keys of a Keras seed generator.
        dropout_keys: [B] uint32, a key for each row, for dropout that can be repeated
            exactly (ADR 0013); they take precedence over `training`.

    Returns:
        Logits [B, T, V], in the compute dtype.

    Raises:
        ValueError: If num_heads does not divide d_model and d_k or d_v is None,
            d_model is odd without learned positions, or encoder_neighborhood is even.
    """

    def __init__(  # noqa: PLR0913 - the paper's model has this many
        self,
        vocabulary_size: int,
        *,
        num_layers: int = 6,
        d_model: int = 512,
        d_ff: int = 2048,
        num_heads: int = 8,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.0,
        learned_positions: int | None = None,
        encoder_neighborhood: int | None = None,
        **kwargs,
    ):
        super().__init__(**{"name": "transformer", **kwargs})
        if (d_k is None or d_v is None) and d_model % num_heads:
            raise ValueError(
                "d_model must be a multiple of num_heads where d_k and d_v are not "
                f"given. Received: d_model={d_model}, num_heads={num_heads}"
            )
        if learned_positions is None and d_model % 2:
            raise ValueError(
                "d_model must be even for sinusoids, which come in pairs. "
                f"Received: d_model={d_model}"
            )
        self.sizes = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "d_model": d_model,
            "d_ff": d_ff,
            "num_heads": num_heads,
            "d_k": d_k or d_model // num_heads,
            "d_v": d_v or d_model // num_heads,
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "learned_positions": learned_positions,
            "encoder_neighborhood": encoder_neighborhood,
        }
        stack_config = {name: self.sizes[name] for name in _STACK_SETTINGS}
        policy = self.dtype_policy
        self.embedding = SharedEmbedding(
            vocabulary_size, d_model, name="embedding", dtype=policy
        )
        self.position_encoding = (
            SinusoidalPositionEncoding(name="positions", dtype=policy)
            if learned_positions is None
            else LearnedPositionEncoding(
                learned_positions, name="positions", dtype=policy
            )
        )
        self.dropout = Dropout(dropout_rate, name="dropout", dtype=policy)
        self.encoder = Encoder(
            **stack_config,
            neighborhood=encoder_neighborhood,
            name="encoder",
            dtype=policy,
        )
        self.decoder = Decoder(**stack_config, name="decoder", dtype=policy)

    @classmethod
    def base(cls, vocabulary_size: int, **overrides) -> "Transformer":
        """Returns the paper's base model (Table 3, first row).

        Args:
            vocabulary_size: V.
            **overrides: Arguments of the constructor to use instead of the paper's.

        >>> model = Transformer.base(37_000)
        >>> model.build()
        >>> f"{model.count_params():,}"
        '63,045,632'
        """
        return cls(vocabulary_size, **overrides)

    @classmethod
    def big(cls, vocabulary_size: int, **overrides) -> "Transformer":
        """Returns the paper's big model (Table 3, last row).

        Args:
            vocabulary_size: V.
            **overrides: Arguments of the constructor to use instead of the paper's.
                The paper trains English-French with `dropout_rate=0.1`.
        """
        sizes = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout_rate": 0.3}
        return cls(vocabulary_size, **{**sizes, **overrides})

    def build(self, inputs_shape=None):
        hidden_shape = (None, None, self.sizes["d_model"])
        self.embedding.build((None, None))
        self.position_encoding.build(hidden_shape)
        self.dropout.build(hidden_shape)
        self.encoder.build(hidden_shape)
        self.decoder.build(hidden_shape, hidden_shape)
        # After the weights, so that their initial values do not depend on it.
        self._dropout_keys = DropoutKeyGenerator()
        self.built = True

    def call(self, inputs: Batch, training=None, dropout_keys=None):
        if training and dropout_keys is None:
            rows = ops.shape(inputs[ENCODER_INPUT_TOKENS])[0]
            dropout_keys = self._dropout_keys.next(rows)
        return self.embedding.logits(self.hidden_states(inputs, dropout_keys))

    @property
    def output_embeddings(self) -> keras.Variable:
        """The [V, D] matrix whose product with `hidden_states` are the logits."""
        return self.embedding.embeddings

    @property
    def vocabulary_weights(self) -> list[keras.Variable]:
        """The weights [V, ...] with a row for each id of the vocabulary."""
        return [self.embedding.embeddings]

    def hidden_states(self, inputs: Batch, dropout_keys: Tensor | None = None):
        """Returns the decoder's output [B, T, D], the input of the output projection.

        For a loss that never has all logits in memory. The arguments are those of
        `call`.
        """
        source = inputs[ENCODER_INPUT_TOKENS]
        keys = fold_in(dropout_keys, 0), fold_in(dropout_keys, 1)
        if ENCODER_SEGMENT_IDS not in inputs:
            memory = self.encode(source, keys[0])
            targets = inputs[DECODER_INPUT_TOKENS]
            return self._decode_hidden(targets, memory, padding_mask(source), keys[1])
        sources, targets = inputs[ENCODER_SEGMENT_IDS], inputs[DECODER_SEGMENT_IDS]
        memory = self.encode(
            source,
            keys[0],
            segments=sources,
            positions=inputs[ENCODER_POSITIONS],
        )
        return self._decode_hidden(
            inputs[DECODER_INPUT_TOKENS],
            memory,
            segment_mask(targets, sources),
            keys[1],
            mask=segment_mask(targets, targets),
            positions=inputs[DECODER_POSITIONS],
        )

    def encode(
        self,
        source: Tensor,
        dropout_keys: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Returns the encoder's output [B, S, D].

        Args:
            source: [B, S] int token ids.
            dropout_keys: [B] uint32, or None to drop nothing.
            segments: [B, S] int, the number of a token's sentence in its row, from 1, 0
                for padding. Default: a row is one sentence.
            positions: int that broadcasts to [B, S]. Default: 0, 1, 2, ...
        """
        if segments is None:
            mask = padding_mask(source)
        elif self.sizes["encoder_neighborhood"] is None:
            mask = segment_mask(segments, segments)
        else:
            mask = ops.expand_dims(segments, axis=1)
        embedded = self._embed(source, positions, fold_in(dropout_keys, 0))
        return self.encoder(
            embedded, attention_mask=mask, dropout_keys=fold_in(dropout_keys, 1)
        )

    def decode(
        self,
        targets: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        dropout_keys: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Returns logits [B, T, V] for all positions of a target (teacher forcing).

        Args:
            targets: [B, T] int, the target shifted right by one.
            memory: [B, S, D], the output of `encode`.
            memory_mask: bool that broadcasts to [B, T, S], True = may attend.
            dropout_keys: [B] uint32, or None to drop nothing.
            mask: bool that broadcasts to [B, T, T], combined with the causal mask.
                Default: the causal mask alone.
            positions: int that broadcasts to [B, T]. Default: 0, 1, 2, ...
        """
        hidden = self._decode_hidden(
            targets,
            memory,
            memory_mask,
            dropout_keys,
            mask=mask,
            positions=positions,
        )
        return self.embedding.logits(hidden)

    def _decode_hidden(
        self,
        targets: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        dropout_keys: Tensor | None,
        *,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        embedded = self._embed(targets, positions, fold_in(dropout_keys, 0))
        # No padding mask: padding follows the real tokens, so the causal mask already
        # hides it from them.
        causal = causal_mask(ops.shape(targets)[1])
        return self.decoder(
            embedded,
            memory,
            attention_mask=causal if mask is None else causal & mask,
            memory_mask=memory_mask,
            dropout_keys=fold_in(dropout_keys, 1),
        )

    def prefill(self, source: Tensor, slots: int | Tensor) -> DecodeState:
        """Encodes the source and returns the state before the first `decode_step`.

        Args:
            source: [B, S] int token ids.
            slots: X, number of slots in the KV cache of self-attention.
        """
        return DecodeState(
            self.decoder.empty_caches(ops.shape(source)[0], slots),
            self.decoder.cross_attention_caches(self.encode(source)),
            padding_mask(source),
        )

    def decode_kernels(self) -> DecodeKernels:
        """Returns the kernels for `decode_step`, computed once for a search."""
        return DecodeKernels(
            self.decoder.fused_qkv_kernels(), self.embedding.output_kernel()
        )

    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor | int,
        first_slot: Tensor | int,
        visible_slots: Tensor,
        state: DecodeState,
        kernels: DecodeKernels,
        *,
        in_place: bool = False,
    ) -> tuple[Tensor, DecodeState]:
        """Returns the logits [B, W, V] that `decode` has at `position`, and the state.

        Args:
            tokens: [B, W] int, the newest token of each beam; 0 at position 0.
            position: int scalar, from 0.
            first_slot: int32 scalar. Beam w writes to slot `first_slot + w`.
            visible_slots: [B, W, X] bool, True on the slots of a beam's past tokens and
                on the one that it writes to now.
            state: From `prefill` or from the step before.
            kernels: From `decode_kernels`.
            in_place: Whether the state passed in is overwritten; see `KVCache.write`.
        """
        # Beams take the place of positions in the layers, and share one position.
        batch, beams = ops.shape(tokens)
        width = self.sizes["d_model"]
        embedded = ops.reshape(self.embedding(tokens), (batch * beams, 1, width))
        embedded = self.position_encoding(embedded, positions=position)
        rows = state.self_attention[0].rows(first_slot, beams)
        hidden, caches = self.decoder.step(
            ops.reshape(embedded, (batch, beams, width)),
            DecodeContext(rows, visible_slots, state.source_mask, in_place),
            state.self_attention,
            state.cross_attention,
            kernels.fused_qkv,
        )
        logits = self.embedding.logits(hidden, kernels.output)
        return logits, state._replace(self_attention=caches)

    def _embed(
        self, tokens: Tensor, positions: Tensor | None, dropout_keys: Tensor | None
    ) -> Tensor:
        embedded = self.position_encoding(self.embedding(tokens), positions=positions)
        return self.dropout(embedded, dropout_keys=dropout_keys)

    def export(self, filepath, *args, input_signature=None, **kwargs):
        """Exports the model as Keras does, with token ids [B, S] and [B, T] as inputs.

        Keras would declare the inputs as floating-point numbers. This export returns
        logits. The program `export` writes translators for servers.

        Args:
            filepath: Folder to write.
            *args: As `keras.Model.export` has them.
            input_signature: Default: both token inputs of a batch that is not packed.
            **kwargs: As `keras.Model.export` has them.
        """
        if input_signature is None:
            names = ENCODER_INPUT_TOKENS, DECODER_INPUT_TOKENS
            spec = keras.InputSpec(shape=(None, None), dtype="int32")
            input_signature = [dict.fromkeys(names, spec)]
        return super().export(
            filepath, *args, input_signature=input_signature, **kwargs
        )

    def get_config(self):
        return {**super().get_config(), **self.sizes}
