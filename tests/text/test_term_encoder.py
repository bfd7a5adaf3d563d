"""Ids of terms as they are within a sentence, in Python and in the graph."""

import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.text.language_tags import LanguageTags
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.term_encoder import (
    MAX_TERM_TOKENS,
    MAX_TERMS,
    MAX_TOKENS,
    TermEncoder,
)
from t2t_keras.text.tokenizers import SentencePieceTokenizer, WordTokenizer

LINES = ["der große Hund schläft", "ein Hund, zwei Hunde", "中国 中国人 日本 人"] * 9
SPECIAL = ["<pad>", "</s>", "<unk>"]
TERMS = ("Hund", "große Hund", "Äpfel", "schläft", "Hunde, zwei", "中国", "中国 Hund")


def learned():
    return SubwordVocabulary(learn_subwords(LINES, vocabulary_size=310))


def imported():
    """Pieces of a SentencePiece model with other ids, and languages."""
    proto = learned().model_proto
    pieces = SentencePieceTokenizer(proto).processor
    names = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    languages = LanguageTags({"de": "__de__", "zh": "__zh__"}, "zh", "de")
    return PieceVocabulary(
        [*SPECIAL, *names[::-1], "__de__", "__zh__"],
        SentencePieceTokenizer(proto),
        without_text=["__de__", "__zh__"],
        languages=languages,
    )


def words():
    known = ["a", "der", "Hund", "große", "schläft", "中国", "zwei", "Hunde,"]
    return PieceVocabulary([*SPECIAL, *known], WordTokenizer())


@pytest.mark.parametrize("make", [learned, imported, words])
def test_ids_are_those_within_a_sentence(make):
    vocabulary = make()
    encoder = TermEncoder(vocabulary)
    assert encoder.encode("  Hund ") == encoder.encode("Hund")
    for term in TERMS:
        ids = encoder.encode(term)
        if not ids:
            assert make is words and "Äpfel" in term
            continue
        # Characters without spaces between them follow each other in a sentence.
        is_glued = term[0] == "中" and make is not words
        sentence = f"der 人{term}" if is_glued else f"der {term}"
        assert vocabulary.encode(sentence)[:-1][-len(ids) :] == ids
        before = vocabulary.encode("der 人" if is_glued else "der")[:-1]
        assert vocabulary.decode([*before, *ids]) == sentence
        assert vocabulary.tag_id not in ids


@pytest.mark.parametrize("make", [learned, imported, words])
def test_the_graph_has_the_same_ids(make):
    vocabulary = make()
    encoder = TermEncoder(vocabulary)
    hostile = ["", " ", "x" * 900, "犬", "\ue000", "</s>", "__de__ Hund", "\udcff", "a"]
    rows = [
        [],
        list(TERMS),
        hostile,
        ["Hund"] * (MAX_TERMS + 3),
        ["Hund " * MAX_TERM_TOKENS, "Hund " * (MAX_TERM_TOKENS + 1)],
        ["Hund " * 30, "Hund " * 30, "Hund " * 4, "Hund " * 5, "Hund"],
    ]
    encode = tf.function(
        encoder.encode_in_graph, input_signature=[tf.TensorSpec([None], tf.string)]
    )
    texts = ["\n".join(row).encode("utf-8", "surrogatepass") for row in rows]
    found = encode(tf.constant(texts)).numpy()
    for row, terms in enumerate(rows):
        expected = [encoder.encode(term) for term in terms if term.strip()][:MAX_TERMS]
        expected = [ids if len(ids) <= MAX_TERM_TOKENS else [] for ids in expected]
        for number in range(len(expected)):
            if sum(map(len, expected[: number + 1])) > MAX_TOKENS:
                expected = expected[:number]
                break
        actual = [ids[ids != 0].tolist() for ids in found[row]]
        count = len(actual)
        assert actual == [*expected, *[[]] * count][:count]
        assert not any(expected[count:])
    # As narrow as its longest term.
    assert found.shape == (6, MAX_TERMS, MAX_TERM_TOKENS)
    assert encode(tf.constant(["Hund\nHund"])).shape[1:] == (2, found[3, 0].argmin())
    assert encode(tf.constant([""])).shape == (1, 0, 1)
    last = encode(tf.constant(["\n" * 20 + "Hund"])).numpy()
    assert last.tolist() == [[encoder.encode("Hund")]]
    assert encode(np.zeros([0], "S1").astype(object)).shape[0] == 0


def test_pieces_of_several_words_belong_to_no_context():
    """Of "a dog" such a vocabulary makes one piece."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog a house"] * 50),
        model_writer=proto,
        vocab_size=23,
        model_type="bpe",
        split_by_whitespace=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    vocabulary = SubwordVocabulary(proto.getvalue())
    assert len(vocabulary.encode("a dog")) < 4
    encoder = TermEncoder(vocabulary)
    ids = encoder.encode("dog")
    assert ids and vocabulary.decode(ids) == "dog"
    found = encoder.encode_in_graph(tf.constant(["dog"])).numpy()
    assert found.tolist() == [[ids]]


def test_a_term_that_the_vocabulary_cannot_write_has_no_ids():
    encoder = TermEncoder(words())
    assert encoder.encode("Hund Katze") == []
    assert encoder.encode("Katze") == []
    assert encoder.encode(" ") == []
