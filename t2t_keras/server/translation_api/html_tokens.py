"""HTML in tokens: tags, text and the rest, which joined are the document.

Python's `html.parser` was tried: on the 3.11.7 here, 100 kB of "<a " take it minutes,
during which no other thread runs. Parsers that build a tree do not return a document as
it was. Every pattern here is tried once at a position and never goes back.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

TEXT, START, END, VOID, OTHER = "text", "start", "end", "void", "other"

# Elements without content, and elements whose content is not HTML.
_VOID = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()
)
_RAW_TEXT = frozenset("iframe noembed noframes script style textarea xmp".split())
_TAG = re.compile(
    # Quotes count only after "=".
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)
    (?P<attributes>(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*+)>""",
    re.VERBOSE,
)
# `<!-->` is a whole comment.
_COMMENT_END = re.compile("--!?>|(?<=<!--)-?>")
# Not the end of a value without quotes: href=/docs/
_SELF_CLOSING = re.compile(r"(?:^|[\s\"'])/$")


class Token(NamedTuple):
    """Part of a document.

    Attributes:
        kind: `TEXT`; `START` and `END` tags; `VOID`, a tag without an end tag; or
            `OTHER`: a comment, a declaration, or the content of a script.
        raw: The part as it is.
        name: Name of a tag's element in lower case; "" of others.
        attributes: What follows the name in a tag.
    """

    kind: str
    raw: str
    name: str = ""
    attributes: str = ""


def read_tokens(document: str) -> Iterator[Token]:
    """Yields the tokens of a document; joined, their `raw` is the document.

    A "<" that begins no tag is text. A tag or comment without an end lasts to the end
    of the document, as in a browser.
    """
    position = text_start = 0
    while True:
        position = document.find("<", position)
        token = None if position < 0 else _read_markup(document, position)
        if position >= 0 and token is None:
            position += 1
            continue
        end = len(document) if position < 0 else position
        if end > text_start:
            yield Token(TEXT, document[text_start:end])
        if token is None:
            return
        yield token
        position += len(token.raw)
        if token.kind == START and token.name in _RAW_TEXT:
            end = _end_of_raw_text(document, position, token.name)
            if end > position:
                yield Token(OTHER, document[position:end])
            position = end
        text_start = position


def _read_markup(document: str, start: int) -> Token | None:
    """Returns the tag or comment at a "<"; None if it is text."""
    following = document[start + 1 : start + 3]
    if document.startswith("<!--", start):
        end = _COMMENT_END.search(document, start + 2)
        return Token(OTHER, document[start : end.end() if end else None])
    if following[:1] in ("!", "?") or (
        following[:1] == "/" and following[1:] and not _is_letter(following[1:])
    ):
        end = document.find(">", start)
        return Token(OTHER, document[start : end + 1 if end >= 0 else None])
    if not _is_letter(following.lstrip("/")[:1]):
        return None
    match = _TAG.match(document, start)
    if match is None:
        return Token(OTHER, document[start:])
    name, attributes = match["name"].lower(), match["attributes"]
    if match["end"]:
        return Token(END, match[0], name)
    is_void = name in _VOID or (
        name not in _RAW_TEXT and _SELF_CLOSING.search(attributes) is not None
    )
    kind = VOID if is_void else START
    return Token(kind, match[0], name, attributes)


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _end_of_raw_text(document: str, start: int, name: str) -> int:
    """Returns where the content of a script or the like ends."""
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(document, start)
    return end.start() if end else len(document)
