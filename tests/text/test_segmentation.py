"""Subword regularization: exactness without noise, and the distribution of draws."""

import collections
import io
import itertools
import math

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.text.normalization import normalize
from t2t_keras.text.segmentation import SubwordSampler
from t2t_keras.text.sentencepiece_models import _encode_piece, read_piece_types
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import EOS_ID

PROPERTY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
# So small that nothing is ever skipped.
ALMOST_0 = 1e-300
SYMBOLS = ("<2de>", "<2fr>", "<2f", "ß@ü", "quick", "||", "e")
HOSTILE = (
    "",
    "  the\u00a0old \t tree ",
    "<pad> </s> <unk> <s> <0x0A> <2de><2fr>||<2f the<2de>tree quickquick",
    "\u2585 \u2047 ⁇ ▁▁ the▁tree",
    "日本語のテキスト 👩‍👩‍👧‍👦 e\u0301 ﬁ ☃the☃☃ ☃",
    "a\x00b\x00 \ufeff\ufffd\uffff",
    "https://example.org/?a=b&c=%20#d",
    "walks" * 60 + "x" * 300,
)
_CONTROL, _UNKNOWN, _USER_DEFINED, _UNUSED = 3, 2, 4, 5
_SPECIAL = (("<pad>", 0.0, _CONTROL), ("</s>", 0.0, _CONTROL), ("<unk>", 0.0, _UNKNOWN))


def numbers(key, place=0):
    return np.random.Philox(key=np.array([key, place], np.uint64))


def toy_vocabulary(pieces, *, is_bpe):
    """Returns a vocabulary of pieces (text, score) or (text, score, type)."""
    proto = b"".join(_encode_piece(*piece) for piece in (*_SPECIAL, *pieces))
    return SubwordVocabulary(proto + (b"\x12\x02\x18\x02" if is_bpe else b""))


def learn(lines, **options):
    """Returns a vocabulary of another origin than `learn_subwords`."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        minloglevel=2,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        **options,
    )
    return SubwordVocabulary(model.getvalue())


@pytest.fixture(scope="module")
def vocabularies(lines):
    """BPE: of this project, with symbols, and of other origin; then unigram ones."""
    bpe = [
        SubwordVocabulary(
            learn_subwords(lines, vocabulary_size=340, user_symbols=symbols)
        )
        for symbols in ((), SYMBOLS)
    ]
    # Unknown characters, NFKC, pieces of several words, and spaces at their ends.
    others = ({}, {"split_by_whitespace": False}, {"treat_whitespace_as_suffix": True})
    for options in others:
        bpe.append(learn(lines, vocab_size=110, model_type="bpe", **options))
    unigram = [
        SubwordVocabulary(
            learn_subwords(
                lines, vocabulary_size=315, model_type="unigram", user_symbols=symbols
            )
        )
        for symbols in ((), SYMBOLS[:4])
    ]
    return bpe, unigram


@PROPERTY
@given(
    text=st.text(max_size=60)
    | st.binary(max_size=60)
    | st.lists(st.sampled_from((*SYMBOLS, *"thequickü ☃▁"))).map("".join)
)
def test_bpe_without_noise_is_sentencepiece(vocabularies, samplers, text):
    for vocabulary, sampler in zip(vocabularies[0], samplers, strict=True):
        assert sampler.encode(text, numbers(1)) == vocabulary.encode(text)


@pytest.fixture(scope="module")
def samplers(vocabularies):
    return [SubwordSampler(vocabulary, ALMOST_0) for vocabulary in vocabularies[0]]


def test_bpe_without_noise_is_sentencepiece_on_sentences(vocabularies, samplers, lines):
    for vocabulary, sampler in zip(vocabularies[0], samplers, strict=True):
        for text in (*lines, *HOSTILE):
            assert sampler.encode(text, numbers(1)) == vocabulary.encode(text)


def test_a_draw_decodes_to_the_text_and_keeps_symbols(vocabularies, lines):
    bpe, unigram = vocabularies
    # Byte fallback; without it characters are lost, with noise or without.
    for vocabulary in (*bpe[:2], *unigram):
        types = read_piece_types(vocabulary.model_proto)
        symbols = [i for i, kind in enumerate(types) if kind == _USER_DEFINED]
        for rate in (0.1, 0.95):
            sampler = SubwordSampler(vocabulary, rate)
            different = 0
            for number, text in enumerate((*lines[:80], *HOSTILE)):
                ids = sampler.encode(text, numbers(5, number))
                best = vocabulary.encode(text)
                assert ids[-1] == EOS_ID
                assert vocabulary.decode(ids) == normalize(text)
                if symbols and vocabulary.size == 340:
                    assert [i for i in ids if i in symbols] == [
                        i for i in best if i in symbols
                    ]
                different += ids != best
            # The words of this text have few segmentations in a unigram vocabulary.
            if vocabulary in bpe:
                assert different > 10
            elif rate == 0.95:
                assert different > 3


def test_equal_numbers_give_equal_draws_whatever_was_drawn_before(vocabularies, lines):
    for vocabulary in (vocabularies[0][0], vocabularies[1][0]):
        once, again = (SubwordSampler(vocabulary, 0.97) for _ in range(2))
        first = [once.encode(line, numbers(3, n)) for n, line in enumerate(lines[:40])]
        for number in reversed(range(40)):
            assert again.encode(lines[number], numbers(3, number)) == first[number]
        other = [once.encode(line, numbers(4, n)) for n, line in enumerate(lines[:40])]
        assert sum(a != b for a, b in zip(first, other, strict=True)) > 1


def chi_square(counts, probabilities):
    """Returns Pearson's statistic in standard deviations above its mean."""
    total = sum(counts.values())
    assert set(counts) <= set(probabilities)
    assert sum(probabilities.values()) == pytest.approx(1)
    terms = [
        (counts[outcome] - total * p) ** 2 / (total * p)
        for outcome, p in probabilities.items()
    ]
    freedom = len(terms) - 1
    return (sum(terms) - freedom) / math.sqrt(2 * freedom)


