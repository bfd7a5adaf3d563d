"""Scoring of a trained model on a set of sentence pairs."""

import dataclasses
import functools
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.transformer_search import Ensemble, target_log_probs
from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.evaluation.compound_bleu import (
    NO_SPACES,
    TokenizedBleu,
    moses_languages,
    tokenized_bleu,
)
from t2t_keras.evaluation.tokenizers import (
    bleu_warnings,
    check_tokenizer,
    has_no_spaces,
)
from t2t_keras.files.atomic import write_text
from t2t_keras.files.lines import text_suffix
from t2t_keras.files.paths import expand
from t2t_keras.input_pipeline.batches.pipeline import EvaluationBatches
from t2t_keras.input_pipeline.corpora.corpus import SPLITS, Corpus, open_corpus
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.runs import models, translators
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import (
    TREES,
    CorpusScores,
    Task,
    TranslationTask,
    task_for,
    with_tokenizer,
)
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.training.step import build_evaluator, loss_sums
from t2t_keras.translation.translator import TranslatedLine
from t2t_keras.typing import DECODER_TARGET_TOKENS, ENCODER_INPUT_TOKENS

# Maximum subwords of a pair's sides for perplexity: twice the default --max_length.
# Longer pairs are left out and counted.
_MAX_SCORED_LENGTH = 512

# One file, or several that are read one after another.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sentence pairs as text.

    Attributes:
        name: Name of the set, logged with every score.
        source: UTF-8 lines.
        references: The reference translation of each line.
        warnings: Warnings for the user, for example of lines that were left out.
    """

    __test__ = False  # not a test class of pytest

    name: str
    source: Sequence[bytes]
    references: Sequence[str]
    warnings: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """Scores and translations of a model on a test set.

    Attributes:
        name: Name of the test set.
        checkpoint: Folders of the checkpoint, such as "averaged/step-1500"; of all
            checkpoints of an ensemble.
        step: Number of updates at the checkpoint.
        scores: sacreBLEU and chrF with their signatures; EVALB scores for a parser.
        tokenized: The paper's own metric; None for a language without a tokenizer.
        perplexity: Perplexity of the references per subword; None if all pairs are
            left out.
        left_out: Number of pairs left out of perplexity: a side is empty, or longer
            than 512 subwords or the model's positions.
        sources: The source lines, UTF-8.
        translations: The translation of every line, in order.
        seconds: Time that translation took.
        decoding: Settings of the beam search.
    """

    name: str
    checkpoint: str
    step: int
    scores: CorpusScores
    tokenized: TokenizedBleu | None
    perplexity: float | None
    left_out: int
    sources: Sequence[bytes]
    translations: Sequence[TranslatedLine]
    seconds: float
    decoding: DecodingConfig

    def describe(self) -> str:
        """Returns the scores as text, a line each."""
        search = self.decoding.describe()
        lines = [
            f"{self.name}: {len(self.translations):,} sentences, {self.checkpoint}, "
            f"{search}, {self.seconds:.0f}s",
            *(f"  {line}".rstrip() for line in self.scores.lines()),
        ]
        if self.tokenized is not None:
            lines.append(
                f"  tokenized BLEU {self.tokenized.bleu:.2f}  "
                f"{self.tokenized.signature}"
            )
        perplexity = "none" if self.perplexity is None else f"{self.perplexity:.3f}"
        line = f"  perplexity per subword {perplexity}"
        if self.left_out:
            line += f"  without {self.left_out:,} pairs that are too long or empty"
        lines.append(line)
        truncated = sum(line.truncated for line in self.translations)
        if truncated:
            lines.append(
                f"  {truncated:,} sources were too long; their ends were cut off"
            )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the run card stores it, in JSON values."""
        entry: dict[str, Any] = {
            "checkpoint": self.checkpoint,
            "step": self.step,
            "sentences": len(self.translations),
            **self.scores.as_dict(),
            "perplexity": self.perplexity,
            "perplexity_left_out": self.left_out,
            "decoding": self.decoding.as_dict(),
        }
        if self.tokenized is not None:
            entry["tokenized_bleu"] = self.tokenized.bleu
            entry["tokenized_bleu_signature"] = self.tokenized.signature
        return entry


def read_split(corpus: Corpus, split: str) -> TestSet:
    """Returns all lines of a split of a corpus, including those with an empty side.

    Raises:
        UserError: If the split is missing or empty.
    """
    source: list[bytes] = []
    references: list[str] = []
    for chunk in corpus.lines(split):
        source += chunk[0]
        references += [line.decode("utf-8", errors="replace") for line in chunk[1]]
    if not source or corpus.splits[split].num_pairs == 0:
        raise UserError(f"The {split} split of {corpus.name} has no sentence pair.")
    return TestSet(
        split,
        source,
        references,
        corpus.splits[split].warnings,
    )


