"""Settings of an export, and the limits that follow from them and the model."""

import dataclasses
import re

from t2t_keras.errors import UserError
from t2t_keras.runs import models
from t2t_keras.runs.models import TrainedModel
from t2t_keras.serving.export.limits import ServingLimits
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


def limits_of(trained: TrainedModel, settings: ExportSettings) -> ServingLimits:
    """Returns the limits of an export.

    Raises:
        UserError: If the model cannot do what is asked for.
    """
    longest = models.longest_source(trained.model)
    source_length = settings.max_source_length or longest
    positions = trained.model.sizes["learned_positions"]
    if positions and source_length > positions:
        raise UserError(
            f"--max_source_length={source_length} is more than the {positions} "
            "positions that the model has learned."
        )
    beam_size = settings.decoding.beam_size
    n_best = settings.n_best or beam_size
    if n_best > beam_size:
        raise UserError(
            f"--n_best={n_best} is more than --beam_size={beam_size}, the number of "
            "translations that are found."
        )
    target_length = source_length + settings.decoding.extra_length
    return ServingLimits(
        source_length,
        target_length=min(target_length, positions or target_length),
        characters=settings.max_characters,
        attention_length=min(settings.max_attention_length, source_length),
        beam_size=settings.max_beam_size or max(8, beam_size),
        n_best=n_best,
    )
