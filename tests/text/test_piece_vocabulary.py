"""Vocabularies of imported models: Python, graph and SentencePiece itself agree."""

import io
import pickle
import random
import zipfile

import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.stored_vocabulary import load_vocabulary, vocabulary_from_bytes
from t2t_keras.text.tokenizers import SentencePieceTokenizer, WordTokenizer
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID
from tests.text.conftest import WORDS, made_up_lines

SPECIAL = ("<pad>", "</s>", "<unk>")
# White space and controls, NFKC, ill-formed bytes, the sign for a space, tags.
HOSTILE = (
    "",
    " ",
    "\t a \t",
    "a\u00a0b",
    "a\u3000b",
    "ﬁne",
    "Ａ①",
    "e\u0301",
    "\u200b",
    "a\x00b",
    "\x01",
    "\x1c",
    "\x85",
    "\u2028",
    "\ufeff",
    "a▁b",
    "▁",
    "</s>",
    "<unk>",
    "漢字漢",
    "äää",
    "🙂🙂 a",
    ">>deu<< the house",
    ">>deu<<",
    " >>deu<<  a",
    ">>xyz<< a",
    ">>deu<<a",
    "a >>deu<< b",
    ">>deu <<",
    ">>de\u00a0u<<",
    ">>deu<< >>deu<< a",
)


def learn(lines: list[str], size: int, **options) -> bytes:
    """Returns a SentencePiece model with its default normalization (nmt_nfkc)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def models() -> tuple[bytes, bytes]:
    """Models of source and target, with other pieces each."""
    lines = made_up_lines(300, seed=4)
    source = learn([line for line in lines if "ä" not in line], 60)
    return source, learn(lines, 90, model_type="bpe")


@pytest.fixture(scope="module")
def vocabulary(models) -> PieceVocabulary:
    """One list of pieces for both sides, as in OPUS-MT."""
    tokenizers = [SentencePieceTokenizer(model) for model in models]
    pieces = [*SPECIAL, ">>deu<<", ">>fra<<"]
    for tokenizer in tokenizers:
        processor = tokenizer.processor
        own = (processor.id_to_piece(i) for i in range(processor.get_piece_size()))
        pieces += [piece for piece in own if piece not in {*pieces, "<s>"}]
    source = PieceVocabulary(pieces, tokenizers[0])
    return PieceVocabulary(pieces, tokenizers[1], source)


def hostile_lines(count: int) -> list[bytes]:
    generator = random.Random(8)
    characters = [*"".join(WORDS), *"".join(HOSTILE), " ", " ", "▁"]
    lines = [text.encode() for text in HOSTILE]
    for _ in range(count):
        text = "".join(generator.choices(characters, k=generator.randrange(25)))
        content = bytearray(text.encode())
        for _ in range(generator.randrange(3) if content else 0):
            content[generator.randrange(len(content))] = generator.randrange(256)
        lines.append(bytes(content))
    return lines


def test_graph_and_python_encode_alike(vocabulary) -> None:
    lines = hostile_lines(2_000)
    for side in (vocabulary, vocabulary.source):
        expected = [side.encode(line) for line in lines]
        assert side.encode_in_graph(tf.constant(lines)).to_list() == expected
        assert any(UNK_ID in ids for ids in expected)


def test_pieces_are_those_of_sentencepiece_and_looked_up_as_text(
    vocabulary, models
) -> None:
    """A character that only the other side's model has is known all the same."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=models[0])
    for line in made_up_lines(50, seed=9):
        expected = [
            piece if piece in vocabulary._ids else "<unk>"
            for piece in processor.encode(line, out_type=str)
        ]
        assert vocabulary.pieces(vocabulary.source.encode(line)[:-1]) == expected
    assert processor.piece_to_id("ä") == processor.unk_id()
    ids = vocabulary.source.encode("ä")
    assert "ä" in vocabulary.pieces(ids) and UNK_ID not in ids
    assert UNK_ID in vocabulary.source.encode("ää")  # one unknown piece of two


def test_a_tag_is_a_piece_if_the_vocabulary_has_it(vocabulary) -> None:
    tag = vocabulary._ids[">>deu<<"]
    plain = vocabulary.source.encode("the house")
    for text in (">>deu<< the house", " \t>>deu<<the house", ">>deu<<  the house"):
        assert vocabulary.source.encode(text) == [tag, *plain], text
    assert vocabulary.source.encode(">>deu<<") == [tag, EOS_ID]
    assert tag not in vocabulary.source.encode("the >>deu<< house")
    assert tag not in vocabulary.source.encode(">>xyz<< the house")
    assert vocabulary.source.symbol_ids(">>deu<<", "target_tag") == [tag]


