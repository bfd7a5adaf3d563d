"""Settings of an export, which can be checked without TensorFlow."""

import dataclasses
import re
from collections.abc import Sequence

from t2t_keras.errors import UserError
from t2t_keras.settings.config import DecodingConfig

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """What can be chosen of an export; None where the model says what is best.

    Attributes:
        decoding: How to search.
        xla: Whether XLA compiles the search.
        precision: float32 or bfloat16; that of the run if None, float16 aside.
        n_best: Translations of each text that signature nbest gives; the beam size
            if None.
        max_source_length: Most tokens of a source, EOS counted.
        max_characters: Most code points of a source.
        max_beam_size: Most that a request may ask for; 8, or the beam size if that
            is more, if None.
        max_attention_length: Most tokens of either side whose attention is shown.
        batch_sizes: What a server is told to fill batches up to, ascending; few where
            each costs a compilation, if empty.
        model_name: What requests call the model, in lower-case letters, digits and
            hyphens.

    Raises:
        UserError: If the name is another.
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

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.model_name):
            raise UserError(
                "--model_name must be lower-case letters, digits and hyphens, as "
                f"Kubernetes wants its names. Received: {self.model_name!r}"
            )
        if not self.batch_sizes:
            sizes = (1, 8, 32) if self.xla else (1, 2, 4, 8, 16, 32)
            object.__setattr__(self, "batch_sizes", sizes)


def parse_batch_sizes(texts: Sequence[str]) -> tuple[int, ...]:
    """Returns the numbers of --batch_sizes.

    Raises:
        UserError: If they are not numbers from 1 that ascend.
    """
    sizes = tuple(int(text) if text.isdecimal() else 0 for text in texts)
    if list(sizes) != sorted(set(sizes)) or 0 in sizes:
        raise UserError(
            "--batch_sizes must be numbers from 1, each larger than the one before, "
            f"as 1,8,32. Received: {','.join(texts)}"
        )
    return sizes
