"""HTML in runs: text with its inline tags, between blocks that stay as they are."""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from t2t_keras.server.http.requests import HttpError
from t2t_keras.server.translation_api import html_tokens
from t2t_keras.server.translation_api.html_tokens import Token, read_tokens
from t2t_keras.server.translation_api.html_words import join_notes, text_boundary

# Deeper inline elements than any editor makes.
MAX_DEPTH = 100

# Elements that begin and end a line or a cell, so that no sentence goes across.
_BLOCKS = frozenset(
    (
        "address article aside base blockquote body br button caption center col "
        "colgroup dd details dialog dir div dl dt fieldset figcaption figure footer "
        "form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html input label "
        "legend li "
        "link main menu meta nav noscript ol optgroup option p pre search section "
        "select summary table tbody td template tfoot th thead title tr ul"
    ).split()
)
# Elements whose text is not language.
_UNTRANSLATED = frozenset(
    (
        "audio canvas code embed iframe kbd math noembed noframes object samp script "
        "style svg textarea var video xmp"
    ).split()
)
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s"'>/=]++)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'
    |(?P<bare>[^\s"']++)))?+""",
    re.VERBOSE,
)


@dataclass
class Node:
    """Inline element of a run, or a tag or comment that has no end.

    Attributes:
        start: Offset of its start in the run's text.
        end: Offset of its end.
        opening: Its start tag, or the whole of what has no end; "" if it began before
            the run.
        closing: Its end tag; "" if there is none, or it ends after the run.
        children: What is in it, in order.
        opened: Whether it starts in the run.
        closed: Whether it ends in the run.
    """

    start: int
    end: int
    opening: str = ""
    closing: str = ""
    children: list["Node"] = field(default_factory=list)
    opened: bool = True
    closed: bool = True


@dataclass
class HtmlRun:
    """Text between two blocks.

    Attributes:
        text: The text, its character references decoded.
        nodes: Inline elements, in order, as a forest.
        raw: The run in HTML.
        preformatted: Whether line breaks are part of the text.
    """

    text: str
    nodes: list[Node]
    raw: str
    preformatted: bool


def read_runs(document: str) -> Iterator[str | HtmlRun]:
    """Yields the runs of a document, and as str what is between them.

    Raises:
        HttpError: If inline elements are nested deeper than `MAX_DEPTH`.
    """
    inline: list[Token] = []
    preformatted = 0
    for token in _join_untranslated(read_tokens(document)):
        if _is_inline(token):
            if token.kind == html_tokens.TEXT:
                cut = text_boundary(inline, token.raw)
                if cut:
                    yield _make_run(inline[:cut], preformatted > 0)
                    inline = inline[cut:]
            inline.append(token)
            continue
        if inline:
            yield _make_run(inline, preformatted > 0)
            inline = []
        if token.name == "pre" and token.kind != html_tokens.VOID:
            step = 1 if token.kind == html_tokens.START else -1
            preformatted = max(0, preformatted + step)
        yield token.raw
    if inline:
        yield _make_run(inline, preformatted > 0)


def _join_untranslated(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yields tokens, with each element that is not translated as one token."""
    parts: list[str] = []
    name, depth = "", 0
    for token in tokens:
        if name:
            parts.append(token.raw)
            if token.name == name:
                depth += (token.kind == html_tokens.START) - (
                    token.kind == html_tokens.END
                )
            if not depth:
                yield Token(html_tokens.OTHER, "".join(parts))
                name = ""
        elif token.kind == html_tokens.START and _is_untranslated(token):
            name, depth, parts = token.name, 1, [token.raw]
        else:
            yield token
    if name:
        yield Token(html_tokens.OTHER, "".join(parts))


def _is_inline(token: Token) -> bool:
    """Returns whether a token is text, or may be in the middle of a sentence."""
    if token.kind == html_tokens.OTHER:
        return token.raw.startswith("<!--")
    return token.name not in _BLOCKS


def _is_untranslated(token: Token) -> bool:
    return token.name in _UNTRANSLATED or any(
        value.lower() == "no"
        if name == "translate"
        else name == "class" and "notranslate" in value.split()
        for name, value in _attributes(token)
    )


def _attributes(token: Token) -> Iterator[tuple[str, str]]:
    """Yields name and value of a tag's attributes."""
    for match in _ATTRIBUTE.finditer(token.attributes):
        value = match["double"] or match["single"] or match["bare"] or ""
        yield match["name"].lower(), value


def _make_run(tokens: list[Token], preformatted: bool) -> HtmlRun:
    """Returns the run of some tokens, with its elements paired.

    An end tag belongs to the last open element of its name. Elements that are open
    inside that one are tags without an end: HTML that is well-formed has none. What is
    open at the end of the run ends in a later one, and an end tag without a start
    belongs to an earlier one.
    """
    roots: list[Node] = []
    open_nodes: list[tuple[str, Node]] = []
    parts: list[str] = []
    length = 0
    for token in join_notes(tokens):
        siblings = open_nodes[-1][1].children if open_nodes else roots
        if token.kind == html_tokens.TEXT:
            parts.append(html.unescape(token.raw))
            length += len(parts[-1])
        elif token.kind == html_tokens.START:
            node = Node(length, length, token.raw)
            siblings.append(node)
            open_nodes.append((token.name, node))
            if len(open_nodes) > MAX_DEPTH:
                raise _too_deep()
        elif token.kind == html_tokens.END:
            _close(token, length, roots, open_nodes)
        else:
            siblings.append(Node(length, length, token.raw))
    for _, node in open_nodes:
        node.end, node.closed = length, False
    raw = "".join(token.raw for token in tokens)
    return HtmlRun("".join(parts), roots, raw, preformatted)


def _close(
    token: Token, offset: int, roots: list[Node], open_nodes: list[tuple[str, Node]]
) -> None:
    """Ends the last open element of an end tag's name, or what is open before a run."""
    names = [name for name, _ in open_nodes]
    if token.name not in names:
        if open_nodes:
            # Not well-formed: the tag stays where it is.
            open_nodes[-1][1].children.append(Node(offset, offset, token.raw))
            return
        around = Node(0, offset, "", token.raw, roots.copy(), opened=False)
        roots[:] = [around]
        if _unopened_depth(roots) > MAX_DEPTH:
            raise _too_deep()
        return
    while True:
        name, node = open_nodes.pop()
        if name == token.name:
            node.end, node.closing = offset, token.raw
            return
        # Not well-formed: the start tag stays where it is, before what is in it.
        siblings = open_nodes[-1][1].children
        node.end = node.start
        siblings += node.children
        node.children = []


def _unopened_depth(nodes: list[Node]) -> int:
    depth = 0
    while nodes and not nodes[0].opened:
        depth, nodes = depth + 1, nodes[0].children
    return depth


def _too_deep() -> HttpError:
    return HttpError(
        400,
        f"Invalid request: HTML elements are nested too deeply (limit: {MAX_DEPTH})",
    )
