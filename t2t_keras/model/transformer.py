"""Transformer model, from token ids to logits (section 3).

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
W beams, X slots of a KV cache.
"""

from typing import Any, NamedTuple, Self

import keras
from keras import ops

from t2t_keras.model.decoder import DecodeContext
from t2t_keras.model.dropout import ModelSite, StackSite, fold_in
from t2t_keras.model.embedding import (
    SharedEmbedding,
)
from t2t_keras.model.inputs import check_inputs, to_source_ids
from t2t_keras.model.kv_cache import DecodeState
from t2t_keras.model.masks import causal_mask, padding_mask, segment_mask
from t2t_keras.model.transformer_layers import TransformerLayers
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


class DecodeKernels(NamedTuple):
    """Kernels in the layout that is fastest for the few rows of a decoding step.

    Attributes:
        fused_qkv: For each decoder layer, `MultiHeadAttention.fused_qkv_kernel`.
        output: `SharedEmbedding.output_kernel`.
    """

    fused_qkv: list[Tensor]
    output: Tensor | None


@keras.saving.register_keras_serializable(package="t2t_keras")
class Transformer(TransformerLayers):
    """Encoder and decoder, by default with one shared embedding.

    A new model has its weights: `build` need not be called.

    A subclass changes its parts by overriding `make_encoder_layer`,
    `make_decoder_layer`, or the methods of `LayerParts` that make what is in a layer.

    Args:
        vocabulary_size: V.
        **kwargs: `TransformerOptions`, by name, and the arguments of `keras.Model`.

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

    Attributes:
        options: The options, of the class `options_class`.
        sizes: Arguments that make the same model, and that `get_config` has.

    Raises:
        ValueError: As `TransformerOptions`; or if encoder_neighborhood is even,
            learned positions have no first_position, or a name is unknown.
    """

    @classmethod
    def base(cls, vocabulary_size: int, **overrides: Any) -> Self:
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
    def big(cls, vocabulary_size: int, **overrides: Any) -> Self:
        """Returns the paper's big model (Table 3, last row).

        Args:
            vocabulary_size: V.
            **overrides: Arguments of the constructor to use instead of the paper's.
                The paper trains English-French with `dropout_rate=0.1`.
        """
        sizes = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout_rate": 0.3}
        return cls(vocabulary_size, **{**sizes, **overrides})

    def call(self, inputs: Batch, training=None, dropout_keys=None):
        check_inputs(inputs)
        if training and dropout_keys is None:
            rows = ops.shape(inputs[ENCODER_INPUT_TOKENS])[0]
            dropout_keys = self._dropout_keys.next(rows)
        return self.embedding.logits(self.hidden_states(inputs, dropout_keys))

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
        encoder_keys = fold_in(dropout_keys, ModelSite.ENCODER)
        decoder_keys = fold_in(dropout_keys, ModelSite.DECODER)
        if ENCODER_SEGMENT_IDS not in inputs:
            memory = self.encode(source, encoder_keys)
            return self._decode_hidden(
                inputs[DECODER_INPUT_TOKENS],
                memory,
                padding_mask(source),
                decoder_keys,
                with_attention=with_attention,
            )
        sources, targets = inputs[ENCODER_SEGMENT_IDS], inputs[DECODER_SEGMENT_IDS]
        sources = self._visible_segments(source, sources)
        memory = self.encode(
            source,
            encoder_keys,
            segments=sources,
            positions=inputs[ENCODER_POSITIONS],
        )
        return self._decode_hidden(
            inputs[DECODER_INPUT_TOKENS],
            memory,
            segment_mask(targets, sources),
            decoder_keys,
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
        embedded = self._embed(source, positions, dropout_keys, self.source_embedding)
        return self.encoder(
            embedded,
            attention_mask=mask,
            dropout_keys=fold_in(dropout_keys, StackSite.LAYERS),
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
        embedded = self._embed(targets, positions, dropout_keys, self.embedding)
        # No padding mask: padding follows the real tokens, so the causal mask already
        # hides it from them.
        causal = causal_mask(ops.shape(targets)[1])
        return self.decoder(
            embedded,
            memory,
            attention_mask=causal if mask is None else causal & mask,
            memory_mask=memory_mask,
            dropout_keys=fold_in(dropout_keys, StackSite.LAYERS),
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

    def generate(self, tokens: Tensor, *, extra_length: int = 50) -> Tensor:
        """Returns the greedy translations [B, T] of source ids, for a quick look.

        Each token is the likeliest after those before it. `search_translations` has
        beams, speed and compilation; this needs no TensorFlow, and runs eagerly.

        Args:
            tokens: [B, S] int source ids, each row ended by EOS and padded with 0.
            extra_length: Tokens that a translation may have more than its source, after
                which it is ended.

        Returns:
            [B, T] int32, each row ended by EOS and padded with 0. A source without a
            token becomes EOS at once.

        Raises:
            UserError: If `tokens` are not [B, S] int.
        """
        source = to_source_ids(tokens)
        is_text_BS = ops.logical_and(
            ops.not_equal(source, 0), ops.not_equal(source, _EOS_ID)
        )
        lengths_B = ops.sum(ops.cast(ops.not_equal(source, 0), "int32"), axis=1)
        limits_B = ops.where(ops.any(is_text_BS, axis=1), lengths_B + extra_length, 1)
        if self.max_positions is not None:
            limits_B = ops.minimum(limits_B, self.max_positions)
        batch, steps = ops.shape(source)[0], int(ops.max(limits_B, initial=1))
        slots = max(steps, 2)  # Keras warns of a softmax over one
        state, kernels = self.prefill(source, slots), self.decode_kernels()
        newest_B1 = ops.zeros((batch, 1), "int32")
        ended_B1 = ops.zeros((batch, 1), "bool")
        found = []
        for position in range(steps):
            visible_B1X = ops.broadcast_to(
                ops.arange(slots) <= position, (batch, 1, slots)
            )
            logits_B1V, state = self.decode_step(
                newest_B1, position, position, visible_B1X, state, kernels
            )
            # Padding is never generated.
            best_B1 = ops.cast(ops.argmax(logits_B1V[..., 1:], axis=-1), "int32") + 1
            at_limit_B1 = ops.expand_dims(position + 1 >= limits_B, 1)
            best_B1 = ops.where(at_limit_B1, _EOS_ID, best_B1)
            newest_B1 = ops.where(ended_B1, 0, best_B1)
            found.append(newest_B1)
            ended_B1 = ops.logical_or(ended_B1, ops.equal(newest_B1, _EOS_ID))
            if ops.all(ended_B1):
                break
        return ops.concatenate(found, axis=1)

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
        embedding: SharedEmbedding,
    ) -> Tensor:
        embedded = self.position_encoding(embedding(tokens), positions=positions)
        return self.dropout(
            embedded, dropout_keys=fold_in(dropout_keys, StackSite.EMBEDDING)
        )

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
