"""Scores of given sentence pairs by a run's model (teacher forcing).

Shapes: B batch, S source length, T target length.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.decoding.transformer_search import target_log_probs
from t2t_keras.errors import UserError, check_list
from t2t_keras.runs import models, translators
from t2t_keras.text.padding import pad_sentences
from t2t_keras.text.reading import TextReader
from t2t_keras.translation.translator import batch_by_length

# Maximum positions of one side in a batch, including padding.
_TOKENS_PER_BATCH = 4096


class PairScore(NamedTuple):
    """Log probability of a target given its source.

    Attributes:
        log_prob: Natural log of the probability of all target tokens, including the
            end of the sentence.
        token_log_probs: Log probability of each token; they add up to `log_prob`.
        truncated: Whether a side exceeded the model's maximum length, and its end was
            ignored.
    """

    log_prob: float
    token_log_probs: tuple[float, ...]
    truncated: bool


def score_pairs(
    trained: models.TrainedModel,
    pairs: Sequence[tuple[str | bytes, str | bytes]],
    on_progress: Callable[[int], object] = lambda _: None,
) -> list[PairScore]:
    """Returns the score of each pair, in order.

    Args:
        trained: The model.
        pairs: Source and target text; a parser's target is its linearized tree.
        on_progress: Called with the number of pairs done since the last call.

    Raises:
        UserError: If a pair is not two texts.
    """
    pairs = check_pairs(pairs)
    adapter = trained.task.text_adapter(splits_words=True)
    longest = translators.longest_source(trained.model)
    sources = TextReader(trained.vocabulary.source, longest)
    targets = TextReader(trained.vocabulary, longest)
    tokenized = [
        (*sources.read(adapter.source(source)), *targets.read(target))
        for source, target in pairs
    ]
    compute = trained.keep(
        "score",
        lambda: models.trace_on_ids(
            functools.partial(
                target_log_probs,
                trained.model,
                first_is_given=trained.vocabulary.languages is not None,
            )
        ),
    )
    scores: dict[int, PairScore] = {}
    lengths = [max(len(source), len(target)) for source, _, target, _ in tokenized]
    for batch in batch_by_length(
        range(len(tokenized)), lengths.__getitem__, _TOKENS_PER_BATCH
    ):
        source_BS = pad_sentences([tokenized[i][0] for i in batch])
        target_BT = pad_sentences([tokenized[i][2] for i in batch])
        log_probs_BT = compute(source_BS, target_BT)
        for row, i in enumerate(batch):
            _, source_cut, target, target_cut = tokenized[i]
            tokens = np.asarray(log_probs_BT[row, : len(target)], "float64").tolist()
            scores[i] = PairScore(sum(tokens), tuple(tokens), source_cut or target_cut)
        on_progress(len(batch))
    return [scores[i] for i in range(len(pairs))]


def check_pairs(
    pairs: Iterable[tuple[str | bytes, str | bytes]],
) -> list[tuple[str | bytes, str | bytes]]:
    """Returns the pairs as a list.

    Raises:
        UserError: If they are not in a list, or one is not two texts.
    """
    check_list("Pairs", pairs)
    pairs = list(pairs)
    for pair in pairs:
        if not _is_pair(pair):
            raise UserError(
                "Each pair must be a source and its target, as in "
                f'[("The dog.", "Der Hund.")]. Received: {pair!r:.60}'
            )
    return pairs


def _is_pair(pair: Any) -> bool:
    """Returns whether this is a source and a target, and not a text of two letters."""
    return (
        not isinstance(pair, str | bytes)
        and isinstance(pair, Iterable)
        and [isinstance(side, str | bytes) for side in pair] == [True, True]
    )
