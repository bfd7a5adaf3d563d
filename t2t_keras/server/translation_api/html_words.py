"""Words at inline tags: texts that only look like one word, and notes behind a word."""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from t2t_keras.server.translation_api import html_tokens
from t2t_keras.server.translation_api.html_tokens import Token
from t2t_keras.server.translation_api.sentence_translation import is_translatable

_SENTENCE_END = re.compile(r"\w\w[.!?\u2026]$")
# Most tokens of a reference to a note, with links and brackets of their own in it.
_LONGEST_NOTE = 16


def text_boundary(inline: Sequence[Token], text: str) -> int:
    """Returns before which tag a new text begins that continues no word; 0 if none.

    Between two links, or where style is what separates texts, there may be no space:
    `<a>Home</a><a>News</a>`, `<b>Name</b><i>Anna</i>`. `inline` has the tokens before
    the text.
    """
    start = len(inline)
    while start and inline[start - 1].kind in (html_tokens.START, html_tokens.END):
        start -= 1
    tags = inline[start:]
    if not start or not tags or inline[start - 1].kind != html_tokens.TEXT:
        return 0
    before = inline[start - 1].raw
    if before[-1].isspace() or text[0].isspace():
        return 0
    ends = [number for number, tag in enumerate(tags) if tag.kind == html_tokens.END]
    starts = ends[-1] + 1 if ends else 0
    halves = tags[:starts], tags[starts:]
    two = all(halves)
    links = two and all("a" in {tag.name for tag in each} for each in halves)
    styled = two and before[-1].islower() and text[0].isupper()
    ended = _SENTENCE_END.search(before) is not None and text[0].isupper()
    return start + starts if links or styled or ended else 0


def join_notes(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yields tokens, with each superscript or subscript without letters as one.

    It is a reference to a note, or an exponent: "dog<sup>2</sup> sleeps". A model would
    take it as part of the word before, or as a number of what follows.
    """
    position = 0
    while position < len(tokens):
        end = _end_of_note(tokens, position)
        raw = "".join(token.raw for token in tokens[position:end])
        yield tokens[position] if end == position + 1 else Token(html_tokens.VOID, raw)
        position = end


def _end_of_note(tokens: Sequence[Token], start: int) -> int:
    """Returns the end of a note; `start + 1` if none starts there."""
    first = tokens[start]
    if first.kind != html_tokens.START or first.name not in ("sup", "sub"):
        return start + 1
    for number in range(start + 1, min(start + _LONGEST_NOTE, len(tokens))):
        token = tokens[number]
        if token.kind == html_tokens.TEXT and is_translatable(unescape(token.raw)):
            break
        if token.kind == html_tokens.END and token.name == first.name:
            after = tokens[number + 1] if number + 1 < len(tokens) else token
            if after.kind == html_tokens.TEXT and after.raw[0].isalnum():
                break  # H<sub>2</sub>O
            return number + 1
    return start + 1
