"""Marian's YAML vocabularies, also where YAML libraries read something else."""

import pytest
import yaml

from t2t_keras.errors import UserError
from t2t_keras.interop.marian.vocabulary import read_vocabulary, vocabulary_text

HOSTILE = (
    "</s>",
    "<unk>",
    "~",
    "null",
    "yes",
    "1.0",
    "1",
    "-",
    "?",
    ":",
    "a: b",
    "#",
    "'",
    '"',
    "''",
    '"x"',
    "\\",
    "\\x41",
    "|",
    ">",
    "&a",
    "*a",
    "!t",
    "%",
    "@",
    "`",
    "{",
    "[]",
    ",",
    "▁the",
    "ﬁ",
    "é",
    "e\u0301",
    "漢字",
    "🙂",
    "\u200b",
    "\u00ad",
    "= 3",
)


def test_entries_that_a_library_would_take_for_something_else(tmp_path) -> None:
    path = tmp_path / "vocab.yml"
    lines = [f"{quote(piece)}: {i}" for i, piece in enumerate(HOSTILE)]
    path.write_text("\n".join(reversed(lines)), encoding="utf-8")
    assert read_vocabulary(path) == [*HOSTILE]


def quote(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def test_what_a_library_writes_is_read_as_it_reads_it(tmp_path) -> None:
    """Plain, single and double quoted keys, escapes, and long keys."""
    escaped = ["\x85", "\u2028", "\xa0", "\ufeff", "\x07\x1b", "long " * 40]
    for pieces, unescaped in ((HOSTILE, True), ((*HOSTILE, *escaped), False)):
        text = yaml.dump(
            {piece: i for i, piece in enumerate(pieces)},
            allow_unicode=unescaped,
            width=10_000,
        )
        expected = {piece: str(i) for i, piece in enumerate(pieces)}
        assert yaml.load(text, yaml.BaseLoader) == expected
        path = tmp_path / "vocab.yml"
        path.write_text(text, encoding="utf-8")
        assert read_vocabulary(path) == [*pieces]


def test_what_is_written_is_read_by_a_library_too(tmp_path) -> None:
    pieces = [*HOSTILE, "\x85", "\u2028", "\xa0", "\ufeff", "\x07\x1b", "long " * 40]
    path = tmp_path / "vocab.yml"
    path.write_text(text := vocabulary_text(pieces), encoding="utf-8")
    assert yaml.safe_load(text) == {piece: i for i, piece in enumerate(pieces)}
    assert read_vocabulary(path) == pieces


def test_plain_keys_are_text(tmp_path) -> None:
    path = tmp_path / "vocab.yml"
    path.write_text("</s>: 0\r\n<unk>: 1\r\n~: 2\r\n1.0: 3\r\n:: 4\r\n'it''s': 5\r\n")
    assert read_vocabulary(path) == ["</s>", "<unk>", "~", "1.0", ":", "it's"]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"a: 0\nb: 0\n", "the id 0 twice: for 'a' and 'b'"),
        (b"a: 0\nb: 2\n", "without a gap"),
        (b"a: 0\nb\n", "Line 2 .* Received: b"),
        (b"a: 0\nb: one\n", "Line 2 .* Received: b: one"),
        (b"", "Received: 0 ids"),
        (b"\xff: 0\n", "is not UTF-8"),
    ],
)
def test_malformed_files_are_refused(tmp_path, content, message) -> None:
    path = tmp_path / "vocab.yml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_vocabulary(path)
