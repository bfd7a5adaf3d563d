import copy
import hashlib
import io
import os
import pickle
import stat

import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.text import sentencepiece_models
from t2t_keras.text.normalization import normalize
from t2t_keras.text.sentencepiece_models import (
    TF_TEXT_PIECES,
    TIED_TEXT,
    make_tied_model,
)
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID

PROPERTY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
NASTY = (
    "",
    " ",
    "the old tree",
    "  the\u00a0old \t tree ",
    "<pad> </s> <unk> <s> <0x0A>",
    "\u2585 \u2047 ⁇ ▁",
    "日本語のテキスト 👩‍👩‍👧‍👦 e\u0301 ﬁ",
    "a\x00b\x00",
    "\ufeff\ufffd\uffff",
    "https://example.org/?a=b&c=%20#d",
    "x" * 5000,
)
# The pieces of `TIED_TEXT` in SentencePiece 0.2.2 and 0.2.3.
PIECES_OF_0_2_3 = "▁ a a aaa b b bbb c ccc c d d ddd e e eee f f fff g g ggg h h hhh"


def decode_in_graph(vocabulary, ids):
    return vocabulary.decode_in_graph(tf.constant([ids], tf.int32)).numpy()[0].decode()


@PROPERTY
@given(text=st.text(max_size=60))
def test_any_text_survives_the_round_trip(vocabulary, text):
    assert vocabulary.decode(vocabulary.encode(text)) == normalize(text)


@PROPERTY
@given(text=st.binary(max_size=60))
def test_graph_and_python_encode_alike(vocabulary, text):
    in_graph = vocabulary.encode_in_graph(tf.constant([text])).to_list()
    assert in_graph == [vocabulary.encode(text)]


@PROPERTY
@given(data=st.data())
def test_graph_and_python_decode_alike_whatever_the_ids(vocabulary, data):
    # Ids 3 to 258 spell single bytes: most runs of them are broken UTF-8.
    any_id = st.integers(0, vocabulary.size - 1) | st.integers(3, 258)
    ids = data.draw(st.lists(any_id, min_size=1, max_size=20))
    text = vocabulary.decode(ids)
    assert decode_in_graph(vocabulary, ids) == text
    assert len(text.splitlines()) <= 1
    assert text == normalize(text)


def test_nasty_texts(vocabulary):
    for text in NASTY:
        ids = vocabulary.encode(text)
        *tokens, end = ids
        assert vocabulary.decode(ids) == normalize(text), repr(text)
        in_graph = vocabulary.encode_in_graph(tf.constant([text]))
        assert in_graph.to_list() == [ids], repr(text)
        assert decode_in_graph(vocabulary, ids) == normalize(text), repr(text)
        assert all(UNK_ID < token < vocabulary.size for token in tokens), repr(text)
        assert end == EOS_ID, repr(text)


def test_pieces_are_those_of_sentencepiece(bpe_model):
    vocabulary = SubwordVocabulary(bpe_model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=bpe_model)
    ids = vocabulary.encode("the old tree")
    assert ids == [*processor.encode("the old tree"), EOS_ID]


def test_pieces_spell_the_text_with_its_spaces(vocabulary) -> None:
    ids = vocabulary.encode("the old tree")
    assert "".join(vocabulary.pieces(ids)) == "▁the▁old▁tree</s>"
    assert vocabulary.pieces(tuple(ids[-1:])) == ["</s>"]


def test_decoding_stops_at_the_first_end_and_skips_padding(vocabulary):
    a, b = vocabulary.encode("a"), vocabulary.encode("house")
    ids = [PAD_ID, *a[:-1], PAD_ID, PAD_ID, EOS_ID, *b, EOS_ID]
    assert vocabulary.decode(ids) == "a"
    assert decode_in_graph(vocabulary, ids) == "a"
    assert vocabulary.decode([EOS_ID, *b]) == ""
    assert vocabulary.decode([]) == ""


def test_empty_batches(vocabulary):
    assert vocabulary.encode_in_graph(tf.zeros([0], tf.string)).to_list() == []
    assert vocabulary.encode_in_graph(tf.constant([""])).to_list() == [[EOS_ID]]
    assert vocabulary.decode_in_graph(tf.zeros([0, 3], tf.int32)).shape == (0,)
    no_length = vocabulary.decode_in_graph(tf.zeros([2, 0], tf.int32))
    assert no_length.numpy().tolist() == [b"", b""]


def test_ids_outside_the_vocabulary_are_refused(vocabulary):
    for wrong in (-1, vocabulary.size):
        with pytest.raises(ValueError, match=rf"in \[0, {vocabulary.size}\).*{wrong}"):
            vocabulary.decode([5, wrong])
    assert vocabulary.decode([EOS_ID, -1]) == ""


