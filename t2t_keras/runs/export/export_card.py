"""Record of an export, on the run card and on the card of the export itself."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from t2t_keras import __version__
from t2t_keras.decoding.settings import SamplingSettings
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.runs.export.int8_model import precision_of
from t2t_keras.runs.model_dir import ModelDir, package_versions
from t2t_keras.runs.models import TrainedModel
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.training.checkpoints import read_state

_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece")


def identity(trained: TrainedModel, settings: ExportSettings) -> dict[str, Any]:
    """Returns checkpoint and settings, which identify an export, as JSON values."""
    checkpoint = _describe_checkpoint(trained)
    if trained.others:
        checkpoint["ensemble_with"] = [
            {"run": str(each.run_folder), **_describe_checkpoint(each)}
            for each in trained.others
        ]
    if trained.shortlist is not None:
        checkpoint["shortlist"] = trained.shortlist.describe()
    values = {**dataclasses.asdict(settings), "decoding": settings.decoding.as_dict()}
    # Settings at their defaults that exports of earlier releases did not have.
    for optional in ("sample", "prefix", "terms", "warm_up"):
        if values[optional] == getattr(ExportSettings, optional):
            del values[optional]
    return {**checkpoint, **json.loads(json.dumps(values))}


def model_card_metadata(
    trained: TrainedModel,
    model_dir: ModelDir,
    settings: ExportSettings,
    limits: ServingLimits,
) -> dict[str, Any]:
    """Returns the part of the model card that no file of the export contains."""
    run = describe_run(trained, model_dir)
    card, scores = model_dir.run_card(), run.pop("scores")
    return {
        "name": settings.model_name,
        **run,
        **_describe_others(trained),
        **({"shortlist": trained.shortlist.describe()} if trained.shortlist else {}),
        "vocabulary": {
            "size": trained.vocabulary.size,
            "sha256": trained.vocabulary.sha256,
            **_original_ids(card),
        },
        "decoding": settings.decoding.as_dict(),
        **({"sampling": _sampling_values(settings.sample)} if settings.sample else {}),
        "limits": dataclasses.asdict(limits),
        "xla": settings.xla,
        "scores": scores,
        "versions": {
            "t2t_keras": __version__,
            **package_versions(_PACKAGES),
        },
    }


def describe_run(trained: TrainedModel, model_dir: ModelDir) -> dict[str, Any]:
    """Returns languages, checkpoint, corpus, sizes and scores of a model."""
    checkpoint, card = _describe_checkpoint(trained), model_dir.run_card()
    data, languages = trained.config.data, trained.vocabulary.languages
    return {
        "languages": {
            "source": data.source_language,
            "target": data.target_language,
            **({"codes": list(languages.pieces)} if languages else {}),
        },
        "source": checkpoint,
        "corpus": card.get("corpus", {}).get("name"),
        "model": _describe_model(trained),
        "scores": {
            name: score
            for name, score in card.get("scores", {}).items()
            if score.get("checkpoint") == checkpoint["checkpoint"]
            # They are scores of one model, with all of its vocabulary.
            and not (trained.others or trained.shortlist)
        },
    }


def _describe_checkpoint(trained: TrainedModel) -> dict[str, Any]:
    """Returns name, step and averaged steps of a model's checkpoint."""
    return {
        "checkpoint": trained.checkpoint_name,
        "step": trained.step,
        "averaged": list(read_state(trained.checkpoint).averaged),
    }


def _describe_model(trained: TrainedModel) -> dict[str, Any]:
    """Returns sizes, number of parameters and precision of one model."""
    return {
        **trained.model.sizes,
        "parameters": trained.model.count_params(),
        "precision": precision_of(trained.model),
    }


def _describe_others(trained: TrainedModel) -> dict[str, Any]:
    """Returns the entry of a model card about an ensemble; none without one."""
    if not trained.others:
        return {}
    others = [
        {
            "run": each.run_folder.name,
            "source": _describe_checkpoint(each),
            "model": _describe_model(each),
        }
        for each in trained.others
    ]
    return {"ensemble_with": others}


def _sampling_values(sampling: SamplingSettings) -> dict[str, Any]:
    """Returns the settings of the signature "sample", which takes seeds itself."""
    values = dataclasses.asdict(sampling)
    del values["seed"]
    return values


def _original_ids(run_card: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ids that an imported model's pieces had in its source; else none."""
    imported = run_card.get("import", {})
    names = "original_ids", "source_original_ids"
    return {name: imported[name] for name in names if name in imported}
