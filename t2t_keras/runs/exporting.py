"""Export of a trained model as a SavedModel in the model directory.

A server loads every integer-named folder that it finds in a base directory, so each
kind of export has its own: text in and out; the same compiled by XLA, which a stock
server refuses; ids in and out, which need no TensorFlow Text.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from t2t_keras import __version__
from t2t_keras.decoding.sampling import Sampling
from t2t_keras.decoding.transformer_search import (
    search_translations,
    target_log_probs,
)
from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.export_settings import ExportSettings, select_warm_up
from t2t_keras.runs.model_dir import ModelDir, package_versions
from t2t_keras.runs.models import TrainedModel, longest_source, search_settings
from t2t_keras.serving import signature
from t2t_keras.serving.export.ids_module import (
    IdsModule,
    ServedModel,
    buckets_up_to,
    compile_search,
)
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.serving.export.model_card import write_model_card
from t2t_keras.serving.export.requests import warm_up_requests, write_warm_up
from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.server_files import (
    BATCHING,
    find_differing_files,
    read_max_batch_size,
    write_batching_parameters,
    write_server_files,
)
from t2t_keras.serving.export.translator_module import TranslatorModule
from t2t_keras.serving.export.validation import (
    check_graph,
    list_signatures,
    read_meta_graph,
    validate,
)
from t2t_keras.training.checkpoints import read_state

_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece")
_MODULE_CLASSES = MappingProxyType({"text": TranslatorModule, "ids": IdsModule})


def export(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path:
    """Writes a new version and records it on the run card.

    Args:
        trained: The model.
        model_dir: Directory of its run.
        export_format: "text" for text in and out; "ids" for token ids, which is never
            compiled by XLA.
        settings: Settings of the export.

    Returns:
        The version's directory.

    Raises:
        UserError: If there is no such format, the settings exceed what the model can
            do, the version fails validation, or existing server settings would refuse
            it.
        OSError: If the version cannot be written.
    """
    if export_format not in _MODULE_CLASSES:
        raise UserError(
            f"--format must be one of {', '.join(_MODULE_CLASSES)}. Received: "
            f"{export_format}.{did_you_mean(export_format, list(_MODULE_CLASSES))}"
        )
    settings = _without_xla_for_ids(export_format, settings)
    warm_up = select_warm_up(
        settings.warm_up, settings.signatures(export_format), export_format
    )
    base = _base_directory(model_dir, export_format, settings)
    if signature.TRANSLATE in warm_up:
        _check_batching(base / BATCHING, settings.batch_sizes[-1])
    module_class = _MODULE_CLASSES[export_format]
    version = _write(module_class, trained, model_dir, settings, base, warm_up)
    directory = str(version.relative_to(model_dir.path))
    metadata = {"directory": directory, **_identity(trained, settings)}
    model_dir.update_run_card({base.name: metadata})
    return version


def find_differing_server_files(
    model_dir: ModelDir, export_format: str, settings: ExportSettings
) -> list[Path]:
    """Returns existing server files that differ from what an export would write.

    Args:
        model_dir: Directory of the run.
        export_format: "text" or "ids".
        settings: Settings of the export.
    """
    settings = _without_xla_for_ids(export_format, settings)
    base = _base_directory(model_dir, export_format, settings)
    return find_differing_files(
        base, settings.model_name, settings.batch_sizes, settings.xla
    )


def log_kept_files(
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
    log: Callable[[str], object],
) -> None:
    """Logs which existing server files differ from what an export would write.

    Args:
        model_dir: Directory of the run.
        export_format: Format of the export.
        settings: Settings of the export.
        log: Called with a line if `find_differing_server_files` finds any.
    """
    files = find_differing_server_files(model_dir, export_format, settings)
    if files:
        names = ", ".join(path.name for path in files)
        log(
            f"kept in {files[0].parent}, though this export would write them "
            f"differently: {names}. To replace them, delete them and export again."
        )


def newest_export(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path | None:
    """Returns the newest export if it has the same weights and settings, or None.

    Exporting again would make a server that watches the folder load the same model
    twice.
    """
    base = _base_directory(model_dir, export_format, settings)
    recorded = dict(model_dir.run_card().get(base.name, {}))
    version = model_dir.path / recorded.pop("directory", "")
    same = recorded == _identity(trained, settings)
    return version if same and (version / "saved_model.pb").is_file() else None


def _without_xla_for_ids(
    export_format: str, settings: ExportSettings
) -> ExportSettings:
    """Returns the settings, with XLA off for the format "ids"."""
    return dataclasses.replace(settings, xla=settings.xla and export_format != "ids")


def _check_batching(path: Path, largest: int) -> None:
    """Raises `UserError` if a server with these batching parameters refuses warm-up.

    Args:
        path: The batching parameters file, which may be missing.
        largest: Rows of the largest warm-up request.
    """
    if not path.exists():
        return
    max_batch_size = read_max_batch_size(path)
    if largest > max_batch_size:
        raise UserError(
            f"A server with {path} accepts at most {max_batch_size} rows in a request, "
            f"but warm-up requests of this export have {largest}. Raise max_batch_size "
            "and allowed_batch_sizes there, or delete the file to replace it, or "
            f"export with --batch_sizes up to {max_batch_size}."
        )


def _base_directory(
    model_dir: ModelDir, export_format: str, settings: ExportSettings
) -> Path:
    if export_format == "ids":
        return model_dir.export_ids
    return model_dir.export_xla if settings.xla else model_dir.export


def _identity(trained: TrainedModel, settings: ExportSettings) -> dict[str, Any]:
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
    for optional in ("sample", "prefix", "warm_up"):
        if values[optional] == getattr(ExportSettings, optional):
            del values[optional]
    return {**checkpoint, **json.loads(json.dumps(values))}


def _write(
    module_class: type[IdsModule],
    trained: TrainedModel,
    model_dir: ModelDir,
    settings: ExportSettings,
    base: Path,
    warm_up: Sequence[str],
) -> Path:
    trained = cast_to_precision(trained, settings.precision)
    limits = serving_limits(trained, settings)
    if settings.prefix and trained.shortlist:
        trained.shortlist.check_room(limits.target_length)
    buckets = buckets_up_to(limits.source_length)
    decoding, vocabulary = settings.decoding, trained.vocabulary
    parts = (
        build_served_model(
            trained, decoding.extra_length, buckets if settings.xla else ()
        ),
        vocabulary,
        search_settings(decoding),
        limits,
    )
    if module_class is TranslatorModule:
        text_adapter = trained.task.text_adapter(splits_words=True)
        module = TranslatorModule(
            *parts, text_adapter, settings.sample, settings.prefix
        )
    else:
        module = module_class(*parts)

    def write_requests(version: Path) -> None:
        signatures = list_signatures(read_meta_graph(version))
        chosen = {name: signatures[name] for name in warm_up}
        sizes = settings.batch_sizes, buckets if settings.xla else ()
        write_warm_up(version, warm_up_requests(chosen, vocabulary, *sizes))

    metadata = _model_card_metadata(trained, model_dir, settings, limits)
    steps: tuple[Callable[[Path], None], ...] = (
        write_requests,
        lambda version: vocabulary.save(version / "assets.extra/vocabulary.model"),
        functools.partial(
            check_graph, tokenizes=module_class is TranslatorModule, xla=settings.xla
        ),
        functools.partial(validate, vocabulary=vocabulary),
        functools.partial(write_batching_parameters, batch_sizes=settings.batch_sizes),
        functools.partial(write_model_card, metadata=metadata),
    )
    version = save_version(module, base, steps)
    write_server_files(base, settings.model_name, settings.batch_sizes, settings.xla)
    return version


def serving_limits(trained: TrainedModel, settings: ExportSettings) -> ServingLimits:
    """Returns the limits of an export.

    Raises:
        UserError: If the settings exceed what the model can do.
    """
    model = trained.search_model
    source_length = settings.max_source_length or longest_source(model)
    positions = model.max_positions
    if positions and source_length > positions:
        raise UserError(
            f"--max_source_length={source_length} is more than the {positions} "
            "positions that the model has learned. Choose a smaller one."
        )
    beam_size = settings.decoding.beam_size
    n_best = settings.n_best or beam_size
    if n_best > beam_size:
        raise UserError(
            f"--n_best={n_best} is more than --beam_size={beam_size}, the number of "
            "translations that the search keeps."
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


def build_served_model(
    trained: TrainedModel, extra_length: int, buckets: tuple[int, ...] = ()
) -> ServedModel:
    """Returns the functions of a trained model that an export traces.

    Args:
        trained: The model.
        extra_length: Maximum tokens that a translation has beyond its source's.
        buckets: Lengths to pad sources to for XLA; empty without XLA.
    """
    model = trained.search_model
    search: Any = functools.partial(
        search_translations,
        model,
        extra_length=extra_length,
        shortlist=trained.shortlist,
    )
    weights: list[tf.Variable] = [
        weight.value
        for each in (trained, *trained.others)
        for weight in each.model.weights
    ]
    if trained.shortlist is not None:
        weights += trained.shortlist.weights
    return ServedModel(
        compile_search(search, buckets) if buckets else search,
        functools.partial(target_log_probs, model),
        functools.partial(attention_maps, trained.model),
        weights,
    )


def cast_to_precision(trained: TrainedModel, precision: str | None) -> TrainedModel:
    """Returns the model with its weights stored in the dtype that it computes in.

    Args:
        trained: A model, whose weights are float32 in any precision. The others of its
            ensemble are cast too.
        precision: float32 or bfloat16. Default: that of the run, but float32 for
            float16, which is slow on CPUs.
    """
    others = tuple(cast_to_precision(each, precision) for each in trained.others)
    trained = dataclasses.replace(trained, others=others)
    trained_in = trained.config.training.precision
    if precision is None:
        precision = "bfloat16" if trained_in == "bfloat16" else "float32"
    if precision == trained_in == "float32":
        return trained
    model = Transformer(**trained.model.sizes, dtype=precision)
    model.build()
    for ours, theirs in zip(model.weights, trained.model.weights, strict=True):
        ours.assign(tf.cast(theirs.value, ours.dtype))
    return dataclasses.replace(trained, model=model)


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
        "precision": trained.model.dtype_policy.compute_dtype,
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


def _sampling_values(sampling: Sampling) -> dict[str, Any]:
    """Returns the settings of the signature "sample", which takes seeds itself."""
    values = dataclasses.asdict(sampling)
    del values["seed"]
    return values


def _original_ids(run_card: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ids that an imported model's pieces had in its source; else none."""
    imported = run_card.get("import", {})
    names = "original_ids", "source_original_ids"
    return {name: imported[name] for name in names if name in imported}


def _model_card_metadata(
    trained: TrainedModel,
    model_dir: ModelDir,
    settings: ExportSettings,
    limits: ServingLimits,
) -> dict[str, Any]:
    """Returns the part of the model card that no file of the export contains."""
    checkpoint = _describe_checkpoint(trained)
    data = trained.config.data
    card = model_dir.run_card()
    return {
        "name": settings.model_name,
        "languages": {"source": data.source_language, "target": data.target_language},
        "source": checkpoint,
        "corpus": card.get("corpus", {}).get("name"),
        "model": _describe_model(trained),
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
        "scores": {
            name: score
            for name, score in card.get("scores", {}).items()
            if score.get("checkpoint") == checkpoint["checkpoint"]
            # They are scores of one model, with all of its vocabulary.
            and not (trained.others or trained.shortlist)
        },
        "versions": {
            "t2t_keras": __version__,
            **package_versions(_PACKAGES),
        },
    }
