"""Model and translator of a run, with new weights or those of a checkpoint."""

import dataclasses
import inspect
import logging
import random
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import tensorflow as tf

from t2t_keras.decoding.shortlist import Shortlist
from t2t_keras.decoding.transformer_search import Ensemble
from t2t_keras.errors import UserError
from t2t_keras.files.atomic import file_sha256
from t2t_keras.model.classes import find_class
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.model_dir import Checkpoint, ModelDir
from t2t_keras.runs.tasks import Task, TranslationTask, task_for, with_tokenizer
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, Vocabulary
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.typing import Tensor

logger = logging.getLogger(__name__)

# Maximum graphs that a loaded model keeps: searches of a few settings, scores, maps.
_MAX_KEPT = 8

_Kept = TypeVar("_Kept")


def find_decoder_start(config: ModelConfig, vocabulary: Vocabulary) -> int | str:
    """Returns the id of --decoder_start, or "zero" for the zero vector.

    Raises:
        UserError: If the vocabulary has no such piece, or it is padding, whose
            embedding is the zero vector.
    """
    if config.decoder_start == "zero":
        return config.decoder_start
    pieces = vocabulary.pieces(range(vocabulary.size))
    if config.decoder_start not in pieces[PAD_ID + 1 :]:
        raise UserError(
            "--decoder_start must be zero or a piece of the vocabulary other than "
            f"padding, such as {pieces[EOS_ID]}; a piece that begins a word has ▁ in "
            f"front. Received: {config.decoder_start}"
        )
    return pieces.index(config.decoder_start)


def build_model(
    config: ExperimentConfig,
    vocabulary_size: int,
    decoder_start: int | str = "zero",
    source_vocabulary_size: int | None = None,
) -> Transformer:
    """Returns the model with new weights, drawn from the run's seed.

    bfloat16 and float16 are Keras' mixed precision: weights stay float32. The random
    state of the caller's program is as before.

    Args:
        config: Settings of the run.
        vocabulary_size: Number of ids.
        decoder_start: Result of `find_decoder_start`.
        source_vocabulary_size: Number of ids of sources. Default: the same.

    Raises:
        ValueError: If `decoder_start` is missing.
        UserError: If the sources have other ids, and the embedding is shared; or the
            class of --model cannot be found.
    """
    if (decoder_start == "zero") != (config.model.decoder_start == "zero"):
        raise ValueError(
            "decoder_start must be the id of the setting's piece. Received: "
            f"{decoder_start} for {config.model.decoder_start}"
        )
    precision = config.training.precision
    policy = precision if precision == "float32" else f"mixed_{precision}"
    arguments = config.model.architecture()
    arguments["decoder_start"] = decoder_start
    source_size = source_vocabulary_size or vocabulary_size
    if not config.model.share_embeddings:
        arguments["source_vocabulary_size"] = source_size
    elif source_size != vocabulary_size:
        raise UserError(
            "The vocabulary has other pieces for each language, so the embedding "
            "cannot be shared. Use --noshare_embeddings."
        )
    model_class = find_class(config.model.model)
    # Initializers without a seed draw one from Python's generator, and nothing else.
    caller_state = random.getstate()
    random.seed(config.training.seed)
    try:
        model = model_class(vocabulary_size, **arguments, dtype=policy)
        model.build()
    finally:
        random.setstate(caller_state)
    return model


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model from a model directory.

    Attributes:
        model: The model with the checkpoint's weights.
        vocabulary: The vocabulary it was trained with.
        config: The settings of its run.
        checkpoint: Directory of the checkpoint.
        step: Number of updates at the checkpoint.
        task: Converts text to and from the model's, and scores it.
        others: Models of other runs or checkpoints that it translates together with.
        shortlist: Restricts the tokens that a search considers; None for all.
    """

    model: Transformer
    vocabulary: Vocabulary
    config: ExperimentConfig
    checkpoint: Path
    step: int
    task: Task
    others: tuple["TrainedModel", ...] = ()
    shortlist: Shortlist | None = None
    # A model with other weights or settings, by `dataclasses.replace`, starts empty.
    # Keys of what depends on the vocabulary have its languages.
    _kept: dict[Hashable, Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # What is built may keep parts of its own.
    _lock: threading.RLock = dataclasses.field(
        default_factory=threading.RLock, init=False, repr=False, compare=False
    )

    def keep(self, key: Hashable, build: Callable[[], _Kept]) -> _Kept:
        """Returns what `build` returned for this key, from the last few keys.

        For what traces a graph of the model, which takes seconds. Threads may call it.
        """
        with self._lock:
            value = self._kept.pop(key) if key in self._kept else build()
            self._kept[key] = value  # now the newest
            while len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            return value

    def for_languages(
        self, source: str | None = None, target: str | None = None
    ) -> "TrainedModel":
        """Returns the model as a translator between two of its languages.

        It shares weights, and searches that were traced.

        Args:
            source: Code of the language to translate from. Default: as it is.
            target: The same of the language to translate to.

        Raises:
            UserError: If the model does not translate between them.
        """
        data = self.config.data
        pair = source or data.source_language, target or data.target_language
        if pair == (data.source_language, data.target_language):
            return self
        vocabulary = self.vocabulary.with_languages(*pair)
        if vocabulary.languages is not None:
            pair = vocabulary.languages.source, vocabulary.languages.target
        else:
            raise UserError(
                "--source_language and --target_language choose languages of a "
                "multilingual model, and this one translates from "
                f"{data.source_language} to {data.target_language} alone. Leave them "
                f"out. Received: {pair[0]} and {pair[1]}"
            )
        data = dataclasses.replace(
            data, source_language=pair[0], target_language=pair[1]
        )
        task = self.task
        if isinstance(task, TranslationTask):
            tokenize = self.config.training.tokenize
            task = TranslationTask(pair[1]).with_tokenizer(tokenize)
        other = dataclasses.replace(
            self,
            vocabulary=vocabulary,
            config=dataclasses.replace(self.config, data=data),
            task=task,
        )
        for shared in ("_kept", "_lock"):
            object.__setattr__(other, shared, getattr(self, shared))
        return other

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of the languages that it translates from and to."""
        data = self.config.data
        return data.source_language, data.target_language

    @property
    def search_model(self) -> Transformer | Ensemble:
        """The model of searches and scores: this one, or the ensemble with `others`."""
        if not self.others:
            return self.model
        return Ensemble([self.model, *(other.model for other in self.others)])

    @property
    def run_folder(self) -> Path:
        """The model directory that has the checkpoint, absolute."""
        return self.checkpoint.resolve().parent.parent

    @property
    def checkpoint_name(self) -> str:
        """The checkpoint's folders, such as "averaged/step-1500"."""
        return f"{self.checkpoint.parent.name}/{self.checkpoint.name}"

    @property
    def checkpoint_names(self) -> str:
        """The checkpoint's folders, then those of the others with their runs."""
        others = (
            f"{other.run_folder.name}/{other.checkpoint_name}" for other in self.others
        )
        return " + ".join([self.checkpoint_name, *others])