def draw_many(vocabulary, rate, text, count):
    sampler = SubwordSampler(vocabulary, rate)
    draws = (sampler.encode(text, numbers(17, n)) for n in range(count))
    return collections.Counter(
        " ".join(vocabulary.pieces(ids[:-1])).removeprefix("▁ ") for ids in draws
    )


def test_bpe_dropout_has_the_probabilities_of_the_paper():
    letters = [(letter, -9.0 - n) for n, letter in enumerate("▁abcd")]
    p, q = 0.3, 0.7
    # Two merges that do not meet. A skipped one may be made after the other.
    apart = toy_vocabulary([*letters, ("ab", 0.0), ("cd", -1.0)], is_bpe=True)
    expected = {
        "ab cd": q * q + p * q * q,
        "ab c d": q * p,
        "a b cd": p * q * p,
        "a b c d": p * p,
    }
    assert chi_square(draw_many(apart, p, "abcd", 6000), expected) < 4
    # Two merges that exclude each other, and one that either makes possible.
    chain = [*letters, ("ab", 0.0), ("abc", -1.0), ("bc", -2.0)]
    expected = {
        "abc": q * q + p * q * q,
        "ab c": q * p,
        "a bc": p * q * p,
        "a b c": p * p,
    }
    chained = toy_vocabulary(chain, is_bpe=True)
    assert chi_square(draw_many(chained, p, "abc", 6000), expected) < 4


def test_of_equal_merges_the_leftmost_comes_first():
    letters = [(letter, -9.0 - n) for n, letter in enumerate("▁a")]
    vocabulary = toy_vocabulary([*letters, ("aa", 0.0)], is_bpe=True)
    p, q = 0.4, 0.6
    # [aa a] if the left merge is made; [a aa] if it is skipped and the right one made.
    expected = {"aa a": q, "a aa": p * q, "a a a": p * p}
    assert chi_square(draw_many(vocabulary, p, "aaa", 6000), expected) < 4


def test_unigram_draws_have_the_probabilities_of_kudo():
    scores = {"▁": -1.0, "a": -2.5, "b": -3.0, "c": -2.0, "ab": -3.5, "bc": -4.5}
    scores |= {"abc": -5.0, "▁a": -3.0, "▁ab": -6.0}
    vocabulary = toy_vocabulary(list(scores.items()), is_bpe=False)
    rate, word = 0.6, "▁abcab"
    weights = {}
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        pieces = [word[0]]
        for character, is_cut in zip(word[1:], cuts, strict=True):
            if is_cut:
                pieces.append(character)
            else:
                pieces[-1] += character
        if all(piece in scores for piece in pieces):
            total = sum(scores[piece] for piece in pieces)
            name = " ".join(pieces).removeprefix("▁ ")
            weights[name] = math.exp((1 - rate) * total)
    assert 8 < len(weights) <= 64
    probabilities = {name: w / sum(weights.values()) for name, w in weights.items()}
    assert chi_square(draw_many(vocabulary, rate, "abcab", 6000), probabilities) < 4


def test_what_cannot_be_sampled_is_refused(vocabularies):
    for rate in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match=rf"\(0, 1\). Received: {rate}"):
            SubwordSampler(vocabularies[0][0], rate)
    pieces = [("▁", -1.0), ("a", -2.0), ("aa", -3.0, _UNUSED)]
    with pytest.raises(UserError, match="without unused pieces, and this one has 1"):
        SubwordSampler(toy_vocabulary(pieces, is_bpe=True), 0.1)