def test_graph_and_python_decode_alike(vocabulary, models) -> None:
    generator = random.Random(2)
    rows = [
        [generator.randrange(2, vocabulary.size) for _ in range(generator.randrange(9))]
        for _ in range(2_000)
    ]
    texts = [vocabulary.decode([*row, EOS_ID, 7]) for row in rows]
    padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(0)
    in_graph = [text.decode() for text in vocabulary.decode_in_graph(padded).numpy()]
    assert in_graph == texts
    processor = sentencepiece.SentencePieceProcessor(model_proto=models[1])
    for line in made_up_lines(50, seed=10):
        ids = vocabulary.encode(line)
        if UNK_ID not in ids:
            assert vocabulary.decode(ids) == processor.decode(processor.encode(line))


def test_a_translation_is_one_line() -> None:
    pieces = [*SPECIAL, "a", "\n", "\u2028b", "\r", "\x1d"]
    vocabulary = PieceVocabulary(pieces, WordTokenizer())
    assert vocabulary.decode([3, 4, 5, 6, 7, 3]) == "a    b     a"
    (text,) = vocabulary.decode_in_graph(tf.constant([[3, 4, 5, 6, 7, 3]])).numpy()
    assert text == b"a    b     a"


def test_bytes_of_a_character_are_joined() -> None:
    """Byte pieces of a SentencePiece model that has them."""
    lines = made_up_lines(200, seed=6)
    model = learn(lines, 340, model_type="bpe", byte_fallback=True)
    tokenizer = SentencePieceTokenizer(model)
    processor = tokenizer.processor
    own = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    pieces = [*SPECIAL, *(piece for piece in own if piece not in {*SPECIAL, "<s>"})]
    vocabulary = PieceVocabulary(pieces, tokenizer)
    ids = vocabulary.encode("a 漢 🙂")
    assert UNK_ID not in ids
    rows = [ids[:-1], ids[:3], [ids[2], 3, ids[3]], ids[2:4] * 2]
    texts = [vocabulary.decode(row) for row in rows]
    assert texts[0] == "a 漢 🙂" and "\ufffd" in texts[1]
    padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(0)
    assert [t.decode() for t in vocabulary.decode_in_graph(padded).numpy()] == texts


def test_its_file_is_the_same_each_time_and_opens_again(vocabulary, tmp_path) -> None:
    content = vocabulary.to_bytes()
    assert (
        PieceVocabulary(
            vocabulary._pieces, vocabulary._tokenizer, vocabulary._source
        ).to_bytes()
        == content
    )
    vocabulary.save(tmp_path / "vocabulary.model")
    for again in (
        load_vocabulary(tmp_path / "vocabulary.model"),
        pickle.loads(pickle.dumps(vocabulary)),
    ):
        assert again.sha256 == vocabulary.sha256
        for line in hostile_lines(50):
            assert again.source.encode(line) == vocabulary.source.encode(line)
            assert again.encode(line) == vocabulary.encode(line)


def test_sides_with_other_pieces_are_kept(models) -> None:
    source = PieceVocabulary([*SPECIAL, "x", "y", "z"], WordTokenizer())
    target = PieceVocabulary([*SPECIAL, "a"], WordTokenizer(), source)
    again = vocabulary_from_bytes(target.to_bytes())
    assert (again.size, again.source.size, again.largest_size) == (4, 6, 6)
    assert again.source.encode("z a x") == [5, UNK_ID, 3, EOS_ID]
    assert again.encode("a z") == [3, UNK_ID, EOS_ID]
    assert again.marked_pieces([3, 3]) == ["▁a", "▁a"]
    # One model for both sides is one tokenizer, which an export may load once.
    both = SentencePieceTokenizer(models[0])
    pieces = [*SPECIAL, "▁the", "▁"]
    shared = PieceVocabulary(pieces, both, PieceVocabulary(pieces, both))
    again = vocabulary_from_bytes(shared.to_bytes())
    assert again._tokenizer is again.source._tokenizer


def test_damaged_files_and_pieces_are_refused(vocabulary) -> None:
    content = vocabulary.to_bytes()
    with pytest.raises(UserError, match="not a whole vocabulary"):
        vocabulary_from_bytes(content[:-40])
    newer = io.BytesIO(content)
    with zipfile.ZipFile(newer) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["vocabulary.json"] = files["vocabulary.json"].replace(b": 1,", b": 3,")
    newer = io.BytesIO()
    with zipfile.ZipFile(newer, "w") as archive:
        for name, part in files.items():
            archive.writestr(name, part)
    with pytest.raises(
        UserError, match="format 3, and this release reads formats up to 2"
    ):
        vocabulary_from_bytes(newer.getvalue())
    with pytest.raises(UserError, match="the piece 'a' twice"):
        PieceVocabulary([*SPECIAL, "a", "a"], WordTokenizer())
    with pytest.raises(UserError, match="Received: 3 pieces"):
        PieceVocabulary(SPECIAL, WordTokenizer())
