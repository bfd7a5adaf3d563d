"""A run before its first step: its data, checked, and the files of its directory."""

import dataclasses
import logging
import os
import shlex
from typing import Any

from t2t_keras.runs.data.from_settings import SHUFFLE_PAIRS
from t2t_keras.runs.data.run_data import RunData, open_data, resolve_epochs
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import check_class, describe_class
from t2t_keras.runs.tasks import Task, TranslationTask
from t2t_keras.runs.training.fine_tuning import check_fit
from t2t_keras.runs.training.run_card import initial_run_card
from t2t_keras.runs.training.source import Source, open_source, other_meanings
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training.checkpoints import steps_in

logger = logging.getLogger(__name__)


def find_source(config: ExperimentConfig, model_dir: ModelDir) -> Source | None:
    """Returns the checkpoint that the weights of a run start from.

    None if they are random, or the run has a checkpoint of its own. The one that the
    run was started from may be gone then; another one is an error.

    Raises:
        UserError: As `open_source`.
    """
    init_from = config.training.init_from
    if not init_from:
        return None
    if not steps_in(model_dir.checkpoints):
        return open_source(init_from, model_dir)
    old = model_dir.config().training.init_from if model_dir.exists() else None
    if os.path.abspath(init_from) != (old and os.path.abspath(old)):
        open_source(init_from, model_dir)
    return None


def prepare_run(
    config: ExperimentConfig,
    model_dir: ModelDir,
    task: Task | None = None,
    *,
    source: Source | None = None,
    writes: bool = True,
    num_replicas: int = 1,
) -> RunData:
    """Returns the data of a run, after writing the files that make it one.

    Nothing is written before all settings and data have been checked.

    Args:
        config: The settings.
        model_dir: Model directory of the run.
        task: Default: the task of the target language.
        source: Checkpoint that the weights will start from.
        writes: Whether to write files. With several workers only the chief does; the
            others call this afterwards.
        num_replicas: Devices that share each batch, to count padding.

    Raises:
        UserError: As `open_data`, `check_fit` and `check_class`.
    """
    check_class(config.model, model_dir)
    data = open_data(
        config,
        model_dir,
        task,
        vocabulary=None if source is None else source.vocabulary,
        writes=writes,
        num_replicas=num_replicas,
    )
    config = resolve_epochs(config, data.summary)
    check_fit(config, data.vocabulary, source)
    for line in other_meanings(config.model, source) if source else ():
        logger.warning(line)
    if writes:
        _write_files(config, model_dir, data, source)
    return data


def _write_files(
    config: ExperimentConfig, model_dir: ModelDir, data: RunData, source: Source | None
) -> None:
    """Writes vocabulary, run card and flagfile of a new run, or of one that resumes."""
    if not model_dir.exists():
        model_dir.path.mkdir(parents=True, exist_ok=True)
        data.vocabulary.save(model_dir.vocabulary_file)
        model_dir.update_run_card(_initial_run_card(config, data, source))
    if isinstance(data.task, TranslationTask):
        model_dir.update_run_card({"bleu_tokenizer": data.task.tokenizer})
    # The flagfile is written last, since it makes the directory one of a run. It is
    # written again when a run resumes, perhaps with more steps.
    command = "python -m t2t_keras.train --flagfile="
    command += shlex.quote(str(model_dir.flagfile))
    model_dir.write_config(
        config,
        f"Every setting of this run. To resume it, or run it again:\n"
        f"{command} --model_dir={shlex.quote(str(model_dir.path))}",
    )


def _initial_run_card(
    config: ExperimentConfig, data: RunData, source: Source | None
) -> dict[str, Any]:
    """Returns the run card before the first step."""
    own_class = describe_class(config.model)
    return {
        **({} if source is None else {"init": source.run_card_entry()}),
        **({} if own_class is None else {"model": own_class}),
        **initial_run_card(),
        "seed": config.training.seed,
        "shuffle_pairs": config.data.shuffle_pairs or SHUFFLE_PAIRS,
        "corpus": {
            "name": data.corpus.name,
            "fingerprint": data.fingerprint,
            **dataclasses.asdict(data.summary),
            "mixture": data.mixture,
            "dev_sha256": data.dev_sha256,
        },
        "vocabulary": {
            "size": data.vocabulary.size,
            "sha256": data.vocabulary.sha256,
        },
    }
