"""Symbols that are always one piece, in Python and in the graph."""

import random

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords

SYMBOLS = ("<2de>", "<2fr>", "ß@ü", "quick", "||")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocabulary(request):
    generator = random.Random(3)
    words = "the quick brown fox jumps over lazy dogs über größe <2x> 12 , .".split()
    lines = [" ".join(generator.choices(words, k=6)) for _ in range(300)]
    return SubwordVocabulary(
        learn_subwords(
            lines,
            vocabulary_size=310,
            model_type=request.param,
            user_symbols=SYMBOLS,
        )
    )


def test_symbols_are_one_piece_wherever_they_are(vocabulary):
    assert vocabulary.size == 310
    ids = [vocabulary.symbol_ids(symbol, "x")[-1] for symbol in SYMBOLS]
    assert len(set(ids)) == len(SYMBOLS)
    assert vocabulary.pieces(ids) == list(SYMBOLS)
    generator = random.Random(8)
    texts = []
    for _ in range(400):
        parts = generator.choices(
            [
                *SYMBOLS,
                "the fox",
                " ",
                "über",
                "<2",
                "de>",
                "quic",
                "k",
                "漢",
                "\u00a0",
            ],
            k=generator.randrange(9),
        )
        texts.append("".join(parts))
    in_graph = vocabulary.encode_in_graph(tf.constant(texts)).to_list()
    spelled = vocabulary.decode_in_graph(
        tf.ragged.constant(in_graph, dtype=tf.int32).to_tensor()
    )
    for text, graph_ids, graph_text in zip(
        texts, in_graph, spelled.numpy(), strict=True
    ):
        encoded = vocabulary.encode(text)
        assert encoded == graph_ids, text
        assert (
            vocabulary.decode(encoded)
            == graph_text.decode()
            == " ".join(text.replace("\u00a0", " ").split())
        )
        for symbol, own in zip(SYMBOLS, ids, strict=True):
            # "quic" and "k" side by side are the symbol too.
            assert encoded.count(own) == text.count(symbol), text


def test_a_tag_before_a_text_changes_no_other_piece(vocabulary):
    # So that ids of a tag can be put before ids of records.
    tag = vocabulary.symbol_ids("<2de>", "x")
    for text in ("the quick fox", "über", "quick", "<2fr> k", "größe 12", ""):
        assert vocabulary.encode(f"<2de> {text}") == [*tag, *vocabulary.encode(text)]


def test_a_symbol_that_is_split_is_refused(vocabulary):
    for symbol in ("<2es>", "漢", "the,fox"):
        with pytest.raises(UserError, match=r"\(--target_tag\) into .* --user_sym"):
            vocabulary.symbol_ids(symbol, "target_tag")
            pytest.fail(f"{symbol} was taken")


def test_a_size_without_room_for_the_symbols_is_refused():
    with pytest.raises(UserError, match=r"ids, 5 user symbols and the 256 .* 264"):
        learn_subwords(["a b"], vocabulary_size=264, user_symbols=SYMBOLS)
