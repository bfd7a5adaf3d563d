"""Scoring of a trained model on a set of sentence pairs."""

import dataclasses
import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.evaluation.compound_bleu import (
    TokenizedBleu,
    moses_languages,
    tokenized_bleu,
)
from t2t_keras.evaluation.translator import TranslatedLine
from t2t_keras.files.atomic import write_text
from t2t_keras.input_pipeline.corpora.corpus import Corpus, open_corpus
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.runs import corpora, models, optimization
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import TREES, CorpusScores, Task, task_for
from t2t_keras.settings.config import DecodingConfig, ExperimentConfig

# Longest sentence whose probability is asked for. Twice what is trained on, and
# anything longer is left out and counted.
_MAX_SCORED_LENGTH = 512


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sentence pairs as text.

    Attributes:
        name: Shown beside every score.
        source: UTF-8 lines.
        references: What they should become, as many.
        warnings: What a person should know of, as lines that were left out.
    """

    __test__ = False  # not one of pytest's

    name: str
    source: Sequence[bytes]
    references: Sequence[str]
    warnings: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """What a model scored on a test set.

    Attributes:
        name: Of the test set.
        checkpoint: Where the weights came from, as "averaged/step-1500".
        step: Updates the model had.
        scores: sacreBLEU and chrF with their signatures; of a parser, EVALB's.
        tokenized: The paper's own metric; None for a language without a tokenizer.
        perplexity: Per subword, of the references; None if all pairs are left out.
        left_out: Pairs that perplexity is without: a side of them is longer than the
            model's positions or than 512 subwords, or empty.
        sources: The lines that were translated, UTF-8.
        translations: Of every line, in order.
        seconds: What translating took.
        decoding: How it was searched.
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
        """Returns the scores in words, a line each."""
        search = f"beam {self.decoding.beam_size}, alpha {self.decoding.alpha:g}"
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
        shown = "none" if self.perplexity is None else f"{self.perplexity:.3f}"
        line = f"  perplexity per subword {shown}"
        if self.left_out:
            line += f"  without {self.left_out:,} pairs that are too long or empty"
        lines.append(line)
        cut = sum(line.cut for line in self.translations)
        if cut:
            lines.append(f"  {cut:,} sources were too long; their ends were cut off")
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """Returns what the run card keeps of it."""
        facts: dict[str, Any] = {
            "checkpoint": self.checkpoint,
            "step": self.step,
            "sentences": len(self.translations),
            **self.scores.facts(),
            "perplexity": self.perplexity,
            "perplexity_left_out": self.left_out,
            "decoding": dataclasses.asdict(self.decoding),
        }
        if self.tokenized is not None:
            facts["tokenized_bleu"] = self.tokenized.bleu
            facts["tokenized_bleu_signature"] = self.tokenized.signature
        return facts


def read_split(corpus: Corpus, split: str) -> TestSet:
    """Returns all lines of a split of a corpus, those with an empty side too.

    Raises:
        UserError: If there is no such split, or nothing in it.
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
    source: Sequence[str] = (),
    reference: Sequence[str] = (),
    task: Task | None = None,
) -> TestSet:
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
    return read_split(corpus, split)


def _check_files(paths: Sequence[str], language: str) -> None:
    trees = [path for path in paths if path.endswith((".mrg", ".mrg.gz"))]
    if trees and language != TREES:
        raise UserError(
            f"{trees[0]} holds trees, and this model is no parser: it translates into "
            f"{language!r}. Give text and its --reference, or a parser's --model_dir."
        )


def keep(model_dir: ModelDir, result: EvaluationResult) -> None:
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


def as_answers(test_set: TestSet, task: Task) -> list[str]:
    """Returns the references as answers look: of a parser, bracketed trees.

    Args:
        test_set: Of a treebank, or of sentence pairs.
        task: What the model was trained for.
    """
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
    on_progress: Callable[[int], object] = lambda _: None,
) -> EvaluationResult:
    """Translates a test set and returns what it scored.

    Args:
        trained: The model.
        test_set: What to translate, and what it should become.
        decoding: How to search.
        ascii_quotes: As `tokenized_bleu` takes it; sacreBLEU is not touched.
        cutoff_length: As `Task.scorer` takes it.
        on_progress: Called with the number of sentences done since the last call.
    """
    start_seconds = time.monotonic()
    language = trained.config.data.target_language
    score = trained.task.scorer(cutoff_length)
    # The words of a test set's sentences are known: blanks are between them.
    translator = models.build_translator(
        trained.model,
        trained.vocabulary,
        decoding,
        1,
        trained.task.text_adapter(splits_words=False),
    )
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
            # The paper splits compounds for English-German alone.
            split_compounds=language == "de",
            ascii_quotes=ascii_quotes,
        )
    return EvaluationResult(
        test_set.name,
        trained.checkpoint_name,
        trained.step,
        score(sources, hypotheses, test_set.references),
        tokenized,
        *perplexity(trained, test_set),
        test_set.source,
        translations,
        seconds,
        decoding,
    )


def perplexity(
    trained: models.TrainedModel, test_set: TestSet
) -> tuple[float | None, int]:
    """Returns exp of the mean -log p of the references' subwords.

    And how many pairs are left out, for a side of them is too long or empty; None for
    the first if no pair is left.
    """
    references = [text.encode() for text in test_set.references]
    dataset = tf.data.Dataset.from_tensor_slices(
        {"source": list(test_set.source), "target": references}
    )
    limit = trained.model.sizes["learned_positions"] or _MAX_SCORED_LENGTH
    limit = min(limit, _MAX_SCORED_LENGTH)
    try:
        corpus = tokenize_corpus(dataset, trained.vocabulary, limit)
    except UserError:  # no pair is left
        return None, len(references)
    stepper = optimization.build_stepper(
        dataclasses.replace(trained.config.training, jit_compile=False),
        trained.model,
        None,
        tf.distribute.get_strategy(),
    )
    data = dataclasses.replace(
        trained.config.data,
        max_length=_MAX_SCORED_LENGTH,
        tokens_per_batch=max(_MAX_SCORED_LENGTH, 4096),
    )
    sums = optimization.loss_sums(stepper, corpora.build_evaluation(data, corpus))
    left_out = len(references) - corpus.report.pairs_kept
    return math.exp(sums.log_loss_sum / sums.token_count), left_out
