"""Types of the public names, which `__init__.py` imports when they are first used."""

from t2t_keras.decoding.beam_search import beam_search as beam_search
from t2t_keras.decoding.sampling import Sampling as Sampling
from t2t_keras.decoding.settings import BeamSearchSettings as BeamSearchSettings
from t2t_keras.decoding.transformer_search import (
    search_translations as search_translations,
)
from t2t_keras.errors import UserError as UserError
from t2t_keras.evaluation.comparison import score_translations as score_translations
from t2t_keras.input_pipeline.streaming import text_dataset as text_dataset
from t2t_keras.model.attention import MultiHeadAttention as MultiHeadAttention
from t2t_keras.model.decoder import DecoderLayer as DecoderLayer
from t2t_keras.model.embedding import SharedEmbedding as SharedEmbedding
from t2t_keras.model.encoder import EncoderLayer as EncoderLayer
from t2t_keras.model.options import TransformerOptions as TransformerOptions
from t2t_keras.model.transformer import Transformer as Transformer
from t2t_keras.runs.finish import FinishedRun as FinishedRun
from t2t_keras.runs.run import Run as Run
from t2t_keras.runs.run import import_model as import_model
from t2t_keras.runs.tasks import Task as Task
from t2t_keras.runs.translation.pair_scores import PairScore as PairScore
from t2t_keras.runs.translation.scoring import EvaluationResult as EvaluationResult
from t2t_keras.serving.client.translation_client import (
    TranslationClient as TranslationClient,
)
from t2t_keras.settings.config import ExperimentConfig as ExperimentConfig
from t2t_keras.settings.flags import read_settings as read_settings
from t2t_keras.settings.model_config import LayerOptions as LayerOptions
from t2t_keras.text.subword_vocabulary import SubwordVocabulary as SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords as learn_subwords
from t2t_keras.training.keras_fit import (
    LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy,
)
from t2t_keras.training.keras_fit import fit_arguments as fit_arguments
from t2t_keras.training.loop import TrainingInterrupted as TrainingInterrupted
from t2t_keras.training.schedule import (
    WarmupInverseSquareRoot as WarmupInverseSquareRoot,
)
from t2t_keras.training.schedule import (
    WarmupSchedule as WarmupSchedule,
)
from t2t_keras.translation.translator import TranslatedLine as TranslatedLine

__version__: str

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
