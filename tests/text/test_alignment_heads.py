"""Heads that align words, by the name of each."""

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.text.word_alignments import head_shares, parse_alignment_heads


def test_heads_share_the_weights():
    assert parse_alignment_heads("2:3, 1") == ((2, 3), (1, None))
    for heads, layers, expected in (
        ("2", 3, [[0, 0], [0.5, 0.5], [0, 0]]),
        ("1", 1, [[0.5, 0.5]]),
        ("3:1", 3, [[0, 0], [0, 0], [1, 0]]),
        ("1:2,3", 3, [[0, 1 / 3], [0, 0], [1 / 3, 1 / 3]]),
    ):
        np.testing.assert_allclose(head_shares(heads, layers, 2), expected, rtol=1e-6)


def test_heads_that_there_are_not_are_refused():
    for heads in ("x", "1:", ":1", "1:2:3", "1,,2", "-1", "1;2", "1.5", " ", ""):
        with pytest.raises(UserError, match=r"LAYER:HEAD, or LAYER .* Received: "):
            parse_alignment_heads(heads)
    for heads in ("0", "4", "1:0", "1:3", "3:1,9:1"):
        with pytest.raises(UserError, match=f"={heads} .* layers 1 to 3, with heads 1"):
            head_shares(heads, 3, 2)
    for heads in ("1:1,1:1", "2,2:1"):
        with pytest.raises(UserError, match="names a head twice"):
            head_shares(heads, 3, 2)
