"""Encoding by words: equal to SentencePiece's of whole texts, for every vocabulary."""

import random
import threading

import numpy as np
import pytest
import sentencepiece

from t2t_keras.text import word_encoder
from t2t_keras.text.sentencepiece_models import splits_at_spaces
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import EOS_ID

ALPHABET = (
    "the green house tree Bäume läuft </s> <pad> <0x41> <2de> a<2de>b ee 東京 😀 "
    "\u0301 \u2581x x\u2581 \x00 \ufffd \u200b a\u00a0b"
).split(" ")


@pytest.fixture(scope="module")
def with_symbols(lines):
    return learn_subwords(lines, vocabulary_size=340, user_symbols=["<2de>", "ee"])


def hostile_texts(seed, count=400):
    generator = random.Random(seed)

    def word():
        if generator.random() < 0.7:
            return generator.choice(ALPHABET)
        points = [generator.choice((0x7F, 0x600, 0xFFFF)) for _ in range(5)]
        return "".join(chr(generator.randrange(1, most)) for most in points)

    texts = [
        generator.choice((" ", "\t ", "\u3000", "\n")).join(
            word() for _ in range(generator.randrange(9))
        )
        for _ in range(count)
    ]
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    return [*encoded, b"", b" ", b"\xff\xfe a", b"x" * 5000, b"\n"]


@pytest.mark.parametrize("name", ["bpe_model", "unigram_model", "with_symbols"])
def test_each_text_has_the_ids_that_sentencepiece_gives_it(name, request):
    vocabulary = SubwordVocabulary(request.getfixturevalue(name))
    for seed in range(3):  # the second and third time with words that are known
        texts = hostile_texts(seed)
        ids, lengths = vocabulary.encode_all(texts)
        assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        for text, row in zip(texts, rows, strict=True):
            assert row.tolist() == vocabulary.encode(text), text
            assert row.tolist().count(EOS_ID) == 1


def other_model(lines, tmp_path, **options):
    """Returns the model of another program, which has its own rules for spaces."""
    path = tmp_path / "lines"
    path.write_text("\n".join(lines * 3))
    settings = {
        "model_type": "bpe",
        "vocab_size": 340,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "pad_id": 0,
        "eos_id": 1,
        "unk_id": 2,
        "bos_id": -1,
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(
        input=str(path), model_prefix=str(tmp_path / "m"), **(settings | options)
    )
    return (tmp_path / "m.model").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {"split_by_whitespace": False, "vocab_size": 500},
        {"treat_whitespace_as_suffix": True},
        {"add_dummy_prefix": False},
        {"normalization_rule_name": "nmt_nfkc"},
        {"byte_fallback": False, "vocab_size": 90},
    ],
    ids=lambda options: next(iter(options)),
)
def test_models_that_do_not_split_at_spaces_encode_whole_texts(
    lines, tmp_path, options
):
    model = other_model(lines, tmp_path, **options)
    assert not splits_at_spaces(model)
    assert splits_at_spaces(other_model(lines, tmp_path))
    vocabulary = SubwordVocabulary(model)
    texts = [line.encode() for line in lines[:50]] + hostile_texts(7)
    ids, lengths = vocabulary.encode_all(texts)
    expected = [vocabulary.encode(text) for text in texts]
    assert lengths.tolist() == [*map(len, expected)]
    assert ids.tolist() == [token for row in expected for token in row]


def test_it_forgets_words_and_long_ones_at_once(bpe_model, monkeypatch):
    monkeypatch.setattr(word_encoder, "_MOST_WORDS", 40)
    vocabulary = SubwordVocabulary(bpe_model)
    encoder = vocabulary._word_encoder
    for seed in range(5):
        texts = hostile_texts(seed, count=9)
        ids, _ = encoder.encode_all(texts)
        expected = [token for text in texts for token in vocabulary.encode(text)]
        assert ids.tolist() == expected
        assert len(max(encoder._known, key=len)) <= word_encoder._LONGEST_WORD


def test_threads_share_it_while_it_forgets(bpe_model, monkeypatch):
    monkeypatch.setattr(word_encoder, "_MOST_WORDS", 60)
    vocabulary = SubwordVocabulary(bpe_model)
    wrong = []

    def encode(seed):
        for number in range(20):
            texts = hostile_texts(seed + number, count=20)
            ids, _ = vocabulary.encode_all(texts)
            if ids.tolist() != [t for text in texts for t in vocabulary.encode(text)]:
                wrong.append(seed)

    threads = [threading.Thread(target=encode, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
