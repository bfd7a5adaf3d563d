"""Options of the Transformer: those of its architecture and vocabulary."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

from t2t_keras.errors import UserError, check_at_least, did_you_mean
from t2t_keras.settings.model_config import ArchitectureOptions

_P = ParamSpec("_P")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerOptions(ArchitectureOptions):
    """Options of a Transformer: its architecture, and what its vocabulary decides.

    Attributes:
        vocabulary_size: V.
        source_vocabulary_size: Number of ids of the encoder's embedding if it is not
            shared; vocabulary_size if None.
        decoder_start: Id whose embedding is the decoder's first input, or "zero" for
            the zero vector. Inputs have id 0 there in either case.

    Raises:
        UserError: If an option is not legal, decoder_start is no id in [1, V), or a
            shared embedding has another source_vocabulary_size.
    """

    vocabulary_size: int = dataclasses.field(kw_only=False)
    source_vocabulary_size: int | None = None
    decoder_start: int | str = "zero"

    def check(self) -> None:
        super().check()
        size, start = self.vocabulary_size, self.decoder_start
        source_size = size
        if self.source_vocabulary_size is not None:
            source_size = self.source_vocabulary_size
            check_at_least(1, source_vocabulary_size=source_size)
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
