"""Fine-tuning: the initial weights of a run from another run or a checkpoint.

Weights are matched by name. If the vocabulary differs, the rows of the embedding are
matched by their pieces: a piece that the old vocabulary lacks starts as the mean of the
rows into which the old vocabulary splits it.
"""

import dataclasses
import re
from collections.abc import Sequence

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.remote import as_path
from t2t_keras.input_pipeline.records.manifest import open_vocabulary, read_manifest
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.source import Source
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.flags import find_run
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import EOS_ID, Vocabulary
from t2t_keras.training.checkpoints import (
    StoredCheckpoint,
    stored_name,
    weight_name,
)
from t2t_keras.training.optimizer import SummedGradientAdam, SummedGradients

# Number of weights that do not fit that a message names.
_SHOWN = 10


@dataclasses.dataclass(frozen=True, eq=False)
class RowMap:
    """Rows of an old vocabulary that each piece of a new one starts from.

    Attributes:
        rows: For each new id the old ids whose rows are averaged.
        copied: Number of pieces that both vocabularies have.
        old_size: Number of old ids.
    """

    rows: Sequence[Sequence[int]]
    copied: int
    old_size: int

    def __call__(self, old: np.ndarray) -> np.ndarray:
        """Returns [V, ...] float32 from the old rows [old V, ...]."""
        if self.copied == len(self.rows) == len(old):
            return old[[ids[0] for ids in self.rows]]
        means = [old[list(ids)].mean(axis=0, dtype="float64") for ids in self.rows]
        return np.stack(means).astype(old.dtype)


def map_rows(old: Vocabulary, new: Vocabulary) -> RowMap:
    """Returns the rows of the old vocabulary for every piece of the new one."""
    old_ids = {piece: i for i, piece in enumerate(old.pieces(range(old.size)))}
    pieces = new.pieces(range(new.size))
    rows = [
        [old_ids[piece]] if piece in old_ids else old.split_piece(piece)
        for piece in pieces
    ]
    return RowMap(rows, sum(piece in old_ids for piece in pieces), old.size)


