"""Transformer model, from token ids to logits (section 3).

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
W beams, X slots of a KV cache.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

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
from t2t_keras.model.layers import LAYER_NORM_EPSILON
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

_EOS_ID = 1
# Settings that encoder and decoder share.
_STACK_SETTINGS = (
    *("num_heads", "d_k", "d_v", "d_ff", "dropout_rate", "attention_dropout_rate"),
    *("attention_bias", "activation", "normalization", "layer_norm_epsilon"),
)
# Lowest values of arguments that Keras' layers do not check.
_LOWEST = (
    *(("encoder_layers", 1), ("decoder_layers", 1)),
    *(("source_vocabulary_size", 1), ("first_position", 0)),
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
    """Encoder and decoder, by default with one shared embedding.

    The arguments from `normalization` on are choices of other programs, which the
    paper's model does not need (docs/architecture.md).
    A new model has its weights: `build` need not be called.

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
        encoder_layers: Number of layers of the encoder; num_layers if None.
        decoder_layers: Number of layers of the decoder; num_layers if None.
        normalization: "post", layer normalization after each sub-layer's sum, or
            "pre", before each sub-layer and after each stack.
        layer_norm_epsilon: Added to the variance in layer normalization.
        activation: Of the feed-forward networks: "relu", "swish" or "gelu" (exact).
        attention_bias: Whether the projections of attention have biases.
        output_bias: Whether the logits have a bias.
        tie_output: Whether the output projection has the embedding's matrix.
        position_layout: Layout of sinusoids: "interleaved", "halves" or "halves_t2t";
            see `SinusoidalPositionEncoding`.
        first_position: Number of a sentence's first position.
        share_embeddings: Whether the encoder has the embedding of the decoder.
        source_vocabulary_size: Number of ids of the encoder's embedding if it is not
            shared; vocabulary_size if None.
        source_eos: Whether the encoder sees the end of a source, id 1. Otherwise it is
            padding to the encoder.
        decoder_start: Id whose embedding is the decoder's first input, or "zero" for
            the zero vector. Inputs have id 0 there in either case.
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
            d_model is odd without learned positions, encoder_neighborhood is even,
            decoder_start is no id in [1, V), a shared embedding has another
            source_vocabulary_size, learned positions have a layout or no
            first_position, or a name is unknown.
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
        encoder_layers: int | None = None,
        decoder_layers: int | None = None,
        normalization: str = "post",
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        activation: str = "relu",
        attention_bias: bool = False,
        output_bias: bool = False,
        tie_output: bool = True,
        position_layout: str = "interleaved",
        first_position: int = 0,
        share_embeddings: bool = True,
        source_vocabulary_size: int | None = None,
        source_eos: bool = True,
        decoder_start: int | str = "zero",
        **kwargs,
    ):
        super().__init__(**{"name": "transformer", **kwargs})
        sizes = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "d_model": d_model,
            "d_ff": d_ff,
            **{"num_heads": num_heads, "d_k": d_k, "d_v": d_v},
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "learned_positions": learned_positions,
            "encoder_neighborhood": encoder_neighborhood,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "normalization": normalization,
            "layer_norm_epsilon": layer_norm_epsilon,
            "activation": activation,
            "attention_bias": attention_bias,
            "output_bias": output_bias,
            "tie_output": tie_output,
            "position_layout": position_layout,
            "first_position": first_position,
            "share_embeddings": share_embeddings,
            "source_vocabulary_size": source_vocabulary_size,
            "source_eos": source_eos,
            "decoder_start": decoder_start,
        }
        _check_sizes(sizes)
        self.sizes = _with_defaults(sizes)
        self._add_layers()
        self.build()

    def _add_layers(self) -> None:
        """Makes the layers of `sizes`."""
        sizes, policy = self.sizes, self.dtype_policy
        stack_config = {name: sizes[name] for name in _STACK_SETTINGS}
        self.embedding = SharedEmbedding(
            *(sizes["vocabulary_size"], sizes["d_model"]),
            *(sizes["tie_output"], sizes["output_bias"]),
            name="embedding",
            dtype=policy,
        )
        source_size = sizes["source_vocabulary_size"] or sizes["vocabulary_size"]
        self._own_source_embedding = (
            None
            if sizes["share_embeddings"]
            else SharedEmbedding(
                source_size, sizes["d_model"], name="source_embedding", dtype=policy
            )
        )
        positions = {
            "first_position": sizes["first_position"],
            "name": "positions",
            "dtype": policy,
        }
        self.position_encoding = (
            SinusoidalPositionEncoding(layout=sizes["position_layout"], **positions)
            if sizes["learned_positions"] is None
            else LearnedPositionEncoding(sizes["learned_positions"], **positions)
        )
        self.dropout = Dropout(sizes["dropout_rate"], name="dropout", dtype=policy)
        self.encoder = Encoder(
            sizes["encoder_layers"],
            **stack_config,
            neighborhood=sizes["encoder_neighborhood"],
            name="encoder",
            dtype=policy,
        )
        self.decoder = Decoder(
            sizes["decoder_layers"], **stack_config, name="decoder", dtype=policy
        )

    @classmethod
    def base(cls, vocabulary_size: int, **overrides) -> "Transformer":
        """Returns the paper's base model (Table 3, first row).

        Args:
            vocabulary_size: V.
            **overrides: Arguments of the constructor to use instead of the paper's.

        >>> model = Transformer.base(37_000)
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
        # The constructor calls it: no size depends on the input, so a new model can do
        # what Keras refuses without weights, such as `export` and `load_weights`.
        if self.built:
            return
        hidden_shape = (None, None, self.sizes["d_model"])
        self.embedding.build((None, None))
        if self._own_source_embedding is not None:
            self._own_source_embedding.build((None, None))
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
    def source_embedding(self) -> SharedEmbedding:
        """The encoder's embedding, the decoder's too if they share one."""
        return self._own_source_embedding or self.embedding

    @property
    def output_embeddings(self) -> keras.Variable:
        """The [V, D] matrix whose product with `hidden_states` are the logits."""
        return self.embedding.output_embeddings

    @property
    def output_bias(self) -> keras.Variable | None:
        """The bias [V] that is added to that product; None for none."""
        return self.embedding.output_bias

    @property
    def max_positions(self) -> int | None:
        """Maximum number of tokens that have a position; None for no maximum."""
        if self.sizes["learned_positions"] is None:
            return None
        return self.sizes["learned_positions"] - self.sizes["first_position"]

    @property
    def vocabulary_weights(self) -> list[keras.Variable]:
        """The weights [V, ...] with a row for each id of the vocabulary."""
        return list(self.embedding.weights)

    @property
    def source_vocabulary_weights(self) -> list[keras.Variable]:
        """The same of the encoder's own embedding; empty if it has none."""
        own = self._own_source_embedding
        return [] if own is None else list(own.weights)

    def hidden_states(
        self,
        inputs: Batch,
        dropout_keys: Tensor | None = None,
        *,
        with_attention: bool = False,
    ):
        """Returns the decoder's output [B, T, D], the input of the output projection.

        For a loss that never has all logits in memory. The arguments are those of
        `call`. With `with_attention`, returns the weights [B, H, T, S] float32 of the
        cross-attention of `Decoder.alignment_layer`, too, for guided alignment.
        """
        source = self.visible_source(inputs[ENCODER_INPUT_TOKENS])
        keys = fold_in(dropout_keys, 0), fold_in(dropout_keys, 1)
        if ENCODER_SEGMENT_IDS not in inputs:
            memory = self.encode(source, keys[0])
            targets = inputs[DECODER_INPUT_TOKENS]
            return self._decode_hidden(
                *(targets, memory, padding_mask(source), keys[1]),
                with_attention=with_attention,
            )
        sources, targets = inputs[ENCODER_SEGMENT_IDS], inputs[DECODER_SEGMENT_IDS]
        sources = self._visible_segments(source, sources)
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
            with_attention=with_attention,
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
        source = self.visible_source(source)
        segments = self._visible_segments(source, segments)
        if segments is None:
            mask = padding_mask(source)
        elif self.sizes["encoder_neighborhood"] is None:
            mask = segment_mask(segments, segments)
        else:
            mask = ops.expand_dims(segments, axis=1)
        embedded = self._embed(
            source, positions, fold_in(dropout_keys, 0), self.source_embedding
        )
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
            targets: [B, T] int, the target shifted right by one, 0 first.
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
        with_attention: bool = False,
    ) -> Any:
        targets = self.insert_start(targets, positions)
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
            with_attention=with_attention,
        )

    def prefill(
        self, source: Tensor, slots: int | Tensor, shortlist: Tensor | None = None
    ) -> DecodeState:
        """Encodes the source and returns the state before the first `decode_step`.

        Args:
            source: [B, S] int token ids.
            slots: X, number of slots in the KV cache of self-attention.
            shortlist: [B, N] int, the tokens that steps give logits of. Default: all.
        """
        return DecodeState(
            self.decoder.empty_caches(ops.shape(source)[0], slots),
            self.decoder.cross_attention_caches(self.encode(source)),
            padding_mask(self.visible_source(source)),
            () if shortlist is None else self.embedding.output_rows(shortlist),
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
    ) -> tuple[Tensor, DecodeState]:
        """Returns the logits [B, W, V] that `decode` has at `position`, and the state.

        After a `prefill` with a shortlist, the logits are [B, W, N] and the tokens are
        indices into the shortlist, whose index 0 is padding.

        Args:
            tokens: [B, W] int, the newest token of each beam; 0 at position 0.
            position: int scalar, from 0.
            first_slot: int32 scalar. Beam w writes to slot `first_slot + w`.
            visible_slots: [B, W, X] bool, True on the slots of a beam's past tokens and
                on the one that it writes to now.
            state: From `prefill` or from the step before.
            kernels: From `decode_kernels`.
        """
        if state.output_rows:
            tokens = ops.take_along_axis(state.output_rows.tokens, tokens, axis=1)
        # Beams take the place of positions in the layers, and share one position.
        tokens = self.insert_start(tokens, position)
        batch, beams = ops.shape(tokens)
        width = self.sizes["d_model"]
        embedded = ops.reshape(self.embedding(tokens), (batch * beams, 1, width))
        embedded = self.position_encoding(embedded, positions=position)
        rows = state.self_attention[0].rows(first_slot, beams)
        hidden, caches = self.decoder.step(
            ops.reshape(embedded, (batch, beams, width)),
            DecodeContext(rows, visible_slots, state.source_mask),
            state.self_attention,
            state.cross_attention,
            kernels.fused_qkv,
        )
        logits = self.embedding.logits(hidden, state.output_rows or kernels.output)
        return logits, state._replace(self_attention=caches)

    def visible_source(self, source: Tensor) -> Tensor:
        """Returns source ids [B, S], with padding for an end that is not seen."""
        if self.sizes["source_eos"]:
            return source
        return ops.where(ops.equal(source, _EOS_ID), 0, source)

    def _visible_segments(self, source: Tensor, segments: Any) -> Any:
        """Returns segments [B, S] of `visible_source`; None if there are none."""
        if self.sizes["source_eos"] or segments is None:
            return segments
        return ops.where(ops.equal(source, 0), 0, segments)

    def insert_start(self, tokens: Tensor, positions: Tensor | int | None) -> Tensor:
        """Returns the decoder's inputs, with its start id in place of 0 at position 0.

        The input pipeline and the search put 0 there, whatever the model starts from.
        0 at other positions is padding.

        Args:
            tokens: [B, T] int, the target shifted right by one.
            positions: int that broadcasts to [B, T]. Default: 0, 1, 2, ...
        """
        start = self.sizes["decoder_start"]
        if start == "zero":
            return tokens
        if positions is None:
            positions = ops.arange(ops.shape(tokens)[1])
        is_start = ops.logical_and(ops.equal(positions, 0), ops.equal(tokens, 0))
        return ops.where(is_start, ops.cast(start, tokens.dtype), tokens)

    def _embed(
        self,
        tokens: Tensor,
        positions: Tensor | None,
        dropout_keys: Tensor | None,
        embedding: SharedEmbedding | None = None,
    ) -> Tensor:
        vectors = (embedding or self.embedding)(tokens)
        embedded = self.position_encoding(vectors, positions=positions)
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