def test_size_and_hash_come_from_the_file(bpe_model, tmp_path):
    path = tmp_path / "vocabulary.model"
    SubwordVocabulary(bpe_model).save(path)
    loaded = SubwordVocabulary.load(path)
    assert loaded.size == 340
    assert path.read_bytes() == bpe_model
    assert loaded.sha256 == hashlib.sha256(bpe_model).hexdigest()
    assert os.listdir(tmp_path) == ["vocabulary.model"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_failed_save_says_so_and_leaves_the_old_file(
    bpe_model, tmp_path, monkeypatch
):
    path = tmp_path / "vocabulary.model"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"Cannot write .*No space left.*free space"):
        SubwordVocabulary(bpe_model).save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["vocabulary.model"]
    with pytest.raises(UserError, match="Check that the folder exists"):
        SubwordVocabulary(bpe_model).save(tmp_path / "missing" / "vocabulary.model")


@pytest.mark.parametrize("damage", [b"", b"the\na\n", "cut"])
def test_a_file_that_is_no_model_is_refused(bpe_model, tmp_path, damage):
    path = tmp_path / "damaged.model"
    path.write_bytes(bpe_model[:-10] if damage == "cut" else damage)
    with pytest.raises(UserError, match=r"damaged\.model .*Give a \.model file"):
        SubwordVocabulary.load(path)
    with pytest.raises(UserError, match=r"These bytes .*SentencePiece"):
        SubwordVocabulary(path.read_bytes())


def test_a_path_in_place_of_bytes_is_refused(tmp_path):
    for path in ("d/v.model", tmp_path):
        with pytest.raises(UserError, match=f"the path {path}. SubwordVocabulary.load"):
            SubwordVocabulary(path)  # type: ignore[arg-type]


def test_one_text_is_not_a_batch(vocabulary):
    for text in ("The dog", b"The dog", tf.constant("The dog")):
        with pytest.raises(UserError, match="one text; put it in a list, or use `enc"):
            vocabulary.encode_in_graph(text)


def test_it_is_pickled_and_copied_after_use_in_the_graph(bpe_model):
    used = SubwordVocabulary(bpe_model)
    ids = used.encode_in_graph(["the old tree"])
    used.decode_in_graph(ids.to_tensor())
    for other in (pickle.loads(pickle.dumps(used)), copy.deepcopy(used)):
        assert other.model_proto == bpe_model
        assert other.encode_in_graph(["the old tree"]).to_list() == ids.to_list()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.model: No such file.*or leave"):
        SubwordVocabulary.load(tmp_path / "none.model")


def test_a_model_with_other_special_ids_is_refused(lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=60,
        minloglevel=2,
    )  # its own defaults: no padding, bos 1, eos 2, unk 0
    with pytest.raises(UserError, match=r"\(-1, 2, 0\); \(0, 1, 2\) is needed"):
        SubwordVocabulary(model.getvalue())


@PROPERTY
@given(texts=st.lists(st.binary(max_size=20) | st.sampled_from(("", " ")), max_size=5))
def test_many_texts_are_encoded_as_each_is(vocabulary, texts):
    texts = [text if isinstance(text, bytes) else text.encode() for text in texts]
    rows = [vocabulary.encode(text) for text in texts]
    ids, lengths = vocabulary.encode_all(texts)
    assert ids.tolist() == [token for row in rows for token in row]
    assert lengths.tolist() == [len(row) for row in rows]
    assert (ids.dtype, lengths.dtype) == ("int32", "int64")


# --- Ties of unigram models


@pytest.fixture
def newer_sentencepiece(monkeypatch):
    """Patches SentencePiece to break the ties of the probe like version 0.2.3."""
    real = sentencepiece.SentencePieceProcessor

    class NewerProcessor(real):
        def encode(self, text, out_type=None, **options):
            if text == TIED_TEXT:
                return PIECES_OF_0_2_3.split()
            return super().encode(text, out_type=out_type, **options)

    monkeypatch.setattr(sentencepiece, "SentencePieceProcessor", NewerProcessor)
    monkeypatch.setattr(sentencepiece, "__version__", "0.2.3")
    sentencepiece_models._split_tied_text.cache_clear()
    yield
    sentencepiece_models._split_tied_text.cache_clear()


def test_the_probes_segmentations_tie():
    processor = sentencepiece.SentencePieceProcessor(model_proto=make_tied_model())
    for letter, one, three in sentencepiece_models._TIED_LETTERS:
        ids = processor.encode(5 * letter)[1:]  # without the leading space
        total = sum(processor.get_score(token_id) for token_id in ids)
        assert sorted(map(len, processor.id_to_piece(ids))) == [1, 1, 3]
        assert total == pytest.approx(2 * one + three, abs=1e-5)
    # The long piece is sometimes first, sometimes last.
    assert {"aaa a a", "b b bbb", "c ccc c"} <= {
        " ".join(TF_TEXT_PIECES.split()[first : first + 3]) for first in range(1, 25, 3)
    }


def test_the_graph_breaks_ties_as_the_probe_says_and_so_does_python():
    tokenizer = tensorflow_text.SentencepieceTokenizer(
        make_tied_model(), out_type=tf.string
    )
    in_graph = b" ".join(tokenizer.tokenize(TIED_TEXT).numpy()).decode()
    assert in_graph == TF_TEXT_PIECES
    # Fails with sentencepiece 0.2.2 and 0.2.3.
    assert sentencepiece_models._split_tied_text() == in_graph


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
    # BPE has no ties.
    assert learn_subwords(lines, vocabulary_size=340) == bpe_model
    assert SubwordVocabulary(bpe_model).encode("the house")
