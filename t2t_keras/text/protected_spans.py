"""Protected spans of a text: placeholders, tags, URLs and e-mail addresses.

They come back from a translation unchanged and once each. The standard library only, so
that a client can use it.
"""

import collections
import re

Span = tuple[int, int]

# Every loop is possessive or bounded: time is in proportion to the text.
_SPANS = re.compile(
    r"""
    (?P<url> (?<![A-Za-z0-9]) (?: (?:https?|ftp)://|www\.(?=\w) )
        [!#-;=?-~\u00a1-\u00aa\u00ac-\u00ba\u00bc-\u1fff]++ )
    | (?<![\w.+%-]) [A-Za-z0-9_.+%-]{1,64}+ @ [A-Za-z0-9-]++ (?:\.[A-Za-z0-9-]++)++
    | \{\{ [^{}\r\n]{1,200} \}\}
    | [$\#%]? \{ [^{}\s]{0,100} \}
    | (?<![\d%]) % (?: \([\w.]{1,100}\) | \d{1,2}\$ )?
        [-+0\#]{0,4} \d{0,4} (?:\.\d{1,4})? (?:hh|ll|[hlLqjzt])? [diouxXeEfFgGcs@]
        (?!\w)
    | (?P<tag> < (?: / [A-Za-z0-9][\w:.-]{0,100}+ \s*+
        | [A-Za-z0-9][\w:.-]{0,100}+
        (?: \s++ [\w:.-]++ \s*+ = \s*+ (?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>/]++) )*+
        \s*+ /? ) > )
    """,
    re.VERBOSE,
)
# Of scripts without spaces between words: Thai to Lao, Burmese, Khmer, kana, Han.
SPACELESS = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Pattern of a character of a script without spaces, also for TensorFlow's RE2."""
_NO_SPACES = re.compile(SPACELESS)
_LAST_MARKS = ".,;:!?'\u2026\u2019"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def find_spans(text: str) -> list[Span]:
    """Returns start and end of each protected span of a text, in order.

    Those are URLs, e-mail addresses, `{{x}}`, `{name}`, `${name}`, `%s`, `%1$s`,
    `%(name)s`, and tags such as `<1>`, `</1>` and `<br/>`.

    >>> find_spans("Hi {name}, 50 % of it: www.a.org.")
    [(3, 9), (23, 32)]
    """
    spans, start = [], 0
    while match := _SPANS.search(text, start):
        start, end = match.span()
        if match["url"]:
            end -= len(match[0]) - len(_without_marks(match[0]))
        spans.append((start, end))
        start = end
    return spans


def is_tag(span: str) -> bool:
    """Returns whether a protected span is a tag."""
    return span.startswith("<")


def is_spaceless(character: str) -> bool:
    """Returns whether a character is of a script without spaces between words."""
    return _NO_SPACES.match(character) is not None


def keeps_spans(source: str, translation: str) -> bool:
    """Returns whether a translation has the protected spans of its source alone."""
    return _count(source) == _count(translation)


def without_spans(text: str) -> str:
    """Returns a text without its protected spans."""
    for start, end in reversed(find_spans(text)):
        text = f"{text[:start].rstrip()} {text[end:].lstrip()}".strip()
    return text


def _count(text: str) -> collections.Counter[str]:
    return collections.Counter(text[start:end] for start, end in find_spans(text))


def _without_marks(url: str) -> str:
    """Returns a URL without the marks of the sentence around it."""
    while url:
        opening = _BRACKETS.get(url[-1])
        unbalanced = opening and url.count(opening) < url.count(url[-1])
        if url[-1] not in _LAST_MARKS and not unbalanced:
            break
        url = url[:-1]
    return url
