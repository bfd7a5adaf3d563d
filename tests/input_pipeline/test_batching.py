import numpy as np
import pytest

from t2t_keras.input_pipeline.batch_plan import PlannedBatch
from t2t_keras.input_pipeline.batching import make_batch
from t2t_keras.input_pipeline.features import check_batch
from tests.input_pipeline.made_up import corpus_of, random_corpus


def test_the_example_of_the_docstring():
    corpus = corpus_of([([5, 6], [7]), ([8], [9, 5, 6])])
    batch = make_batch(corpus, PlannedBatch(5, np.array([0, 1])), rows=3)
    check_batch(batch)
    expected = {
        "encoder_input_tokens": [[5, 6, 1, 0, 0], [8, 1, 0, 0, 0], [0] * 5],
        "decoder_input_tokens": [[0, 7, 1, 0, 0], [0, 9, 5, 6, 1], [0] * 5],
        "decoder_target_tokens": [[7, 1, 0, 0, 0], [9, 5, 6, 1, 0], [0] * 5],
        "decoder_loss_weights": [[1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0] * 5],
    }
    assert {name: array.tolist() for name, array in batch.items()} == expected
    shown = np.concatenate(
        [batch[name] for name in expected if name != "decoder_loss_weights"], axis=1
    )
    for row in shown.reshape(-1, 5).astype(str):
        assert " ".join(row) in make_batch.__doc__


def by_hand(corpus, planned, rows):
    """The same batch, one cell at a time."""
    source, fed, target = ([[0] * planned.bound for _ in range(rows)] for _ in range(3))
    weights = [[0.0] * planned.bound for _ in range(rows)]
    for row, index in enumerate(planned.indices):
        source_ids, target_ids = corpus.pair(index)
        for column, token in enumerate(source_ids):
            source[row][column] = int(token)
        for column, token in enumerate(target_ids):
            target[row][column] = int(token)
            weights[row][column] = 1.0
            if column + 1 < planned.bound:
                fed[row][column + 1] = int(token)
    return source, fed, target, weights


@pytest.mark.parametrize("seed", range(5))
def test_random_batches_equal_those_made_by_hand(seed):
    corpus = random_corpus(40, longest=11, seed=seed)
    random = np.random.default_rng(seed)
    for count, rows in ((1, 1), (6, 6), (5, 9)):
        indices = random.permutation(40)[:count]
        planned = PlannedBatch(int(corpus.lengths[indices].max()), indices)
        batch = make_batch(corpus, planned, rows)
        check_batch(batch)
        expected = by_hand(corpus, planned, rows)
        for array, cells in zip(batch.values(), expected, strict=True):
            np.testing.assert_array_equal(array, cells)


def test_more_pairs_than_rows_are_refused():
    corpus = corpus_of([([5], [7])] * 3)
    with pytest.raises(ValueError, match=r"batch of 2 rows .* Received: 3"):
        make_batch(corpus, PlannedBatch(5, np.arange(3)), rows=2)


def test_a_pair_over_the_bound_is_refused():
    corpus = corpus_of([([5], [7, 8, 9]), ([5], [7])])
    with pytest.raises(ValueError, match=r"its bound, 3\. Received: 4"):
        make_batch(corpus, PlannedBatch(3, np.array([1, 0])), rows=2)
