"""What a run trains on: its corpus found, its vocabulary learned, its text encoded."""

import dataclasses
import platform
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

from t2t_keras import __version__, experiment
from t2t_keras.config import ExperimentConfig
from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora import Corpus
from t2t_keras.input_pipeline.pipeline import BatchingSummary, batching_summary
from t2t_keras.input_pipeline.tokenized import TokenizedCorpus, tokenize_corpus
from t2t_keras.model_dir import ModelDir
from t2t_keras.text.vocabulary import SubwordVocabulary

_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy")


@dataclasses.dataclass(frozen=True)
class RunData:
    """What a run trains on and looks at.

    Attributes:
        corpus: As text.
        vocabulary: Of both languages.
        train: The training pairs as ids.
        dev: The dev pairs as ids, None if there are none.
        summary: How the training pairs fall into batches.
    """

    corpus: Corpus
    vocabulary: SubwordVocabulary
    train: TokenizedCorpus
    dev: TokenizedCorpus | None
    summary: BatchingSummary


def prepare_data(
    config: ExperimentConfig,
    model_dir: ModelDir,
    say: Callable[[str], None],
    *,
    writes: bool = True,
) -> RunData:
    """Opens the corpus, learns or loads the vocabulary, and encodes the text.

    Args:
        config: The settings.
        model_dir: Of the run.
        say: Called with lines for a person.
        writes: Whether to write to the model directory; of several workers the
            chief does.

    Raises:
        UserError: If the model directory is of another run or another corpus.
    """
    if model_dir.exists():
        model_dir.check_same(config)
    corpus = experiment.build_corpus(config.data)
    for split in corpus.splits.values():
        for warning in split.warnings:
            say(f"warning: {warning}")
    _check_corpus(corpus, model_dir)
    if model_dir.exists():
        vocabulary = model_dir.vocabulary()
    else:
        say(f"learning {config.data.vocabulary_size:,} subwords …")
        vocabulary = experiment.build_vocabulary(config.data, corpus)
    data = _encode(config, corpus, vocabulary, say)
    if not model_dir.exists():
        # Nothing is written before all that was given has been found sound.
        model_dir.path.mkdir(parents=True, exist_ok=True)
        vocabulary.save(model_dir.vocabulary_file)
        model_dir.update_run_card(_first_facts(config, data))
    if not writes:
        return data
    # Written last: it is what makes the directory a run. And written again where a
    # run goes on, with more steps perhaps.
    command = f"python -m t2t_keras.train --flagfile={model_dir.flagfile}"
    model_dir.write_config(
        config,
        f"Every setting of this run. Run it again, or go on with it:\n"
        f"{command} --model_dir={model_dir.path}",
    )
    return data


def _check_corpus(corpus: Corpus, model_dir: ModelDir) -> None:
    if "train" not in corpus.splits:
        raise UserError(
            f"The corpus {corpus.name} has no training text, only "
            f"{', '.join(corpus.splits)}. Give --train_source and --train_target."
        )
    known = model_dir.run_card().get("corpus", {}).get("fingerprint")
    if model_dir.exists() and known and known != corpus.splits["train"].fingerprint:
        raise UserError(
            f"The corpus {corpus.name} is not the one that the run in "
            f"{model_dir.path} was started with: its training text has changed. Put "
            "the old text back, or start in a new --model_dir."
        )


def _encode(
    config: ExperimentConfig,
    corpus: Corpus,
    vocabulary: SubwordVocabulary,
    say: Callable[[str], None],
) -> RunData:
    max_length = config.data.max_length
    pairs = corpus.pairs("train")
    train = tokenize_corpus(pairs, vocabulary, max_length)
    report = train.report
    if report.dropped_over_long or report.dropped_empty:
        say(
            f"left out: {report.dropped_over_long:,} pairs longer than {max_length} "
            f"tokens, {report.dropped_empty:,} with an empty side"
        )
    summary = batching_summary(
        train,
        bounds=experiment.build_bounds(config.data),
        tokens_per_batch=config.data.tokens_per_batch,
    )
    say(f"corpus {corpus.name}: {summary.describe()}")
    dev = None
    if "dev" in corpus.splits:
        dev = tokenize_corpus(corpus.pairs("dev"), vocabulary, max_length)
        if dev.report.dropped_over_long:
            say(
                f"left out of the dev loss: {dev.report.dropped_over_long:,} pairs "
                f"longer than {max_length} tokens"
            )
    return RunData(corpus, vocabulary, train, dev, summary)


def _first_facts(config: ExperimentConfig, data: RunData) -> dict[str, Any]:
    """Returns what the run card says before the first step."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {
            "t2t_keras": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        "seed": config.training.seed,
        "corpus": {
            "name": data.corpus.name,
            "fingerprint": data.corpus.splits["train"].fingerprint,
            **dataclasses.asdict(data.summary),
        },
        "vocabulary": {
            "size": data.vocabulary.size,
            "sha256": data.vocabulary.sha256,
        },
    }