class Initializer:
    """Loads weights of a source into a new model.

    Args:
        source: The source.
        model: Built, in a `keras.StatelessScope` if only `select` is called.
        vocabulary: Vocabulary of the new run.
        skip: Regular expression for names of weights that are not loaded; None to load
            all.
    """

    def __init__(
        self,
        source: Source,
        model: Transformer,
        vocabulary: Vocabulary,
        skip: str | None = None,
    ):
        self._source = source
        self._skip = skip
        self._own = {stored_name(weight): weight for weight in model.weights}
        self._maps: dict[str, RowMap] = {}
        if source.vocabulary.sha256 == vocabulary.sha256:
            return
        for weights, old, new in (
            (model.vocabulary_weights, source.vocabulary, vocabulary),
            (
                model.source_vocabulary_weights,
                source.vocabulary.source,
                vocabulary.source,
            ),
        ):
            if weights:
                row_map = map_rows(old, new)
                self._maps |= dict.fromkeys((each.path for each in weights), row_map)

    def select(self) -> tuple[list[str], list[str]]:
        """Returns the names of the weights to load and of those to skip.

        Raises:
            UserError: If weights do not fit and are not skipped, or `skip` matches
                none or all.
        """
        stored = self._source.stored.weight_shapes()
        names = [*self._own, *(name for name in stored if name not in self._own)]
        skipped = [name for name in names if self._is_skipped(name)]
        if self._skip is not None and not skipped:
            raise UserError(_no_match("init_skip", self._skip))
        loaded = [name for name in names if name not in skipped]
        if not loaded:
            raise UserError(
                f"--init_skip={self._skip} matches all {len(names)} weights, so there "
                "is nothing to load. --list_weights prints the names; give a pattern "
                "for some, or leave out --init_from."
            )
        misfits = []
        for name in loaded:
            there = stored.get(name)
            here = tuple(self._own[name].shape) if name in self._own else None
            if there is None or self._mapped_shape(name, there) != here:
                misfits.append(f"{_user_name(name)}: {there} there, {here} here")
        if misfits:
            raise UserError(self._misfit_message(misfits))
        return loaded, skipped

    def load_weights(self) -> list[str]:
        """Assigns the weights, and returns lines about what was loaded.

        Raises:
            UserError: As `select`; no weight is changed then.
        """
        loaded, skipped = self.select()
        stored = self._source.stored.weights()
        for name in loaded:
            self._own[name].assign(self._map_rows(self._own[name], stored[name]))
        return self._describe(len(loaded), len(skipped))

    def load_moments(self, optimizer: SummedGradients) -> str:
        """Assigns Adam's moments and its count of updates; returns a line about them.

        The step of the schedule stays 0. Weights without moments in the source, such as
        skipped or formerly frozen ones, start with moments of 0.

        Raises:
            UserError: As `Source.find_moments`.
            TypeError: If the optimizer is not Adam.
        """
        if not isinstance(optimizer, SummedGradientAdam):
            raise TypeError(f"Only Adam's moments are loaded. Received: {optimizer}")
        path = self._source.find_moments()
        checkpoint = self._source.stored
        if path != self._source.checkpoint:
            checkpoint = StoredCheckpoint(path)
        stored = checkpoint.optimizer_state()
        slots, loaded = optimizer.moments(), 0
        for weight, *moments in slots:
            values = [stored.get(stored_name(moment)) for moment in moments]
            values = [v if v is None else self._map_rows(weight, v) for v in values]
            if any(v is None or v.shape != tuple(weight.shape) for v in values):
                continue
            loaded += 1
            for moment, value in zip(moments, values, strict=True):
                moment.assign(value)
        counts = [optimizer.applied]
        if optimizer.dynamic_loss_scale:
            counts.append(optimizer.loss_scale)
        for count in counts:
            if stored_name(count) in stored:
                count.assign(stored[stored_name(count)])
        return f"Adam's moments of {loaded} of {len(slots)} weights from {path}"

    def _is_skipped(self, name: str) -> bool:
        return self._skip is not None and bool(re.search(self._skip, _user_name(name)))

    def _mapped_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a stored weight after its rows are mapped."""
        weight = self._own.get(name)
        row_map = None if weight is None else self._maps.get(weight.path)
        if row_map is None or shape[:1] != (row_map.old_size,):
            return shape
        return (len(row_map.rows), *shape[1:])

    def _map_rows(self, weight: keras.Variable, value: np.ndarray) -> np.ndarray:
        """Returns a stored value, with rows for the new vocabulary if it has rows."""
        row_map = self._maps.get(weight.path)
        return value if row_map is None else row_map(value)

    def _misfit_message(self, misfits: Sequence[str]) -> str:
        others = len(misfits) - _SHOWN
        more = f"\n  and {others} more" if others > 0 else ""
        flagfile = self._source.checkpoint.parent.parent / "train.flags"
        return (
            f"{self._source.checkpoint} does not fit this model, in shape:\n  "
            + "\n  ".join(misfits[:_SHOWN])
            + f"{more}\nUse the model settings of its run (--flagfile={flagfile}), or "
            "leave such weights at their random values with --init_skip=REGEX."
        )

    def _describe(self, loaded: int, skipped: int) -> list[str]:
        source = self._source
        counts = f"{loaded} weights"
        if skipped:
            counts += f", {skipped} skipped"
        lines = [f"initialized from {source.checkpoint}: {counts}"]
        for row_map in dict.fromkeys(self._maps.values()):
            total, copied = len(row_map.rows), row_map.copied
            lines.append(
                f"vocabulary: {copied:,} of {total:,} pieces copied; "
                f"{total - copied:,} new ones start as the mean of their old pieces; "
                f"{row_map.old_size - copied:,} old ones are dropped"
            )
        return lines


def check_fit(
    config: ExperimentConfig, vocabulary: Vocabulary, source: Source | None
) -> None:
    """Checks the settings that name weights or pieces, without computing a weight.

    Raises:
        UserError: As `Vocabulary.symbol_ids`, `find_decoder_start`, `freeze`,
            `Initializer.select` and, with --init_optimizer, `Source.find_moments`.
    """
    for symbol in config.data.user_symbols:
        vocabulary.source.symbol_ids(symbol, "user_symbols")
    start = models.find_decoder_start(config.model, vocabulary)
    if source is None and config.training.freeze is None:
        return
    with keras.StatelessScope():
        model = models.build_model(
            config, vocabulary.size, start, vocabulary.source.size
        )
    freeze(model, config.training.freeze)
    if source is not None:
        Initializer(source, model, vocabulary, config.training.init_skip).select()
        if config.training.init_optimizer:
            source.find_moments()


def freeze(model: keras.Model, pattern: str | None) -> list[str]:
    """Makes weights untrainable, before the optimizer is built; returns their names.

    Args:
        model: Built.
        pattern: Regular expression that is searched in names of weights; None for none.

    Raises:
        UserError: If it matches no weight, or all.
    """
    if pattern is None:
        return []
    names = [weight_name(weight) for weight in model.weights]
    frozen = [name for name in names if re.search(pattern, name)]
    if not frozen:
        raise UserError(_no_match("freeze", pattern))
    if len(frozen) == len(names):
        raise UserError(
            f"--freeze={pattern} matches all {len(names)} weights, so there is nothing "
            "to train. --list_weights prints the names; give a pattern for some."
        )
    for weight in model.weights:
        weight.trainable = weight_name(weight) not in frozen
    return frozen


def list_weights(config: ExperimentConfig, model_dir: str | None) -> list[str]:
    """Returns a line with name and shape of each weight of a run's model.

    Args:
        config: The settings.
        model_dir: Directory of the run, whose vocabulary determines the shapes; without
            one, or before the run has started, the settings do.
    """
    start = "zero" if config.model.decoder_start == "zero" else EOS_ID  # no weight
    size, source_size = _vocabulary_sizes(config, model_dir)
    model = models.build_model(config, size, start, source_size)
    freeze(model, config.training.freeze)
    return [
        f"{weight_name(weight)}  {' x '.join(map(str, weight.shape))}"
        + ("" if weight.trainable else "  frozen")
        for weight in model.weights
    ]


def _vocabulary_sizes(
    config: ExperimentConfig, model_dir: str | None
) -> tuple[int, int]:
    """Returns the number of ids of targets, and that of sources."""
    source = config.training.init_from and find_run(config.training.init_from)
    if model_dir and ModelDir(model_dir).exists():
        run = ModelDir(model_dir)
        vocabulary = load_vocabulary(run.vocabulary_file, run.vocabulary_sha256)
    elif config.data.records:
        folder = as_path(config.data.records)
        vocabulary = open_vocabulary(folder, read_manifest(folder).spec)
    elif config.data.vocabulary_file:
        vocabulary = load_vocabulary(config.data.vocabulary_file)
    elif source:
        run = ModelDir(source)
        vocabulary = load_vocabulary(run.vocabulary_file, run.vocabulary_sha256)
    else:
        return config.data.vocabulary_size, config.data.vocabulary_size
    return vocabulary.size, vocabulary.source.size


def _no_match(flag: str, pattern: str) -> str:
    return (
        f"--{flag}={pattern} matches no weight. It is a regular expression that is "
        "searched in names such as encoder/layer_0/attention/query_kernel; "
        "--list_weights prints all."
    )


def _user_name(name: str) -> str:
    """Returns what `weight_name` does, from a name in a checkpoint."""
    return name.partition("-")[2].replace("-", "/")
