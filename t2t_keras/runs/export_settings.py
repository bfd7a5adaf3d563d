"""Settings of an export, checked without importing TensorFlow."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings.config import DecodingConfig

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """Settings of an export; None stands for the model's own value.

    Attributes:
        decoding: Settings of the beam search.
        xla: Whether XLA compiles the search.
        precision: float32 or bfloat16. Default: that of the run, or float32 for a run
            in float16.
        n_best: Translations of each text that the `nbest` signature returns. Default:
            the beam size.
        max_source_length: Maximum tokens of a source, including EOS.
        max_characters: Maximum code points of a source.
        max_beam_size: Maximum beam size of a request. Default: 8, or the beam size if
            that is larger.
        max_attention_length: Maximum tokens of either side in an attention map.
        batch_sizes: Batch sizes that a server pads to, ascending. Default: powers of
            two up to 32; with XLA fewer, since each costs a compilation.
        sample: Settings of signature sample, a `Sampling`, or None without it.
        prefix: Whether there is a signature that takes beginnings of translations.
        model_name: Model name in requests, in lower-case letters, digits and hyphens.

    Raises:
        UserError: If the name has other characters, a number is too small, batch sizes
            are not ascending, or there is no such precision.
    """

    decoding: DecodingConfig
    xla: bool = False
    precision: str | None = None
    n_best: int | None = None
    max_source_length: int | None = None
    max_characters: int | None = None
    max_beam_size: int | None = None
    max_attention_length: int = 64
    batch_sizes: tuple[int, ...] = ()
    model_name: str = "translate"
    sample: Any = None
    prefix: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.model_name):
            raise UserError(
                "--model_name must be lower-case letters, digits and hyphens, as "
                f"Kubernetes requires of names. Received: {self.model_name!r}"
            )
        if self.precision not in (None, "float32", "bfloat16"):
            raise UserError(
                "--precision of an export must be float32 or bfloat16. "
                f"Received: {self.precision}"
            )
        for name, low in (
            ("n_best", 1),
            ("max_source_length", 2),
            ("max_characters", 1),
            ("max_beam_size", 1),
            ("max_attention_length", 2),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < low):
                raise UserError(
                    f"--{name} must be a whole number, at least {low}. "
                    f"Received: {value!r}"
                )
        sizes = parse_batch_sizes([str(size) for size in self.batch_sizes])
        default = (1, 8, 32) if self.xla else (1, 2, 4, 8, 16, 32)
        object.__setattr__(self, "batch_sizes", sizes or default)


def parse_batch_sizes(texts: Sequence[str]) -> tuple[int, ...]:
    """Returns the values of --batch_sizes as numbers.

    Raises:
        UserError: If they are not ascending numbers from 1.
    """
    sizes = tuple(int(text) if text.isdecimal() else 0 for text in texts)
    if list(sizes) != sorted(set(sizes)) or 0 in sizes:
        raise UserError(
            "--batch_sizes must be ascending numbers from 1, for example 1,8,32. "
            f"Received: {','.join(texts)}"
        )
    return sizes
