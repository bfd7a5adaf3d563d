"""The one function that writes a model in any format of exports."""

from pathlib import Path

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.runs.export.export_settings import (
    FORMATS,
    SAVED_MODELS,
    ExportSettings,
    check_one_model,
    check_packages,
)
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel


def export_model(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
    *,
    quantization: str = "float32",
    allow_approximate: bool = False,
    license_name: str | None = None,
) -> Path:
    """Writes a new version, and returns its directory.

    Args:
        trained: The model.
        model_dir: Directory of its run.
        export_format: A name in `FORMATS`.
        settings: Settings of a SavedModel, and of the search in other formats.
        quantization: Storage type of the weights, for CTranslate2 and Argos.
        allow_approximate: As in `export_transformers`.
        license_name: License of the model, for its card; None if it is not known.

    Raises:
        UserError: If there is no such format, it has no such model, it needs packages
            that are not installed, or the settings exceed what the model can do.
        OSError: If the version cannot be written.
    """
    if export_format not in FORMATS:
        raise UserError(
            f"--format must be one of {', '.join(FORMATS)}. Received: "
            f"{export_format}.{did_you_mean(str(export_format), FORMATS)}"
        )
    check_packages(export_format)
    # Each imports its packages only when it is used.
    if export_format in SAVED_MODELS:
        from t2t_keras.runs.export.saved_model import export_saved_model

        return export_saved_model(trained, model_dir, export_format, settings)
    check_one_model(export_format, trained.others, trained.shortlist)
    if export_format == "keras":
        from t2t_keras.runs.export.keras_file import export_keras

        return export_keras(trained, model_dir.export_keras)
    if trained.config.model.model is not None:
        raise UserError(
            f"--format={export_format} has the layers of the Transformer alone, and "
            f"this model is a {trained.config.model.model}. Export it as a SavedModel "
            "or for Keras: --format=text, ids or keras."
        )
    if export_format == "ctranslate2":
        from t2t_keras.runs.export.ctranslate2 import export_ctranslate2

        return export_ctranslate2(trained, model_dir.export_ctranslate2, quantization)
    if trained.vocabulary.languages is not None:
        raise UserError(
            f"--format={export_format} has models of one pair of languages, and this "
            "one is multilingual. Export it as a SavedModel, for Keras or for "
            "CTranslate2: --format=text, ids, keras or ctranslate2."
        )
    if export_format == "argos":
        from t2t_keras.runs.export.argos import export_argos

        return export_argos(trained, model_dir, quantization, license_name)
    if export_format == "marian":
        from t2t_keras.runs.export.marian import export_marian

        return export_marian(trained, model_dir.export_marian, settings.decoding)
    from t2t_keras.runs.export.transformers import export_transformers

    return export_transformers(
        trained,
        model_dir,
        settings.decoding,
        allow_approximate=allow_approximate,
        license_name=license_name,
    )
