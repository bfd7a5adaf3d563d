"""Options of the model (section 3 and Table 3), each declared once.

The layers take `LayerOptions`, a run has `ModelConfig`, and `Transformer` adds what a
vocabulary decides. The defaults are the paper's base model. Options from
`normalization` on, and from `encoder_layers` on, are choices of other programs, which
the paper's model does not need (docs/architecture.md).
"""

import dataclasses
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting, settings_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerOptions(Settings):
    """Options of encoder and decoder layers."""

    d_model: int = setting(
        512, "Width of the model, an even number with sinusoids.", low=1
    )
    d_ff: int = setting(2048, "Inner width of the feed-forward networks.", low=1)
    num_heads: int = setting(
        8, "h, number of attention heads.", low=1, reinterprets=True
    )
    d_k: int | None = setting(
        None,
        "Size of the queries and keys of a head. Default: d_model / num_heads.",
        low=1,
    )
    d_v: int | None = setting(
        None,
        "Size of the values of a head. Default: d_model / num_heads.",
        low=1,
    )
    dropout_rate: float = setting(
        0.1, "P_drop, rate of dropout, from 0 to 0.99.", low=0, high=0.99
    )
    attention_dropout_rate: float = setting(
        0.0,
        "Rate of dropout of attention weights, from 0 to 0.99. The paper uses it "
        "for parsing.",
        low=0,
        high=0.99,
    )
    encoder_neighborhood: int | None = setting(
        None,
        "Window size of restricted encoder self-attention (section 4), in tokens, "
        "odd. Default: unrestricted.",
        low=1,
        reinterprets=True,
    )
    normalization: str = setting(
        "post",
        "Place of layer normalization: post, after the sum of each sub-layer and its "
        "residual, as in the paper; or pre, before each sub-layer and after each "
        "stack, which deep models need.",
        choices=("post", "pre"),
    )
    layer_norm_epsilon: float = setting(
        1e-6,
        "Number added to the variance in layer normalization.",
        low=1e-12,
        high=1,
        reinterprets=True,
    )
    activation: str = setting(
        "relu",
        "Activation of the feed-forward networks: relu, as in the paper, swish, or "
        "gelu (exact, without tanh).",
        choices=("relu", "swish", "gelu"),
        reinterprets=True,
    )
    attention_bias: bool = setting(
        False,
        "Whether the projections of queries, keys, values and of attention's output "
        "have biases.",
    )

    def check(self) -> None:
        if None in (self.d_k, self.d_v) and self.d_model % self.num_heads:
            raise UserError(
                "--d_model must be a multiple of --num_heads unless --d_k and --d_v "
                f"are set. Received: {self.d_model} and {self.num_heads}"
            )
        if self.encoder_neighborhood and not self.encoder_neighborhood % 2:
            raise UserError(
                "--encoder_neighborhood must be odd, so that it can be centered. "
                f"Received: {self.encoder_neighborhood}"
            )

    def head_sizes(self) -> tuple[int, int, int]:
        """Returns h, d_k and d_v."""
        default = self.d_model // self.num_heads
        d_k = default if self.d_k is None else self.d_k
        d_v = default if self.d_v is None else self.d_v
        return self.num_heads, d_k, d_v


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArchitectureOptions(LayerOptions):
    """Options of the layers, their number, positions and embeddings."""

    num_layers: int = setting(
        6, "N, number of layers in the encoder and in the decoder.", low=1
    )
    learned_positions: int | None = setting(
        None,
        "Number of position vectors to learn (Table 3, row E). Default: sinusoids.",
        low=1,
    )
    encoder_layers: int | None = setting(
        None, "Number of layers in the encoder. Default: --num_layers.", low=1
    )
    decoder_layers: int | None = setting(
        None,
        "Number of layers in the decoder. Default: --num_layers. Few of them "
        "translate faster.",
        low=1,
    )
    output_bias: bool = setting(False, "Whether the logits have a bias.")
    tie_output: bool = setting(
        True,
        "Whether the output projection has the matrix of the embedding, as in the "
        "paper. Otherwise it has one of its own.",
    )
    position_layout: str = setting(
        "interleaved",
        "Layout of sinusoids: interleaved, sines and cosines alternate, as in the "
        "paper; halves, all sines first; or halves_t2t, which has the wavelengths of "
        "Tensor2Tensor and Marian too.",
        choices=("interleaved", "halves", "halves_t2t"),
        reinterprets=True,
    )
    first_position: int = setting(
        0,
        "Number of a sentence's first position, in sinusoids and in learned positions.",
        low=0,
        high=1_000_000,
        reinterprets=True,
    )
    share_embeddings: bool = setting(
        True,
        "Whether the encoder has the embedding of the decoder, as in the paper. "
        "Otherwise it has one of its own.",
    )
    source_eos: bool = setting(
        True,
        "Whether the encoder reads the end-of-sentence token of a source. Models of "
        "OpenNMT-tf do not.",
        reinterprets=True,
    )

    def check(self) -> None:
        super().check()
        if self.learned_positions is None:
            if self.d_model % 2:
                raise UserError(
                    "--d_model must be even: sines and cosines come in pairs. "
                    f"Received: {self.d_model}"
                )
            return
        if self.position_layout != "interleaved":
            raise UserError(
                "--position_layout is for sinusoids, and with --learned_positions "
                f"there are none. Remove one of them. Received: {self.position_layout} "
                f"and {self.learned_positions}"
            )
        if self.first_position >= self.learned_positions:
            raise UserError(
                "--first_position must be below --learned_positions, whose first "
                f"number is 0. Received: {self.first_position} and "
                f"{self.learned_positions}"
            )

    @property
    def max_positions(self) -> int | None:
        """Maximum number of tokens that have a position; None for no maximum."""
        if self.learned_positions is None:
            return None
        return self.learned_positions - self.first_position


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(ArchitectureOptions):
    """Model: the hyperparameters of section 3 and Table 3."""

    decoder_start: str = setting(
        "zero",
        "First input of the decoder: zero, the zero vector; or a piece of the "
        "vocabulary, such as </s>, for its embedding.",
        reinterprets=True,
        shared=True,
    )
    model: str | None = setting(
        None,
        "Class of the model, as package.module:Class: a subclass of "
        "t2t_keras.Transformer that Python can import. Default: Transformer.",
        reinterprets=True,
    )

    def architecture(self) -> dict[str, Any]:
        """Returns the `ArchitectureOptions` by name, for the class of the model."""
        return {name: getattr(self, name) for name in settings_of(ArchitectureOptions)}


# The paper's two models, and one that trains in six minutes on two cores.
BASE = ModelConfig()
BIG = ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout_rate=0.3)
TINY = ModelConfig(num_layers=2, d_model=128, d_ff=512, num_heads=4)
