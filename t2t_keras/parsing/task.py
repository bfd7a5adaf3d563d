"""Parsing as the task of a run: sentences in, bracketed trees out, scored by EVALB."""

import functools

from t2t_keras.parsing.bracket_scores import CUTOFF_LENGTH
from t2t_keras.parsing.parser_form import ParserForm
from t2t_keras.parsing.tree_scores import judged_trees
from t2t_keras.parsing.tree_text import tree_pairs


class Parsing:
    """The task of a parser: see `t2t_keras.runs.tasks.Task`."""

    read_trees = staticmethod(tree_pairs)

    def text_adapter(self, *, splits_words: bool) -> ParserForm:
        """Returns how sentences become words, and symbols trees over these words."""
        return ParserForm(splits=splits_words)

    def scorer(self, cutoff_length: int | None = None):
        """Returns EVALB's scores."""
        if cutoff_length is None:
            cutoff_length = CUTOFF_LENGTH
        return functools.partial(judged_trees, cutoff_length=cutoff_length)
