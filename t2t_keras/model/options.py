"""Options of the layers and of the Transformer, each declared once."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

from t2t_keras.errors import UserError, did_you_mean

_P = ParamSpec("_P")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Options of encoder and decoder layers; the defaults are the paper's base model.

    Attributes:
        d_model: D, width of the model: of a layer's inputs and outputs.
        d_ff: Inner width of the feed-forward network.
        num_heads: h.
        d_k: Size of queries and keys per head; d_model / num_heads if None.
        d_v: Size of values per head; d_model / num_heads if None.
        dropout_rate: P_drop of the sub-layers' outputs, and in the Transformer of the
            embeddings with positions (section 5.4).
        attention_dropout_rate: Fraction of the attention weights to drop (section 6.3).
        encoder_neighborhood: r of restricted self-attention in the encoder
            (section 4), odd; None for attention to every position. Decoder layers
            have none.
        normalization: "post", layer normalization after each sub-layer's sum, or
            "pre", before each sub-layer and after each stack; see `ResidualNorm`.
        layer_norm_epsilon: Added to the variance in layer normalization. The default
            is that of the authors' code; Keras' is a thousand times as large.
        activation: Of the feed-forward network: "relu", "swish" or "gelu" (exact).
        attention_bias: Whether the projections of attention have biases.

    Raises:
        UserError: If num_heads does not divide d_model and d_k or d_v is None, or
            layer_norm_epsilon is not above 0.
    """

    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int | None = None
    d_v: int | None = None
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.0
    encoder_neighborhood: int | None = None
    normalization: str = "post"
    layer_norm_epsilon: float = 1e-6
    activation: str = "relu"
    attention_bias: bool = False

    def __post_init__(self):
        divides = self.d_model % self.num_heads == 0
        if not divides and None in (self.d_k, self.d_v):
            raise UserError(
                "d_model must be a multiple of num_heads where d_k and d_v are not "
                f"given. Received: d_model={self.d_model}, num_heads={self.num_heads}"
            )
        if not self.layer_norm_epsilon > 0:
            raise UserError(
                "layer_norm_epsilon must be above 0, or a constant vector has no norm. "
                f"Received: {self.layer_norm_epsilon}"
            )

    def head_sizes(self) -> tuple[int, int, int]:
        """Returns h, d_k and d_v."""
        default = self.d_model // self.num_heads
        d_k = default if self.d_k is None else self.d_k
        d_v = default if self.d_v is None else self.d_v
        return self.num_heads, d_k, d_v


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerOptions(LayerOptions):
    """Options of a Transformer: those of its layers, and these.

    The arguments of the paper's model are vocabulary_size, num_layers,
    learned_positions and, of the layers', those before `normalization`. The others are
    choices of other programs, which the paper's model does not need
    (docs/architecture.md).

    Attributes:
        vocabulary_size: V.
        num_layers: N, of the encoder and of the decoder.
        learned_positions: Number of learned positions (Table 3, row E); None for
            sinusoids, which need an even d_model.
        encoder_layers: Number of layers of the encoder; num_layers if None.
        decoder_layers: Number of layers of the decoder; num_layers if None.
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

    Raises:
        UserError: As `LayerOptions`; or if d_model is odd without learned positions, a
            number is too low, decoder_start is no id in [1, V), a shared embedding has
            another source_vocabulary_size, or learned positions have a layout.
    """

    vocabulary_size: int = dataclasses.field(kw_only=False)
    num_layers: int = 6
    learned_positions: int | None = None
    encoder_layers: int | None = None
    decoder_layers: int | None = None
    output_bias: bool = False
    tie_output: bool = True
    position_layout: str = "interleaved"
    first_position: int = 0
    share_embeddings: bool = True
    source_vocabulary_size: int | None = None
    source_eos: bool = True
    decoder_start: int | str = "zero"

    def __post_init__(self):
        super().__post_init__()
        self._check_positions()
        self._check_ids()
        for name, size in (
            ("encoder_layers", self.encoder_layers),
            ("decoder_layers", self.decoder_layers),
            ("source_vocabulary_size", self.source_vocabulary_size),
        ):
            if size is not None and size < 1:
                raise UserError(f"{name} must be at least 1. Received: {size}")

    def _check_positions(self) -> None:
        if self.first_position < 0:
            raise UserError(
                f"first_position must be at least 0. Received: {self.first_position}"
            )
        if self.learned_positions is None:
            if self.d_model % 2:
                raise UserError(
                    "d_model must be even for sinusoids, which come in pairs. "
                    f"Received: d_model={self.d_model}"
                )
        elif self.position_layout != "interleaved":
            raise UserError(
                "position_layout is for sinusoids, and learned positions have none. "
                f"Received: position_layout={self.position_layout}, "
                f"learned_positions={self.learned_positions}"
            )

    def _check_ids(self) -> None:
        size, start = self.vocabulary_size, self.decoder_start
        source_size = self.source_vocabulary_size or size
        if self.share_embeddings and source_size != size:
            raise UserError(
                "source_vocabulary_size is for share_embeddings=False, since a shared "
                f"embedding has one size. Received: {source_size} and {size}"
            )
        if start != "zero" and not (isinstance(start, int) and 0 < start < size):
            raise UserError(
                f'decoder_start must be an id in [1, {size}), or "zero" for '
                f"the zero vector, as padding has it. Received: {start}"
            )

    def as_dict(self) -> dict[str, Any]:
        """Returns the options by name, with those that follow from others."""
        _, d_k, d_v = self.head_sizes()
        derived = {
            "d_k": d_k,
            "d_v": d_v,
            "encoder_layers": self.encoder_layers or self.num_layers,
            "decoder_layers": self.decoder_layers or self.num_layers,
        }
        return {**dataclasses.asdict(self), **derived}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerArguments(TransformerOptions):
    """Arguments of `Transformer`: its options, and those of `keras.Model`."""

    name: str | None = "transformer"
    dtype: Any = None
    trainable: bool = True
    autocast: bool = True
    activity_regularizer: Any = None


def option_names(options: Any) -> list[str]:
    """Returns the names of the options of a class, or of an object of it."""
    return [field.name for field in dataclasses.fields(options)]


def check_names(arguments: Mapping[str, Any], options: type) -> None:
    """Raises `UserError` if there is no option, nor argument of Keras, of a name."""
    known = {*option_names(TransformerArguments), *option_names(options)}
    for name in arguments:
        if name not in known:
            raise UserError(
                f"Transformer has no argument {name!r}. Arguments: "
                f"{', '.join(option_names(options))}, and those of keras.Model."
                f"{did_you_mean(name, sorted(known))}"
            )


def has_arguments_of(
    source: Callable[_P, Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, _P], None]]:
    """Returns a decorator: to readers and type checkers a method takes `source`'s.

    So the arguments of a constructor are the fields of a dataclass, which are not
    declared a second time in its signature.
    """

    def decorate(method: Callable[..., None]) -> Callable[Concatenate[Any, _P], None]:
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        signature = inspect.signature(source)
        parameters = [first, *signature.parameters.values()]
        method.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        return method

    return decorate
