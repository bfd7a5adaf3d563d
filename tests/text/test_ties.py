import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text

from t2t_keras.errors import UserError
from t2t_keras.text import ties
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import SubwordVocabulary

# What SentencePiece 0.2.2 and 0.2.3 make of `ties.TIED_TEXT`.
PIECES_OF_0_2_3 = "▁ a a aaa b b bbb c ccc c d d ddd e e eee f f fff g g ggg h h hhh"


@pytest.fixture
def newer_sentencepiece(monkeypatch):
    """The installed SentencePiece, breaking the probe's ties as 0.2.3 does."""
    real = sentencepiece.SentencePieceProcessor

    class Newer(real):
        def encode(self, text, out_type=None, **options):
            if text == ties.TIED_TEXT:
                return PIECES_OF_0_2_3.split()
            return super().encode(text, out_type=out_type, **options)

    monkeypatch.setattr(sentencepiece, "SentencePieceProcessor", Newer)
    monkeypatch.setattr(sentencepiece, "__version__", "0.2.3")
    ties._tied_pieces.cache_clear()
    yield
    ties._tied_pieces.cache_clear()


def test_the_probes_segmentations_tie():
    processor = sentencepiece.SentencePieceProcessor(model_proto=ties.tied_model())
    for letter, one, three in ties._PIECES:
        ids = processor.encode(5 * letter)[1:]  # without the blank in front
        total = sum(processor.get_score(token_id) for token_id in ids)
        assert sorted(map(len, processor.id_to_piece(ids))) == [1, 1, 3]
        assert total == pytest.approx(2 * one + three, abs=1e-5)
    # Neither always the short pieces first nor always the long one.
    assert {"aaa a a", "b b bbb", "c ccc c"} <= {
        " ".join(ties.TF_TEXT_PIECES.split()[first : first + 3])
        for first in range(1, 25, 3)
    }


def test_the_graph_breaks_ties_as_the_probe_says_and_so_does_python():
    tokenizer = tensorflow_text.SentencepieceTokenizer(
        ties.tied_model(), out_type=tf.string
    )
    in_graph = b" ".join(tokenizer.tokenize(ties.TIED_TEXT).numpy()).decode()
    assert in_graph == ties.TF_TEXT_PIECES
    # Fails with sentencepiece 0.2.2 and 0.2.3.
    assert ties._tied_pieces() == in_graph


def test_a_disagreeing_version_cannot_use_unigram_vocabularies(
    bpe_model, unigram_model, lines, tmp_path, newer_sentencepiece
):
    path = tmp_path / "unigram.model"
    path.write_bytes(unigram_model)
    uses = (
        lambda: SubwordVocabulary(unigram_model),
        lambda: SubwordVocabulary.load(path),
        lambda: learn_subwords(lines, vocabulary_size=310, model_type="unigram"),
    )
    for use in uses:
        with pytest.raises(UserError) as caught:
            use()
        for fact in ("sentencepiece 0.2.3", '"sentencepiece==0.2.1"', "unigram"):
            assert fact in str(caught.value)
    # BPE has no scores that could tie.
    assert learn_subwords(lines, vocabulary_size=340) == bpe_model
    assert SubwordVocabulary(bpe_model).encode("the house")
