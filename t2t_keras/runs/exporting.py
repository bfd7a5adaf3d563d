"""A trained model as something to serve: what is written, and where it goes.

Each flavor has a base directory of its own, for a server loads whatever integer it
finds there: text in and out; the same compiled by XLA, which a stock server refuses;
ids in and out, which need no TensorFlow Text.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from t2t_keras import __version__
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.errors import UserError
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.model.target_scores import target_log_probs
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.export_settings import ExportSettings
from t2t_keras.runs.model_dir import ModelDir, package_versions
from t2t_keras.runs.models import TrainedModel, longest_source
from t2t_keras.serving.export.compiled_search import buckets_up_to, compile_search
from t2t_keras.serving.export.ids_module import IdsModule, ServedModel
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.serving.export.model_card import write_model_card
from t2t_keras.serving.export.requests import warm_up_requests, write_warm_up
from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.server_files import (
    BATCHING,
    kept_server_files,
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
from t2t_keras.training import checkpoints

_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece")
_KINDS = MappingProxyType({"text": TranslatorModule, "ids": IdsModule})


def export(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path:
    """Writes a new version, and notes it on the run card.

    Args:
        trained: The model.
        model_dir: Where its run is.
        export_format: "text" for a version that takes and gives text; "ids" for one
            of token ids, which is never compiled by XLA.
        settings: What is chosen of it.

    Returns:
        The version's directory.

    Raises:
        UserError: If the model cannot do what is asked for, or the version would not
            work, or the server's settings beside it would refuse it.
        OSError: If it cannot be written.
    """
    settings = _fitting(export_format, settings)
    base = _base_of(model_dir, export_format, settings)
    _check_batching(base / BATCHING, settings.batch_sizes[-1])
    version = _write(_KINDS[export_format], trained, model_dir, settings, base)
    place = str(version.relative_to(model_dir.path))
    facts = {"directory": place, **_identity(trained, settings)}
    model_dir.update_run_card({base.name: facts})
    return version


def kept_files(
    model_dir: ModelDir, export_format: str, settings: ExportSettings
) -> list[Path]:
    """Returns the settings of a server that an export found there and would change.

    Args:
        model_dir: Of the export.
        export_format: As of `export`.
        settings: Of the export.
    """
    settings = _fitting(export_format, settings)
    base = _base_of(model_dir, export_format, settings)
    return kept_server_files(
        base, settings.model_name, settings.batch_sizes, settings.xla
    )


def log_kept_files(
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
    log: Callable[[str], object],
) -> None:
    """Logs which settings of a server differ from those that an export would write.

    Args:
        model_dir: Directory of the run.
        export_format: Format of the export.
        settings: Settings of the export.
        log: Called with a line if `kept_files` finds any.
    """
    files = kept_files(model_dir, export_format, settings)
    if files:
        names = ", ".join(path.name for path in files)
        log(
            f"kept as they were in {files[0].parent}, and other than this export would "
            f"write them: {names}. To have them anew, delete them and export again."
        )


def newest_export(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path | None:
    """Returns the newest export if it is of the same weights and the same settings.

    A run that is finished again would make a server that watches the folder load
    the same thing once more.
    """
    base = _base_of(model_dir, export_format, settings)
    known = dict(model_dir.run_card().get(base.name, {}))
    version = model_dir.path / known.pop("directory", "")
    same = known == _identity(trained, settings)
    return version if same and (version / "saved_model.pb").is_file() else None


def _fitting(export_format: str, settings: ExportSettings) -> ExportSettings:
    """Returns the settings without XLA for token ids, which it never compiles."""
    return dataclasses.replace(settings, xla=settings.xla and export_format != "ids")


def _check_batching(path: Path, largest: int) -> None:
    """Raises `UserError` if a server that batches as a file says refuses the warm-up.

    Args:
        path: Of the file, which need not be there.
        largest: Rows of the largest request of the warm-up.
    """
    if not path.exists():
        return
    most = read_max_batch_size(path)
    if largest > most:
        raise UserError(
            f"A server with {path} takes at most {most} rows in a request, and would "
            f"refuse a version that is warmed for {largest}. Raise max_batch_size and "
            "allowed_batch_sizes there, or delete the file to have it anew, or export "
            f"with --batch_sizes up to {most}."
        )


def _base_of(model_dir: ModelDir, export_format: str, settings: ExportSettings) -> Path:
    if export_format == "ids":
        return model_dir.export_ids
    return model_dir.export_xla if settings.xla else model_dir.export


def _identity(trained: TrainedModel, settings: ExportSettings) -> dict[str, Any]:
    """Returns what makes an export the one that it is, as JSON has it."""
    source = _source(trained)
    return {**source, **json.loads(json.dumps(dataclasses.asdict(settings)))}


def _write(
    kind: type[IdsModule],
    trained: TrainedModel,
    model_dir: ModelDir,
    settings: ExportSettings,
    base: Path,
) -> Path:
    trained = in_precision(trained, settings.precision)
    limits = serving_limits(trained, settings)
    buckets = buckets_up_to(limits.source_length)
    decoding, vocabulary = settings.decoding, trained.vocabulary
    parts = (
        served_model(trained, decoding.extra_length, buckets if settings.xla else ()),
        vocabulary,
        BeamSearchSettings(beam_size=decoding.beam_size, alpha=decoding.alpha),
        limits,
    )
    if kind is TranslatorModule:
        text_adapter = trained.task.text_adapter(splits_words=True)
        module = TranslatorModule(*parts, text_adapter)
    else:
        module = kind(*parts)

    def warm_up(version: Path) -> None:
        signatures = list_signatures(read_meta_graph(version))
        sizes = settings.batch_sizes, buckets if settings.xla else ()
        write_warm_up(version, warm_up_requests(signatures, vocabulary, *sizes))

    facts = _facts(trained, model_dir, settings, limits)
    steps: tuple[Callable[[Path], None], ...] = (
        warm_up,
        lambda version: vocabulary.save(version / "assets.extra/vocabulary.model"),
        functools.partial(
            check_graph, tokenizes=kind is TranslatorModule, xla=settings.xla
        ),
        functools.partial(validate, vocabulary=vocabulary),
        functools.partial(write_batching_parameters, batch_sizes=settings.batch_sizes),
        functools.partial(write_model_card, facts=facts),
    )
    version = save_version(module, base, steps)
    write_server_files(base, settings.model_name, settings.batch_sizes, settings.xla)
    return version


def serving_limits(trained: TrainedModel, settings: ExportSettings) -> ServingLimits:
    """Returns the limits of an export.

    Raises:
        UserError: If the model cannot do what is asked for.
    """
    longest = longest_source(trained.model)
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


def served_model(
    trained: TrainedModel, extra_length: int, buckets: tuple[int, ...] = ()
) -> ServedModel:
    """Returns a trained model as the functions that an export traces.

    Args:
        trained: The model.
        extra_length: How many tokens longer than its source a translation may be.
        buckets: Lengths to pad sources to for XLA; none if it does not compile.
    """
    model = trained.model
    search: Any = functools.partial(
        search_translations, model, extra_length=extra_length
    )
    weights: list[tf.Variable] = [weight.value for weight in model.weights]
    return ServedModel(
        compile_search(search, buckets) if buckets else search,
        functools.partial(target_log_probs, model),
        functools.partial(attention_maps, model),
        weights,
    )


def in_precision(trained: TrainedModel, precision: str | None) -> TrainedModel:
    """Returns the model with weights stored in what they are computed in.

    Args:
        trained: A model, whose weights are float32 whatever it computes in.
        precision: float32 or bfloat16; as it was trained if None, but float16, which
            CPUs are slow at, becomes float32.
    """
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


def _source(trained: TrainedModel) -> dict[str, Any]:
    """Returns which checkpoint a model is of."""
    return {
        "checkpoint": trained.checkpoint_name,
        "step": trained.step,
        "averaged": list(checkpoints.read_state(trained.checkpoint).averaged),
    }


def _facts(
    trained: TrainedModel,
    model_dir: ModelDir,
    settings: ExportSettings,
    limits: ServingLimits,
) -> dict[str, Any]:
    """Returns what the model card says, but for what can be read from the files."""
    source = _source(trained)
    data = trained.config.data
    card = model_dir.run_card()
    return {
        "name": settings.model_name,
        "languages": {"source": data.source_language, "target": data.target_language},
        "source": source,
        "corpus": card.get("corpus", {}).get("name"),
        "model": {
            **trained.model.sizes,
            "parameters": trained.model.count_params(),
            "precision": trained.model.dtype_policy.compute_dtype,
        },
        "vocabulary": {
            "size": trained.vocabulary.size,
            "sha256": trained.vocabulary.sha256,
        },
        "decoding": dataclasses.asdict(settings.decoding),
        "limits": dataclasses.asdict(limits),
        "xla": settings.xla,
        "scores": {
            name: score
            for name, score in card.get("scores", {}).items()
            if score.get("checkpoint") == source["checkpoint"]
        },
        "versions": {
            "t2t_keras": __version__,
            **package_versions(_PACKAGES),
        },
    }
