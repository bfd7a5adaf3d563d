"""Decoding ids to text with core TensorFlow ops, compared with SentencePiece."""

import itertools

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.text.normalization import normalize
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID

FIRST_BYTE = 3
# First, last and neighboring bytes of every range in Unicode's table of UTF-8 bytes.
EDGES = (
    0x00,
    0x41,
    0x7F,
    0x80,
    0x8F,
    0x90,
    0x9F,
    0xA0,
    0xBF,
    0xC0,
    0xC1,
    0xC2,
    0xDF,
    0xE0,
    0xE1,
    0xEC,
    0xED,
    0xEE,
    0xEF,
    0xF0,
    0xF1,
    0xF3,
    0xF4,
    0xF5,
    0xFF,
)


@pytest.fixture(scope="module")
def processor(bpe_model):
    return sentencepiece.SentencePieceProcessor(model_proto=bpe_model)


def decode_rows(vocabulary, rows):
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(PAD_ID)
    return [text.decode() for text in vocabulary.decode_in_graph(ids).numpy()]


def test_every_short_run_of_bytes(vocabulary, processor):
    """Each invalid byte becomes one U+FFFD; several bytes do not share one."""
    for length in (1, 2, 3):
        runs = [*itertools.product(EDGES, repeat=length)]
        rows = [[FIRST_BYTE + byte for byte in run] for run in runs]
        expected = [normalize(processor.decode(row)) for row in rows]
        assert decode_rows(vocabulary, rows) == expected, length
        if length == 3:
            assert len({text.count("\ufffd") for text in expected}) == 4


def test_runs_of_four_bytes_and_more(vocabulary, processor):
    generator = np.random.default_rng(5)
    leads = (0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xED, 0xE0)
    rows = [
        [FIRST_BYTE + int(generator.choice(leads if place % 4 == 0 else EDGES))
         for place in range(9)]
        for _ in range(3_000)
    ]  # fmt: skip
    text = [normalize(processor.decode(row)) for row in rows]
    assert decode_rows(vocabulary, rows) == text
    whole = [list(FIRST_BYTE + byte for byte in "𝄞€ä".encode())]
    assert decode_rows(vocabulary, whole) == ["𝄞€ä"]


def test_any_pieces_in_any_order(vocabulary):
    generator = np.random.default_rng(7)
    rows = generator.integers(0, vocabulary.size, size=[500, 13]).tolist()
    rows = [row for row in rows if EOS_ID not in row]
    rows += [[UNK_ID], [5, UNK_ID, 5], [UNK_ID, UNK_ID], [300, PAD_ID, 300]]
    assert decode_rows(vocabulary, rows) == [vocabulary.decode(row) for row in rows]


def test_names_of_a_batch(vocabulary):
    rows = [vocabulary.encode("the old tree Ж"), vocabulary.encode("")]
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(PAD_ID)
    found = vocabulary.pieces_in_graph(ids).numpy()
    assert found.shape == ids.shape
    for row, names in zip(rows, found.tolist(), strict=True):
        expected = [name.encode() for name in vocabulary.pieces(row)]
        assert names == expected + [b""] * (len(names) - len(row))