def _with_defaults(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a Transformer, with those that follow from others."""
    per_head = sizes["d_model"] // sizes["num_heads"]
    defaults = dict.fromkeys(("d_k", "d_v"), per_head)
    stacks = "encoder_layers", "decoder_layers"
    defaults |= dict.fromkeys(stacks, sizes["num_layers"])
    given = {name: size for name, size in sizes.items() if size is not None}
    return {**sizes, **defaults, **given}


def _check_sizes(sizes: Mapping[str, Any]) -> None:
    """Raises `ValueError` if the arguments of a Transformer do not fit together."""
    d_model, learned = sizes["d_model"], sizes["learned_positions"]
    heads = None in (sizes["d_k"], sizes["d_v"]) and sizes["num_heads"]
    if heads and d_model % heads:
        raise ValueError(
            "d_model must be a multiple of num_heads where d_k and d_v are not "
            f"given. Received: d_model={d_model}, num_heads={heads}"
        )
    if learned is None and d_model % 2:
        raise ValueError(
            "d_model must be even for sinusoids, which come in pairs. "
            f"Received: d_model={d_model}"
        )
    for name, low in _LOWEST:
        if sizes[name] is not None and not sizes[name] >= low:
            raise ValueError(f"{name} must be at least {low}. Received: {sizes[name]}")
    if not sizes["layer_norm_epsilon"] > 0:
        raise ValueError(
            "layer_norm_epsilon must be above 0, or a constant vector has no norm. "
            f"Received: {sizes['layer_norm_epsilon']}"
        )
    layout, start = sizes["position_layout"], sizes["decoder_start"]
    if learned is not None and layout != "interleaved":
        raise ValueError(
            "position_layout is for sinusoids, and learned positions have none. "
            f"Received: position_layout={layout}, learned_positions={learned}"
        )
    vocabulary_size = sizes["vocabulary_size"]
    source_size = sizes["source_vocabulary_size"] or vocabulary_size
    if sizes["share_embeddings"] and source_size != vocabulary_size:
        raise ValueError(
            "source_vocabulary_size is for share_embeddings=False, since a shared "
            f"embedding has one size. Received: {source_size} and {vocabulary_size}"
        )
    is_id = isinstance(start, int) and 0 < start < vocabulary_size
    if start != "zero" and not is_id:
        raise ValueError(
            f'decoder_start must be an id in [1, {vocabulary_size}), or "zero" for '
            f"the zero vector, as padding has it. Received: {start}"
        )