def read_test_set(
    model_dir: ModelDir,
    split: str,
    source: Paths = (),
    reference: Paths = (),
    task: Task | None = None,
    languages: tuple[str, str] | None = None,
) -> TestSet:
    """Returns a split of the run's own corpus, or the sentence pairs of files.

    Args:
        model_dir: Directory of the run.
        split: "train", "dev" or "test"; ignored if `source` is set.
        source: Files to translate, or one, with a sentence a line. A .tsv
            or another file with both sides also holds the references; for a parser, a
            .mrg holds trees.
        reference: Files with the references.
        task: Default: the task of the run's target language.
        languages: Codes of source and target language. Default: those of the run. The
            run's own corpus has no other.

    Raises:
        UserError: If the split is missing, or a file cannot be used.
    """
    config = model_dir.config()
    own = config.data.source_language, config.data.target_language
    languages = languages or own
    task = task or task_for(languages[1])
    source, reference = _path_names(source), _path_names(reference)
    if reference and not source:
        raise UserError("--source and --reference belong together; one is missing.")
    splits = [name for name, _ in SPLITS]
    if not source and split not in splits:
        raise UserError(
            f"--split must be one of {', '.join(splits)}. Received: {split}."
            f"{did_you_mean(str(split), splits)}"
        )
    if not source and languages != own:
        raise UserError(
            f"The corpus of the run in {model_dir.path} is from {own[0]} to {own[1]}. "
            "Give --source and --reference with other languages. Received: "
            f"{languages[0]} and {languages[1]}"
        )
    if source:
        _check_files(source, languages[1])
        split = "test"
        corpus = open_corpus(
            files={split: (source, reference)},
            source_language=languages[0],
            target_language=languages[1],
            read_trees=task.read_trees,
            columns=config.data.columns,
        )
    else:
        corpus = from_settings.build_corpus(config.data, (split,), task)
        if split not in corpus.splits:
            raise UserError(
                f"The run in {model_dir.path} has no {split} set. Give --source and "
                "--reference, or another --split."
            )
    return read_split(corpus, split)


def _path_names(paths: Paths) -> list[str]:
    is_list = isinstance(paths, Iterable) and not isinstance(paths, str | os.PathLike)
    listed: Any = paths if is_list else [paths]
    return [str(expand(path)) for path in listed]


def _check_files(paths: Sequence[str], language: str) -> None:
    trees = [path for path in paths if text_suffix(path) == ".mrg"]
    if trees and language != TREES:
        raise UserError(
            f"{trees[0]} holds trees, but this model is not a parser: it translates "
            f"into {language!r}. Give text and its --reference, or a parser's "
            "--model_dir."
        )


def save(model_dir: ModelDir, result: EvaluationResult) -> None:
    """Writes translations to the model directory and scores to the run card.

    Scores of each sentence, such as EVALB's, are written to a second file. A result
    with other search settings than the run's has them in its name.
    """
    # The name has the checkpoint too: latest and averaged can have the same step.
    title = f"{result.name} {result.checkpoint}"
    own = model_dir.config().decoding
    if result.decoding != own:
        title += f" {result.decoding.describe()}".replace(",", "")
    if result.decoding.extra_length != own.extra_length:
        title += f" extra_length {result.decoding.extra_length}"
    name = f"{re.sub('[ /]', '-', title)}.txt"
    write_translations(model_dir.translations / name, result)
    if result.scores.table:
        write_text(model_dir.translations / f"{name}.evalb", result.scores.table)
    scores = model_dir.run_card().get("scores", {})
    model_dir.update_run_card({"scores": {**scores, title: result.as_dict()}})


def write_translations(path: Path, result: EvaluationResult) -> None:
    """Writes the translations to a file, a line each."""
    write_text(path, "".join(f"{line.text}\n" for line in result.translations))


def evaluate_flags(config: ExperimentConfig) -> str:
    """Returns the flags that `evaluate` also needs for a run without a test set."""
    if "test" in from_settings.build_corpus(config.data, ("test",)).splits:
        return ""
    return " --source=FILE --reference=FILE"


def format_references(test_set: TestSet, task: Task) -> list[str]:
    """Returns the references in the format of outputs: bracketed trees for a parser."""
    adapter = task.text_adapter(splits_words=False)
    return [
        adapter.answer(line.decode(errors="replace"), reference)
        for line, reference in zip(test_set.source, test_set.references, strict=True)
    ]


