"""Task of a run: what its text looks like outside the model, and what scores it.

Translation is the default task. The target language "tree" makes it constituency
parsing (section 6.3); for it alone the core imports the companion `parsing`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.input_pipeline.corpora.parallel_text import TreeReader
from t2t_keras.text.reading import PlainTextAdapter, TextAdapter

# The target language that makes a run a parser.
TREES = "tree"


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


# Takes sources, outputs of the model and references, as many of each.
Scorer = Callable[[Sequence[str], Sequence[str], Sequence[str]], CorpusScores]


class Task(Protocol):
    """What differs between tasks: reading trees, text outside the model, scores."""

    @property
    def read_trees(self) -> TreeReader | None:
        """Makes sentence pairs of bracketed trees; None where there are no trees."""
        ...

    def text_adapter(self, *, splits_words: bool) -> TextAdapter:
        """Returns how lines become sources, and the model's text answers.

        Args:
            splits_words: Whether lines are raw text whose words a parser must split,
                rather than words with blanks between them.
        """
        ...

    def scorer(self, cutoff_length: int | None = None) -> Scorer:
        """Returns what scores the model's answers.

        Args:
            cutoff_length: Most words of a sentence in EVALB's second summary. Default:
                EVALB's own.

        Raises:
            UserError: If there is a cut-off, but no summary that it would cut.
        """
        ...


class Translation:
    """The task of a translator into a language: text in, text out.

    Args:
        language: Code of the target language.
    """

    read_trees = None

    def __init__(self, language: str):
        self._language = language

    def text_adapter(self, *, splits_words: bool) -> TextAdapter:
        """Returns an adapter that changes nothing."""
        return PlainTextAdapter()

    def scorer(self, cutoff_length: int | None = None) -> Scorer:
        """Returns sacreBLEU and chrF, which need no sources."""
        if cutoff_length is not None:
            raise UserError(
                "--cutoff_length is of a parser's scores, and this model translates "
                f"into {self._language!r}. Leave it out. Received: {cutoff_length}"
            )
        return lambda _, hypotheses, references: corpus_scores(hypotheses, references)


def task_for(language: str) -> Task:
    """Returns the task of a run with a target language."""
    if language != TREES:
        return Translation(language)
    from t2t_keras.parsing.task import Parsing

    return Parsing()
