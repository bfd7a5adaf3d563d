"""Task of a run: conversion of text to and from the model's, and scoring.

Translation is the default task. The target language "tree" selects constituency
parsing (section 6.3), the only reason for which the core imports the companion
`parsing`.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.tokenizers import build_bleu, tokenizer_for
from t2t_keras.input_pipeline.corpora.parallel_text import TreeReader
from t2t_keras.text.reading import PlainTextAdapter, TextAdapter

# The target language that makes a run a parser.
TREES = "tree"


def check_translates(target_language: str | None, flag: str) -> None:
    """Raises `UserError`, which names the flag, for the target language of parsers."""
    if target_language == TREES:
        raise UserError(
            f"--{flag} is for translations, but this model is a parser, whose output "
            "is a tree over the words. Leave it out."
        )


class CorpusScores(Protocol):
    """Scores of a model's outputs on a test set."""

    @property
    def headline(self) -> tuple[str, float]:
        """Name and value, 0 to 100, of the main score."""
        ...

    @property
    def table(self) -> str:
        """The scores of each sentence, for a file; "" if there are none."""
        ...

    def lines(self) -> list[str]:
        """Returns all scores as text, with the signatures to reproduce them."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Returns the scores as the run card stores them, in JSON values."""
        ...


# Takes sources, outputs of the model and references, the same number of each.
Scorer = Callable[[Sequence[str], Sequence[str], Sequence[str]], CorpusScores]


class Task(Protocol):
    """Everything that differs between tasks: reading trees, text conversion, scores."""

    @property
    def read_trees(self) -> TreeReader | None:
        """Function that converts bracketed trees to pairs; None without trees."""
        ...

    def text_adapter(self, *, splits_words: bool) -> TextAdapter:
        """Returns the conversion of lines to sources, and of outputs to answers.

        Args:
            splits_words: Whether lines are raw text whose words a parser must split,
                rather than words separated by blanks.
        """
        ...

    def scorer(self, cutoff_length: int | None = None) -> Scorer:
        """Returns the function that scores the model's answers.

        Args:
            cutoff_length: Maximum words of a sentence in EVALB's second summary.
                Default: EVALB's own.

        Raises:
            UserError: If `cutoff_length` is set for a task without such a summary.
        """
        ...


class TranslationTask:
    """The task of a translator into a language: text in, text out.

    Args:
        language: Code of the target language.
    """

    read_trees = None
    _tokenize: str | None = None

    def __init__(self, language: str):
        self._language = language

    @property
    def tokenizer(self) -> str:
        """Name of sacreBLEU's tokenizer: that of the language, or a chosen one."""
        return self._tokenize or tokenizer_for(self._language)

    def with_tokenizer(self, tokenize: str | None) -> Self:
        """Returns the task with another tokenizer; None for that of the language."""
        task = copy.copy(self)
        task._tokenize = tokenize
        return task

    def text_adapter(self, *, splits_words: bool) -> TextAdapter:
        """Returns an adapter that changes nothing."""
        return PlainTextAdapter()

    def scorer(self, cutoff_length: int | None = None) -> Scorer:
        """Returns the function that computes sacreBLEU and chrF.

        Raises:
            UserError: If `cutoff_length` is set, or the tokenizer is not installed.
        """
        if cutoff_length is not None:
            raise UserError(
                "--cutoff_length is for a parser's scores, but this model translates "
                f"into {self._language!r}. Leave it out. Received: {cutoff_length}"
            )
        build_bleu(self.tokenizer)  # before anything is translated
        return lambda _, hypotheses, references: corpus_scores(
            hypotheses, references, self.tokenizer
        )


def with_tokenizer(task: Task, tokenize: str | None) -> Task:
    """Returns a task with a tokenizer of sacreBLEU, or itself if it has no BLEU."""
    if isinstance(task, TranslationTask):
        return task.with_tokenizer(tokenize)
    return task


def task_for(language: str) -> Task:
    """Returns the task of a run, given its target language."""
    if language != TREES:
        return TranslationTask(language)
    from t2t_keras.parsing.task import Parsing

    return Parsing()
