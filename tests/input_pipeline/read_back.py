"""Contents of batches, read back from their arrays."""

import collections

import numpy as np

from t2t_keras.input_pipeline.batches.batching import check_batch


def read_shape(batch):
    """Rows, source length and target length of a batch."""
    source, target = batch["encoder_input_tokens"], batch["decoder_target_tokens"]
    return (*source.shape, target.shape[1])


def count_pairs(batches):
    """Multiset of the pairs in the rows of batches, packed or not."""
    pairs = collections.Counter()
    for batch in batches:
        source, target = batch["encoder_input_tokens"], batch["decoder_target_tokens"]
        sources = batch.get("encoder_segment_ids", source > 0)
        targets = batch.get("decoder_segment_ids", batch["decoder_loss_weights"] > 0)
        for row in range(len(source)):
            for segment in range(1, int(sources[row].max()) + 1):
                pair = source[row][sources[row] == segment]
                pairs[tuple(pair), tuple(target[row][targets[row] == segment])] += 1
        assert (source[sources == 0] == 0).all()
        assert (target[targets == 0] == 0).all()
        assert ((targets > 0) == (batch["decoder_loss_weights"] > 0)).all()
    return pairs


def count_corpus_pairs(corpus):
    """Multiset of the pairs of a corpus."""
    rows = [corpus.pair(index) for index in range(len(corpus))]
    return collections.Counter((tuple(s), tuple(t)) for s, t in rows)


def check_example(batch, expected, docstring):
    """Checks that a batch has the expected arrays and that a docstring shows them."""
    check_batch(batch)
    assert {name: array.numpy().tolist() for name, array in batch.items()} == expected
    lines = [" ".join(line.split()) for line in docstring.splitlines()]
    for name, rows in expected.items():
        assert any(name in line for line in lines)
        for row in np.array(rows).astype(int).astype(str):
            assert any(" ".join(row) in line for line in lines)
