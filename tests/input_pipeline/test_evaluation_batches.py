"""Evaluation: every pair once, in shapes that are known beforehand."""

import collections

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.evaluation_batches import EvaluationBatches
from t2t_keras.input_pipeline.batches.plan import WorkerShare
from tests.input_pipeline.made_up import random_corpus
from tests.input_pipeline.read_back import all_pairs, pairs_of, shape_of

TOKENS = 100


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(130, longest=24, seed=21)


def test_evaluation_holds_every_pair_once(corpus):
    evaluation = EvaluationBatches(corpus, max_shapes=4, tokens_per_batch=TOKENS)
    batches = list(evaluation)
    assert len(batches) == len(evaluation)
    assert pairs_of(batches) == all_pairs(corpus)
    assert {shape_of(batch) for batch in batches} == set(evaluation.shapes)
    assert 2 <= len(evaluation.shapes) <= 4
    for one, other in zip(batches, evaluation, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    for shape in evaluation.shapes:
        padding = evaluation.of_padding(shape)
        assert shape_of(padding) == shape
        assert not any(feature.any() for feature in padding.values())


def test_workers_evaluate_every_pair_once(corpus):
    parts = [
        EvaluationBatches(
            corpus, max_shapes=3, tokens_per_batch=TOKENS, share=WorkerShare(w, 3, 6)
        )
        for w in range(3)
    ]
    found = sum(map(pairs_of, parts), collections.Counter())
    assert found == all_pairs(corpus)
    # Together: as many batches, of the same shapes, in the same order.
    assert len({tuple(map(shape_of, part)) for part in parts}) == 1


def test_a_batch_must_hold_the_longest_pair(corpus):
    with pytest.raises(UserError, match="--tokens_per_batch to 23"):
        EvaluationBatches(corpus, max_shapes=4, tokens_per_batch=20)
