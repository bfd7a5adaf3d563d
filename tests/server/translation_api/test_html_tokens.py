"""HTML in tokens, which joined are the document."""

import random
import time

from t2t_keras.server.translation_api.html_tokens import read_tokens

# A document with "¦" between its tokens, and their kinds and names.
DOCUMENTS = (
    ("a¦<b>¦c¦</b >¦d", "text|start b|text|end b|text"),
    ("<a href=\"x>y\" b='>' c>¦z", "start a|text"),
    ("<a title=a>¦b>c", "start a|text"),
    (
        "<BR>¦<img src=x/>¦<x1/>¦<y />¦<z a=b/>",
        "void br|void img|void x1|void y|start z",
    ),
    ("<!-- <b> -->¦<!doctype html>¦<?php x ?>¦</ >", "other|other|other|other"),
    ("1 < 2 & 3 <> <3 a<", "text"),
    ("<script>¦if (a<b) '</b>'¦</SCRIPT >¦x", "start script|other|end script|text"),
    ("<style>¦a", "start style|other"),
    ("<textarea>¦</textarea>", "start textarea|end textarea"),
    ("x¦<b title='", "text|other"),
    ("x¦<!-- y", "text|other"),
    ("x¦<b", "text|other"),
    ("", ""),
)


def test_documents_split_by_hand():
    for marked, kinds in DOCUMENTS:
        parts = marked.split("¦") if marked else []
        tokens = list(read_tokens("".join(parts)))
        assert [each.raw for each in tokens] == parts
        names = "|".join(f"{each.kind} {each.name}".strip() for each in tokens)
        assert names == kinds, marked


def test_joined_tokens_are_the_document():
    generator = random.Random(8)
    alphabet = ["<", ">", "</", "<!--", "-->", "a", "b ", "=", '"', "'", "/", "script"]
    for _ in range(3000):
        document = "".join(generator.choices(alphabet, k=generator.randrange(30)))
        assert "".join(each.raw for each in read_tokens(document)) == document


def test_hostile_documents_take_linear_time():
    start = time.process_time()
    units = ("<", "<a ", "<!--", "<a b=", "</", "&#", "<!", "<?", "<a b='", '<a b="')
    for unit in (*units, "<script>", "<a><", "</a ", "<a b=c='", "<a =\"'", "= <a "):
        document = unit * (200_000 // len(unit))
        assert "".join(each.raw for each in read_tokens(document)) == document
    # Quadratic time would be minutes: that of html.parser is for the second one.
    assert time.process_time() - start < 20
