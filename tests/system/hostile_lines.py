"""Lines that a translator meets once people use it."""

# Ends within the limit of no model here: 900 letters.
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

# Of LINES, those without a token: they are translated to nothing.
BLANK = (1, 2, 3)