def score(
    trained: models.TrainedModel,
    test_set: TestSet,
    decoding: DecodingConfig,
    *,
    ascii_quotes: bool = False,
    cutoff_length: int | None = None,
    tokenize: str | None = None,
    on_start: Callable[[int], object] = lambda _: None,
    on_progress: Callable[[int], object] = lambda _: None,
) -> EvaluationResult:
    """Translates a test set and returns its scores.

    Args:
        trained: The model.
        test_set: Source lines and references.
        decoding: Settings of the beam search.
        ascii_quotes: See `tokenized_bleu`; sacreBLEU does not use it.
        cutoff_length: See `Task.scorer`.
        tokenize: Tokenizer of sacreBLEU. Default: the run's own, or else that of the
            target language.
        on_start: Called once with the number of all sentences.
        on_progress: Called with the number of sentences done since the last call.

    Raises:
        UserError: If an option is not for this task, or a tokenizer is not installed.
    """
    start_seconds = time.monotonic()
    language = trained.config.data.target_language
    score = _task_of(trained, tokenize).scorer(cutoff_length)
    # Words in the sentences of a test set are already separated by blanks.
    translator = trained.keep(
        ("evaluate", decoding, trained.languages),
        lambda: translators.build_translator(
            trained.search_model,
            trained.vocabulary,
            decoding,
            1,
            trained.task.text_adapter(splits_words=False),
            shortlist=trained.shortlist,
        ),
    )
    on_start(len(test_set.source))
    translations = translator.translate(test_set.source, on_progress)
    seconds = time.monotonic() - start_seconds
    hypotheses = [line.text for line in translations]
    sources = [line.decode("utf-8", errors="replace") for line in test_set.source]
    tokenized = None
    if language in moses_languages():
        tokenized = tokenized_bleu(
            hypotheses,
            test_set.references,
            language=language,
            # The paper splits compounds only for English-German.
            split_compounds=language == "de",
            ascii_quotes=ascii_quotes,
        )
    return EvaluationResult(
        test_set.name,
        trained.checkpoint_names,
        trained.step,
        score(sources, hypotheses, test_set.references),
        tokenized,
        *perplexity(trained, test_set),
        test_set.source,
        translations,
        seconds,
        decoding,
    )


def _task_of(trained: models.TrainedModel, tokenize: str | None) -> Task:
    """Returns the task, with a tokenizer of sacreBLEU; None keeps the run's own."""
    if tokenize is None:
        return trained.task
    if not isinstance(trained.task, TranslationTask):
        raise UserError(
            "--tokenize is for BLEU, by which this model is not scored. Leave it out. "
            f"Received: {tokenize}"
        )
    check_tokenizer(tokenize)
    return with_tokenizer(trained.task, tokenize)


def warnings_of_scores(
    trained: models.TrainedModel, test_set: TestSet, tokenize: str | None = None
) -> list[str]:
    """Returns what the scores of a model will not tell, and why; see `score`."""
    task, language = _task_of(trained, tokenize), trained.config.data.target_language
    if not isinstance(task, TranslationTask):
        return []
    lines = bleu_warnings(language, task.tokenizer, test_set.references)
    if has_no_spaces(language):
        lines.append(f"There is no tokenized BLEU: {NO_SPACES.format(language)}")
    return lines


def perplexity(
    trained: models.TrainedModel, test_set: TestSet
) -> tuple[float | None, int]:
    """Returns the perplexity of the references per subword, and the pairs left out.

    Pairs are left out if a side is too long or empty. The perplexity is None if no
    pair is left.
    """
    references = [text.encode() for text in test_set.references]
    dataset = tf.data.Dataset.from_tensor_slices(
        {"source": list(test_set.source), "target": references}
    )
    limit = trained.search_model.max_positions or _MAX_SCORED_LENGTH
    limit = min(limit, _MAX_SCORED_LENGTH)
    try:
        corpus = tokenize_corpus(dataset, trained.vocabulary, limit)
    except UserError:  # no pair is left
        return None, len(references)
    data = dataclasses.replace(
        trained.config.data,
        max_length=_MAX_SCORED_LENGTH,
        tokens_per_batch=max(_MAX_SCORED_LENGTH, 4096),
    )
    batches = from_settings.build_evaluation(data, corpus)
    left_out = len(references) - corpus.report.pairs_kept
    return math.exp(_mean_log_loss(trained, batches)), left_out


def _mean_log_loss(trained: models.TrainedModel, batches: EvaluationBatches) -> float:
    """Returns the mean of -log p of the target tokens, without label smoothing."""
    model = trained.search_model
    if isinstance(model, Ensemble):
        compute = models.trace_on_ids(functools.partial(target_log_probs, model))
        log_prob, tokens = 0.0, 0
        for batch in batches:
            targets = batch[DECODER_TARGET_TOKENS]
            log_probs = compute(batch[ENCODER_INPUT_TOKENS], targets)
            log_prob += float(tf.reduce_sum(log_probs))
            tokens += int((targets != PAD_ID).sum())
        return -log_prob / tokens
    stepper = trained.keep(
        "perplexity",
        lambda: build_evaluator(model, trained.config.training.max_tokens_per_replica),
    )
    sums = loss_sums(stepper, batches)
    return float(sums.log_loss_sum / sums.token_count)
