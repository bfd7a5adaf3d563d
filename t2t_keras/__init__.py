"""The Transformer of "Attention Is All You Need" on TensorFlow and Keras 3.

The names of `__all__` are imported when they are first used, and TensorFlow with them.
`__init__.pyi` tells type checkers what they are, and docs/api.md how to use them.
"""

# pyright: reportUnsupportedDunderAll=false
import contextlib
import importlib
import logging
import os
import sys
from typing import Any

__version__ = "0.11.0"

__all__ = (
    "BeamSearchSettings",
    "DecoderLayer",
    "EncoderLayer",
    "EvaluationResult",
    "ExperimentConfig",
    "FinishedRun",
    "LabelSmoothedCrossEntropy",
    "LayerOptions",
    "MultiHeadAttention",
    "PairScore",
    "Run",
    "Sampling",
    "SharedEmbedding",
    "SubwordVocabulary",
    "Task",
    "TrainingInterrupted",
    "Transformer",
    "TransformerOptions",
    "TranslatedLine",
    "TranslationClient",
    "UserError",
    "WarmupInverseSquareRoot",
    "WarmupSchedule",
    "beam_search",
    "fit_arguments",
    "import_model",
    "learn_subwords",
    "read_settings",
    "score_translations",
    "search_translations",
    "text_dataset",
)

# Without a handler of the user, nothing is printed, warnings included.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Set before TensorFlow is first imported, whose start-up lines would hide ours.
# Users who want them set the variable themselves.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
# Without a home folder, Keras would write to one of the name "~" here.
if not os.path.isabs(os.path.expanduser("~")):
    os.environ.setdefault("KERAS_HOME", os.path.join(os.path.sep, "tmp", ".keras"))


# Modules of the public names.
_MODULES = (
    ("decoding.beam_search", ("beam_search",)),
    ("decoding.sampling", ("Sampling",)),
    ("decoding.settings", ("BeamSearchSettings",)),
    ("decoding.transformer_search", ("search_translations",)),
    ("errors", ("UserError",)),
    ("evaluation.comparison", ("score_translations",)),
    ("input_pipeline.streaming", ("text_dataset",)),
    ("model.attention", ("MultiHeadAttention",)),
    ("model.decoder", ("DecoderLayer",)),
    ("model.embedding", ("SharedEmbedding",)),
    ("model.encoder", ("EncoderLayer",)),
    ("model.options", ("TransformerOptions",)),
    ("model.transformer", ("Transformer",)),
    ("runs.finish", ("FinishedRun",)),
    ("runs.run", ("Run", "import_model")),
    ("runs.tasks", ("Task",)),
    ("runs.translation.pair_scores", ("PairScore",)),
    ("runs.translation.scoring", ("EvaluationResult",)),
    ("serving.client.translation_client", ("TranslationClient",)),
    ("settings.config", ("ExperimentConfig",)),
    ("settings.flags", ("read_settings",)),
    ("settings.model_config", ("LayerOptions",)),
    ("text.subword_vocabulary", ("SubwordVocabulary",)),
    ("text.subwords", ("learn_subwords",)),
    ("training.keras_fit", ("LabelSmoothedCrossEntropy", "fit_arguments")),
    ("training.loop", ("TrainingInterrupted",)),
    ("training.schedule", ("WarmupInverseSquareRoot", "WarmupSchedule")),
    ("translation.translator", ("TranslatedLine",)),
)


def _find_module(name: str) -> str | None:
    """Returns the module of a public name, or None if the name is not public."""
    return next((module for module, names in _MODULES if name in names), None)


def __getattr__(name: str) -> Any:
    module = _find_module(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    quiet: Any = contextlib.nullcontext
    if "tensorflow" not in sys.modules:
        quiet = importlib.import_module(f"{__name__}.files.quiet").quiet_start_up
    try:
        with quiet():
            value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except AttributeError as error:
        # Python would take it for a missing name, and not print it.
        raise ImportError(f"{__name__}.{name} cannot be imported: {error}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# So that keras.models.load_model knows these classes after `import t2t_keras`.
_KNOWN_TO_KERAS = (
    "DecoderLayer",
    "EncoderLayer",
    "LabelSmoothedCrossEntropy",
    "MultiHeadAttention",
    "SharedEmbedding",
    "Transformer",
    "WarmupInverseSquareRoot",
    "WarmupSchedule",
)
try:
    _keras_import = importlib.import_module(f"{__name__}.files.keras_import")
except ModuleNotFoundError as _error:
    # A Bazel target may contain only a part of the package.
    if not (_error.name or "").startswith(f"{__name__}."):
        raise
else:
    _keras_import.register_on_import(__name__, _KNOWN_TO_KERAS, __getattr__)
