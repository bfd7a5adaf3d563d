"""Export of a trained model as a SavedModel in the model directory.

A server loads every integer-named folder that it finds in a base directory, so each
kind of export has its own: text in and out; the same compiled by XLA, which a stock
server refuses; ids in and out, which need no TensorFlow Text.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult, axis_size
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions, is_given
from t2t_keras.decoding.transformer_search import (
    search_translations,
    target_log_probs,
)
from t2t_keras.errors import UserError
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.runs import models
from t2t_keras.runs.export import int8_model
from t2t_keras.runs.export.export_card import identity, model_card_metadata
from t2t_keras.runs.export.export_settings import ExportSettings, select_warm_up
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.runs.tasks import check_translates
from t2t_keras.runs.translators import longest_source, search_settings
from t2t_keras.serving import signature
from t2t_keras.serving.export.ids_module import (
    IdsModule,
    Search,
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
from t2t_keras.typing import Tensor

logger = logging.getLogger(__name__)

_MODULE_CLASSES = MappingProxyType({"text": TranslatorModule, "ids": IdsModule})


def export_saved_model(
    trained: TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path:
    """Writes a new version, records it on the run card and returns its directory.

    Args:
        trained: The model.
        model_dir: Directory of its run.
        export_format: "text" for text in and out; "ids" for token ids, which is never
            compiled by XLA.
        settings: Settings of the export.

    Raises:
        UserError: If the settings exceed what the model can do, the version fails
            validation, or existing server settings would refuse it.
        OSError: If the version cannot be written.
    """
    if settings.terms:
        check_translates(trained.config.data.target_language, "terms")
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
    metadata = {"directory": directory, **identity(trained, settings)}
    model_dir.update_run_card({base.name: metadata})
    _log_kept_files(base, settings)
    return version


def _log_kept_files(base: Path, settings: ExportSettings) -> None:
    """Logs which existing server files differ from what an export would write."""
    files = find_differing_files(
        base, settings.model_name, settings.batch_sizes, settings.xla
    )
    if files:
        names = ", ".join(path.name for path in files)
        logger.info(
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
    same = recorded == identity(trained, settings)
    return version if same and (version / "saved_model.pb").is_file() else None


def _without_xla_for_ids(
    export_format: str, settings: ExportSettings
) -> ExportSettings:
    """Returns the settings, with XLA off for the format "ids"."""
    return dataclasses.replace(settings, xla=settings.xla and export_format != "ids")


def _check_batching(path: Path, largest: int) -> None:
    """Raises `UserError` if a server with these parameters refuses such a warm-up."""
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


def _write(
    module_class: type[IdsModule],
    trained: TrainedModel,
    model_dir: ModelDir,
    settings: ExportSettings,
    base: Path,
    warm_up: Sequence[str],
) -> Path:
    trained = in_precision(trained, settings.precision)
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
            *parts, text_adapter, settings.sample, settings.prefix, settings.terms
        )
    else:
        module = module_class(*parts)

    def write_requests(version: Path) -> None:
        signatures = list_signatures(read_meta_graph(version))
        chosen = {name: signatures[name] for name in warm_up}
        sizes = settings.batch_sizes, buckets if settings.xla else ()
        write_warm_up(version, warm_up_requests(chosen, vocabulary, *sizes))

    metadata = model_card_metadata(trained, model_dir, settings, limits)
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


def in_precision(trained: TrainedModel, precision: str | None) -> TrainedModel:
    """Returns the model, and the others of its ensemble, in the precision."""
    if precision != "int8":
        return models.cast_to_precision(trained, precision)
    trained = models.cast_to_precision(trained, "float32")
    one, *others = (
        dataclasses.replace(each, model=int8_model.quantize(each.model))
        for each in (trained, *trained.others)
    )
    return dataclasses.replace(one, others=tuple(others))


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
    if trained.vocabulary.tag_id is not None:
        search = _with_first_token(search, trained.vocabulary.tag_id)
    weights: list[tf.Variable] = [
        weight.value
        for each in (trained, *trained.others)
        for weight in each.model.weights
    ]
    if trained.shortlist is not None:
        weights += trained.shortlist.weights
    return ServedModel(
        compile_search(search, buckets) if buckets else search,
        functools.partial(
            target_log_probs,
            model,
            first_is_given=trained.vocabulary.languages is not None,
        ),
        functools.partial(attention_maps, trained.model),
        weights,
    )


def _with_first_token(search: Search, first_token: int) -> Search:
    """Returns a search whose translations begin with a token, unless options say so."""

    def search_after_first(
        source: Tensor,
        settings: BeamSearchSettings,
        *,
        options: RowOptions | None = None,
        growing: bool = True,
    ) -> BeamSearchResult:
        options = RowOptions() if options is None else options
        if not is_given(options.first_tokens):
            first_B = tf.fill([axis_size(source, 0)], first_token)
            options = options._replace(first_tokens=first_B)
        return search(source, settings, options=options, growing=growing)

    return search_after_first
