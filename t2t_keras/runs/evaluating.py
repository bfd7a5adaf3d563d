"""Evaluation of a run: its test set, and where the results are kept."""

import re
from collections.abc import Sequence

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.runs import corpora, scoring
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import TREES, Task, task_for
from t2t_keras.settings.config import ExperimentConfig


def read_test_set(
    model_dir: ModelDir,
    split: str,
    source: Sequence[str] = (),
    reference: Sequence[str] = (),
    task: Task | None = None,
) -> scoring.TestSet:
    """Returns a split of the run's own corpus, or the sentence pairs of files.

    Args:
        model_dir: Directory of the run.
        split: "train", "dev" or "test"; not used where there are files.
        source: Files to translate, one sentence a line, plain or .gz. A .tsv holds the
            references as well, and for a parser a .mrg its trees.
        reference: Files with the references.
        task: Default: the task of the run's target language.

    Raises:
        UserError: If there is no such split, or a file cannot be used.
    """
    config = model_dir.config()
    task = task or task_for(config.data.target_language)
    if source:
        _check_files(source, config.data.target_language)
        files = {"test": (source, reference)}
        corpus, split = open_corpus(files=files, read_trees=task.read_trees), "test"
    else:
        corpus = corpora.build_corpus(config.data, (split,), task)
        if split not in corpus.splits:
            raise UserError(
                f"The run in {model_dir.path} has no {split} set. Give --source and "
                "--reference, or another --split."
            )
    return scoring.read_split(corpus, split)


def _check_files(paths: Sequence[str], language: str) -> None:
    trees = [path for path in paths if path.endswith((".mrg", ".mrg.gz"))]
    if trees and language != TREES:
        raise UserError(
            f"{trees[0]} holds trees, and this model is no parser: it translates into "
            f"{language!r}. Give text and its --reference, or a parser's --model_dir."
        )


def keep(model_dir: ModelDir, result: scoring.EvaluationResult) -> None:
    """Writes translations to the model directory and scores to the run card.

    Scores of each sentence, as EVALB's, are written beside its translations. The result
    of another search than the run's own is kept apart, by the search's name.
    """
    # By checkpoint too: the latest and the mean have the same step.
    title = f"{result.name} {result.checkpoint}"
    if result.decoding != model_dir.config().decoding:
        title += f" beam {result.decoding.beam_size} alpha {result.decoding.alpha:g}"
    name = f"{re.sub('[ /]', '-', title)}.txt"
    lines = [line.text for line in result.translations]
    write_text(model_dir.translations / name, "".join(f"{line}\n" for line in lines))
    if result.scores.table:
        write_text(model_dir.translations / f"{name}.evalb", result.scores.table)
    scores = model_dir.run_card().get("scores", {})
    model_dir.update_run_card({"scores": {**scores, title: result.facts()}})


def flags_to_evaluate(config: ExperimentConfig) -> str:
    """Returns the flags that `evaluate` needs besides, where there is no test set."""
    if "test" in corpora.build_corpus(config.data, ("test",)).splits:
        return ""
    return " --source=FILE --reference=FILE"
