"""Unusual input lines: empty, too long, invalid UTF-8, control characters."""

# 900 letters, longer than the limit of every model here.
LONG = " ".join("abcdefghij" * 90)

LINES: tuple[bytes, ...] = (
    b"a b c d",
    b"",
    b" \t ",
    "\u2028\u00a0".encode(),
    b"j",
    b"a b \xff\xfe c",
    b"a\x00b",
    b"c d\r",
    "a\u2028b\x85c".encode(),
    "Größe 漢字 🙂 e\u0301".encode(),
    b"\xe2\x96\x81 a \xe2\x96\x81",
    b"e d c b a",
    b"\xed\xa0\x80 f g",
    b"<pad> </s> <unk> <0x41>",
    b"Zz " * 9,
)

# Indices of LINES without tokens; their translations are empty.
BLANK = (1, 2, 3)
