"""Limits of an export, from its settings and from what the model can do."""

from t2t_keras.errors import UserError
from t2t_keras.runs import models
from t2t_keras.runs.export_settings import ExportSettings
from t2t_keras.runs.models import TrainedModel
from t2t_keras.serving.export.limits import ServingLimits


def serving_limits(trained: TrainedModel, settings: ExportSettings) -> ServingLimits:
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
