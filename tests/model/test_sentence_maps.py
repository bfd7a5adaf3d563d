"""Sentence attention maps: the tokens of rows and columns, and titles."""

import numpy as np

from t2t_keras.model.sentence_maps import sentence_maps

RNG_SEED = 3


def test_padding_is_left_out_and_sides_are_named() -> None:
    rng = np.random.default_rng(RNG_SEED)
    # A batch's longest sentences had 7 and 6 tokens; this one has 4 and 3.
    weights = [rng.random((2, 3, *size)) for size in ((7, 7), (6, 6), (6, 7))]
    maps = sentence_maps(["▁a", "▁b", ".", "</s>"], ["▁x", "y", "</s>"], weights)
    source = ("▁a", "▁b", ".", "</s>")
    assert maps.encoder[:2] == (source, source)
    # The decoder reads the previous tokens: the target shifted right by one.
    written = ("<s>", "▁x", "y")
    assert maps.decoder[:2] == (written, written)
    assert maps.memory[:2] == (("▁x", "y", "</s>"), source)
    for found, whole in zip(maps, weights, strict=True):
        rows, columns = len(found.queries), len(found.keys)
        np.testing.assert_array_equal(found.weights, whole[:, :, :rows, :columns])
