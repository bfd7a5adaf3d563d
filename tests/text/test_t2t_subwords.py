"""Subwords of Tensor2Tensor: against a second implementation, in Python and graph.

The second implementation is a search from the longest subword on a string, written from
the description of the algorithm.
"""

import random
import unicodedata

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.stored_vocabulary import vocabulary_from_bytes
from t2t_keras.text.t2t_subwords import T2TSubwordTokenizer

# Every character of the alphabet alone, as Tensor2Tensor builds its vocabularies.
LETTERS = "abcdeghnorstuwäé漢字0123456789\\_;,. "
SUBWORDS = (
    "the_",
    "house_",
    "hou",
    "se",
    "s_",
    ", _",
    " ",
    "and_",
    "th",
    "e_",
    "1",
    "19_",
    "\\u",
    "\\u_",
    "ä_",
    "..",
    ".._",
    " ,_",
    "ous",
    "漢字_",
)
CHARACTERS = (
    *LETTERS,
    "A",
    "Z",
    "ß",
    "字",
    "🙂",
    "\u00a0",
    "\u3000",
    "²",
    "½",
    "\u0301",
    "\n",
    "\t",
    "\x00",
    "\u2028",
    "-",
)


def make_vocabulary() -> PieceVocabulary:
    subwords = list(dict.fromkeys([*SUBWORDS, *LETTERS]))
    tokenizer = T2TSubwordTokenizer(subwords)
    return PieceVocabulary(["<pad>", "</s>", "<unk>", *subwords], tokenizer)


@pytest.fixture(scope="module")
def vocabulary() -> PieceVocabulary:
    return make_vocabulary()


def is_word(character: str) -> bool:
    return unicodedata.category(character).startswith(("L", "N"))


def plain_encode(text: str, subwords: list[str]) -> list[str]:
    """Subwords of a text, by scanning it once."""
    runs: list[str] = []
    for i, character in enumerate(text):
        if i and is_word(character) == is_word(text[i - 1]):
            runs[-1] += character
        else:
            runs.append(character)
    alphabet = set("".join(subwords)) | set("<pad><EOS>\\_u;0123456789")
    found = []
    for i, run in enumerate(runs):
        if run == " " and 0 < i < len(runs) - 1:
            continue
        rest = ""
        for character in run:
            if character == "\\":
                rest += "\\\\"
            elif character == "_":
                rest += "\\u"
            elif character not in alphabet:
                rest += f"\\{ord(character)};"
            else:
                rest += character
        rest += "_"
        while rest:
            best = max((s for s in subwords if rest.startswith(s)), key=len)
            found.append(best)
            rest = rest[len(best) :]
    return found


def lines(count: int) -> list[str]:
    generator = random.Random(12)
    fixed = ["", " ", "  ", "the house", " the house ", "a, b", "19 houses", "_\\_"]
    fixed += ["the\thouse", "漢字 漢字", "\\u", "\\65;", "a  b", "½²", ",", "s ,s"]
    return fixed + [
        "".join(generator.choices(CHARACTERS, k=generator.randrange(14)))
        for _ in range(count)
    ]


def test_it_is_the_second_implementation_and_comes_back(vocabulary) -> None:
    subwords = vocabulary.pieces(range(3, vocabulary.size))
    for line in lines(2_000):
        expected = plain_encode(line, subwords)
        ids = vocabulary.encode(line)
        assert vocabulary.pieces(ids[:-1]) == expected, line
        assert vocabulary._tokenizer.join(expected) == line


def test_graph_and_python_encode_alike(vocabulary) -> None:
    texts = lines(2_000)
    texts += ["Q not a letter", "<pad> E"]  # letters of reserved subwords alone
    content = [text.encode() for text in texts] + [b"a\xffb", b"\xe6\xbc"]
    expected = [vocabulary.encode(text) for text in content]
    assert vocabulary.encode_in_graph(tf.constant(content)).to_list() == expected


def test_graph_and_python_decode_alike(vocabulary) -> None:
    generator = random.Random(3)
    escapes = [vocabulary._ids[piece] for piece in ("\\", *"u19;_0")]
    rows = [
        [generator.randrange(3, vocabulary.size) for _ in range(generator.randrange(9))]
        for _ in range(1_500)
    ]
    rows += [
        [generator.choice(escapes) for _ in range(generator.randrange(14))]
        for _ in range(1_500)
    ]
    for code in ("9999999", "55296", "12345678901234567890", "65"):
        rows.append([vocabulary._ids[piece] for piece in ("\\", *code, ";")])
    texts = [vocabulary.decode(row) for row in rows]
    assert texts[-4:] == ["\u3013", "\u3013", "\u3013", "A"]
    padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(0)
    in_graph = [text.decode() for text in vocabulary.decode_in_graph(padded).numpy()]
    assert in_graph == texts


def test_its_file_has_the_subwords_alone(vocabulary) -> None:
    again = vocabulary_from_bytes(vocabulary.to_bytes())
    for line in lines(100):
        assert again.encode(line) == vocabulary.encode(line)
    with pytest.raises(UserError, match="Words cannot be counted in subwords of T"):
        again.marked_pieces([3, 4])
