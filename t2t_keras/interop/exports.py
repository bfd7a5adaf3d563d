"""The formats of other toolkits that a model can be exported to."""

from collections.abc import Callable
from pathlib import Path

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.config import DecodingConfig

TOOLKITS = ("ctranslate2", "transformers", "keras")
"""Names of the formats."""


def export_model(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    *,
    decoding: DecodingConfig,
    quantization: str = "float32",
    allow_approximate: bool = False,
    log: Callable[[str], object] = lambda _: None,
) -> Path:
    """Writes a new version in a format of `TOOLKITS`, and returns its directory.

    Args:
        trained: The model.
        model_dir: Directory of its run.
        export_format: A name in `TOOLKITS`.
        decoding: Settings of the search, for transformers.
        quantization: Storage type of the weights, for CTranslate2.
        allow_approximate: As in `export_transformers`.
        log: Called with warnings, and with the difference that was measured.

    Raises:
        UserError: If the toolkit has no such model.
        OSError: If the version cannot be written.
    """
    # Each imports its package only when it is used.
    if export_format == "keras":
        from t2t_keras.runs.keras_export import export_keras

        return export_keras(trained, model_dir.export_keras)
    if export_format == "ctranslate2":
        from t2t_keras.runs.ctranslate2_export import export_ctranslate2

        return export_ctranslate2(trained, model_dir.export_ctranslate2, quantization)
    from t2t_keras.interop.marian_mt.export import export_transformers

    return export_transformers(
        trained,
        model_dir.export_transformers,
        decoding,
        allow_approximate=allow_approximate,
        log=log,
    )
