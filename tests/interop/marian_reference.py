"""Written models of Marian in the reference's terms, from Marian's source alone."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import yaml

from tests.reference import transformer_np
from tests.reference.weights_np import (
    AttentionWeights,
    DecoderLayerWeights,
    EncoderLayerWeights,
    FeedForwardWeights,
    LayerNormWeights,
    Options,
    Weights,
)

Read = Callable[[str], np.ndarray]


class WrittenMarian:
    """A folder's model, computed by the reference with this project's ids.

    Attributes:
        settings: Those that Marian embeds.
        source: Its id of each source id of this project.
        target: The same of targets.
    """

    def __init__(self, folder: Path):
        with np.load(folder / "model.npz") as archive:
            arrays = {name: archive[name] for name in archive}
        text = arrays.pop("special:model.yml").tobytes()
        assert text.endswith(b"\0")
        self.settings = yaml.safe_load(text.rstrip(b"\0"))
        decoder = yaml.safe_load((folder / "decoder.yml").read_text())
        pieces = [_read_pieces(folder / name) for name in decoder["vocabs"]]
        self.source, self.target = (_own_order(each) for each in pieces)
        self._arrays = {name: a.astype(np.float64) for name, a in arrays.items()}
        self._is_new = self.settings["type"] == "transformer-new"
        weights = self._read_weights()
        self._encoder = self._decoder = weights
        if self._is_new:
            self._encoder, self._decoder = (
                dataclasses.replace(weights, positions=self._arrays[name])
                for name in (
                    "TransformerBatchEncoder->encoder->positionEmbedding->embeddings",
                    "TransformerBatchDecoder->decoder->positionEmbedding->embeddings",
                )
            )

    def logits(self, source: list[int], shifted: list[int]) -> np.ndarray:
        """Returns logits [T, V] in the order of this project's ids."""
        memory = transformer_np.encode_padded(source, self._encoder)
        hidden = transformer_np.decode(shifted, memory, self._decoder, source)
        return transformer_np.logits(hidden, self._decoder)

    def _read_weights(self) -> Weights:
        arrays, settings = self._arrays, self.settings
        pre = settings["transformer-preprocess"] == "n"
        assert settings["transformer-postprocess"] == ("da" if pre else "dan")
        options = Options(
            normalization="pre" if pre else "post",
            activation=settings["transformer-ffn-activation"],
            # layers_new/neuralnet.h and layers/generic.h
            layer_norm_epsilon=1e-5 if self._is_new else 1e-6,
            position_layout="halves_t2t",
            attention_bias=True,
            output_bias=True,
            tie_output=False,
            share_embeddings=False,
        )
        # The new type adds learned positions to embeddings as they are.
        assert settings["transformer-train-position-embeddings"] == self._is_new
        scale = settings["dim-emb"] ** -0.5 if self._is_new else 1.0
        tables = {"tied-embeddings": ("encoder_Wemb", "decoder_Wemb")}
        tables |= dict.fromkeys(
            ("tied-embeddings-src", "tied-embeddings-all"), ("Wemb",) * 2
        )
        tied = [
            name for name in settings if name.startswith("tied-emb") and settings[name]
        ]
        names = tables[tied[0]] if tied else ("encoder_Wemb", "decoder_Wemb")
        output = arrays.get("decoder_ff_logit_out_Wt")
        assert (output is None) == (
            tied in (["tied-embeddings"], ["tied-embeddings-all"])
        )
        output = arrays[names[1]] if output is None else output
        assert settings["dim-vocabs"] == [len(self.source), len(self.target)]
        layers: dict[str, Any] = {
            f"{stack}_layers": [
                kind(**self._read_layer(stack, number))
                for number in range(settings[depth])
            ]
            for stack, depth, kind in (
                ("encoder", "enc-depth", EncoderLayerWeights),
                ("decoder", "dec-depth", DecoderLayerWeights),
            )
        }
        if pre:
            for stack in ("encoder", "decoder"):
                root = f"TransformerBatch{stack.title()}->{stack}->postprocessor"
                layers[f"{stack}_norm"] = self._norm(f"{root}->norm")
        return Weights(
            embedding=arrays[names[1]][self.target] * scale,
            source_embedding=arrays[names[0]][self.source] * scale,
            output_embedding=output[self.target],
            output_bias=arrays["decoder_ff_logit_out_b"][0, self.target],
            options=options,
            **layers,
        )

    def _norm(self, path: str) -> LayerNormWeights:
        names = ("weight", "bias") if "->" in path else ("scale", "bias")
        sign = "->" if "->" in path else "_"
        scale, bias = (self._arrays[f"{path}{sign}{name}"] for name in names)
        return LayerNormWeights(scale.reshape(-1), bias.reshape(-1))

    def _attention(self, kernel: Callable[[str], str], bias: Callable[[str], str]):
        heads, values = self.settings["transformer-heads"], {}
        for letter, name in zip("qkv", ("query", "key", "value"), strict=True):
            matrix = self._arrays[kernel(letter)]
            values[name] = matrix.reshape(len(matrix), heads, -1)
            values[f"{name}_bias"] = self._arrays[bias(letter)].reshape(heads, -1)
        output = self._arrays[kernel("o")]
        values["output"] = output.reshape(heads, -1, output.shape[-1])
        return AttentionWeights(
            **values, output_bias=self._arrays[bias("o")].reshape(-1)
        )

    def _read_layer(self, stack: str, number: int) -> dict[str, Any]:
        parts = {"self_attention": "self"}
        if stack == "decoder":
            parts["cross_attention"] = "context"
        if self._is_new:
            return self._read_new_layer(stack, number, parts)
        prefix, layer = f"{stack}_l{number + 1}", {}
        for ours, theirs in parts.items():
            path = f"{prefix}_{theirs}"
            layer[ours] = self._attention(
                lambda letter, path=path: f"{path}_W{letter}",
                lambda letter, path=path: f"{path}_b{letter}",
            )
            layer[f"{ours}_norm"] = self._norm(f"{path}_Wo_ln")
        names = (f"{prefix}_ffn_{each}" for each in ("W1", "b1", "W2", "b2"))
        w1, b1, w2, b2 = (self._arrays[name] for name in names)
        layer["feed_forward"] = FeedForwardWeights(w1, b1[0], w2, b2[0])
        layer["feed_forward_norm"] = self._norm(f"{prefix}_ffn_ffn_ln")
        return layer

    def _read_new_layer(
        self, stack: str, number: int, parts: dict[str, str]
    ) -> dict[str, Any]:
        kind = "TransformerEncoderLayer"
        blocks = {"self_attention": "selfAttentionBlock->selfAttention"}
        if stack == "decoder":
            kind = "TransformerDecoderLayerWithCrossAttention"
            blocks["self_attention"] = "autoRegressiveBlock->selfAttention"
            blocks["cross_attention"] = "crossAttentionBlock->crossAttention"
        prefix = f"TransformerBatch{stack.title()}->{stack}->layers->at({number})"
        prefix += f"->as<marian::nn::{kind}>()"
        pre = self.settings["transformer-preprocess"] == "n"
        step = "preprocessor" if pre else "postprocessor"
        layer: dict[str, Any] = {}
        for ours in parts:
            block, path = blocks[ours].split("->")[0], f"{prefix}->{blocks[ours]}"
            layer[ours] = self._attention(
                lambda letter, path=path: f"{path}->{letter}Proj->weight",
                lambda letter, path=path: f"{path}->{letter}Proj->bias",
            )
            layer[f"{ours}_norm"] = self._norm(f"{prefix}->{block}->{step}->norm")
        relu = self.settings["transformer-ffn-activation"] == "relu"
        first, second = ("LinearReluDropout", 1) if relu else ("Linear", 3)
        linear = f"{prefix}->filterBlock->layers->at({{}})->as<marian::nn::{{}}>()"
        layer["feed_forward"] = FeedForwardWeights(
            *(
                self._arrays[f"{path}->{name}"]
                for path in (linear.format(0, first), linear.format(second, "Linear"))
                for name in ("weight", "bias")
            )
        )
        layer["feed_forward_norm"] = self._norm(f"{prefix}->filterBlock->{step}->norm")
        return layer


def _read_pieces(path: Path) -> list[str]:
    if path.suffix == ".spm":
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    ids = json.loads(_as_json(path.read_text("utf-8")))
    assert sorted(ids.values()) == [*range(len(ids))]
    return sorted(ids, key=lambda piece: ids[piece])


def _as_json(text: str) -> str:
    return "{" + ",".join(text.splitlines()) + "}"


def _own_order(pieces: list[str]) -> list[int]:
    special = [pieces.index(each) for each in ("<pad>", "</s>", "<unk>")]
    return [*special, *(i for i in range(len(pieces)) if i not in special)]
