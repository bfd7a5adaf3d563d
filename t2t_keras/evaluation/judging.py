"""What a run's answers look like and what scores them, by the language it writes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import Scores, corpus_scores
from t2t_keras.evaluation.tree_scores import judged_trees
from t2t_keras.parsing.parser_form import TREES, ParserForm
from t2t_keras.text.forms import PlainText, TextForm


class CorpusScores(Protocol):
    """The scores of what a model made of a test set."""

    @property
    def headline(self) -> tuple[str, float]:
        """The name of the score that matters most, and its value, 0 to 100."""
        ...

    @property
    def table(self) -> str:
        """The scores of each sentence, to be kept in a file; "" if there are none."""
        ...

    def lines(self) -> list[str]:
        """Returns all scores in words, with what it takes to get them again."""
        ...

    def facts(self) -> dict[str, Any]:
        """Returns what the run card keeps: plain JSON."""
        ...


# Of sources, what became of them, and what should have: as many of each.
Judge = Callable[[Sequence[str], Sequence[str], Sequence[str]], CorpusScores]


def form_of(language: str, *, splits_words: bool) -> TextForm:
    """Returns what text looks like outside of a model: a parser's answers are trees.

    Args:
        language: That it translates into; "tree" makes it a parser.
        splits_words: Whether a parser's sentences are raw text, rather than words
            with blanks between them.
    """
    return ParserForm(splits=splits_words) if language == TREES else PlainText()


def judge_of(language: str, cutoff_length: int | None = None) -> Judge:
    """Returns what scores a model that translates into a language.

    Args:
        language: As of `form_of`.
        cutoff_length: Words up to which a sentence is in the second of EVALB's
            summaries; if None, as many as EVALB has it.

    Raises:
        UserError: If there is a cut-off, but no summary that it would cut.
    """
    if cutoff_length is None:
        return judged_trees if language == TREES else judged_translations
    if language != TREES:
        raise UserError(
            "--cutoff_length is of a parser's scores, and this model translates into "
            f"{language!r}. Leave it out. Received: {cutoff_length}"
        )
    return functools.partial(judged_trees, cutoff_length=cutoff_length)


def judged_translations(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> Scores:
    """Returns sacreBLEU and chrF, for which sources do not matter."""
    return corpus_scores(hypotheses, references)