def load_trained(
    model_dir: ModelDir, which: Checkpoint, task: Task | None = None
) -> TrainedModel:
    """Returns the model of a run.

    Args:
        model_dir: Directory of the run.
        which: The checkpoint; see `ModelDir.find_checkpoint`.
        task: Default: the task of the run's target language.

    Raises:
        UserError: If settings, vocabulary or checkpoint are missing or damaged, or do
            not belong together.
    """
    config = model_dir.config()
    check_class(config.model, model_dir)
    vocabulary = load_vocabulary(model_dir.vocabulary_file, model_dir.vocabulary_sha256)
    path = model_dir.find_checkpoint(which)
    start = find_decoder_start(config.model, vocabulary)
    model = build_model(config, vocabulary.size, start, vocabulary.source.size)
    state = CheckpointStore(path.parent, model).restore(path)
    check_fingerprint(path, state.fingerprints, vocabulary)
    tokenize = model_dir.run_card().get("bleu_tokenizer", config.training.tokenize)
    task = with_tokenizer(task or task_for(config.data.target_language), tokenize)
    return TrainedModel(model, vocabulary, config, path, state.step, task)


def describe_class(config: ModelConfig) -> dict[str, str | None] | None:
    """Returns what a run card has of the class of the model; None for `Transformer`.

    That is its name, and the SHA-256 of its file. A class of a notebook has no file.

    Raises:
        UserError: If the class cannot be found.
    """
    if config.model is None:
        return None
    try:
        file = Path(inspect.getfile(find_class(config.model)))
    except (TypeError, OSError):
        file = None
    digest = None if file is None or not file.is_file() else file_sha256(file)
    return {"class": config.model, "sha256": digest}


def check_class(config: ModelConfig, model_dir: ModelDir) -> None:
    """Logs a warning if the class of the model has another source than at the start.

    Raises:
        UserError: If the class cannot be found.
    """
    now, then = describe_class(config), model_dir.run_card().get("model")
    if now is not None and then is not None and now["sha256"] != then["sha256"]:
        logger.warning(
            f"the file of --model={config.model} has changed since the run in "
            f"{model_dir.path} was started. Its weights may mean something else now."
        )


def trace_on_ids(compute: Callable[[Tensor, Tensor], Any]) -> Any:
    """Returns a function of two matrices of ids, int32, traced once for all shapes."""
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(compute, input_signature=[ids, ids], autograph=False)


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
    model = type(trained.model)(**trained.model.sizes, dtype=precision)
    model.build()
    for ours, theirs in zip(model.weights, trained.model.weights, strict=True):
        ours.assign(tf.cast(theirs.value, ours.dtype))
    return dataclasses.replace(trained, model=model)


def check_fingerprint(
    path: Path, fingerprints: Mapping[str, str], vocabulary: Vocabulary
) -> None:
    """Raises `UserError` if a checkpoint was trained with another vocabulary."""
    expected = fingerprints.get("vocabulary")
    if expected and expected != vocabulary.sha256:
        raise UserError(
            f"The checkpoint {path} was trained with another vocabulary: SHA-256 "
            f"{expected[:12]}…, but this vocabulary has {vocabulary.sha256[:12]}…. Its "
            "ids would mean other words. Use the vocabulary.model of its own run."
        )
