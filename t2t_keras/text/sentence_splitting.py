"""Sentence splitting of paragraphs, with the spacing between sentences kept.

The rules are Moses' split-sentences.perl in short: a mark that ends a sentence, white
space, and something that can begin one, unless an abbreviation stands before the mark.
Libraries were tried in November 2026: pysbd is not maintained since 2021, and sentencex
1.0.32 crashes on a no-break space and splits "3. Oktober".
"""

import re

from t2t_keras.text.normalization import WHITE_SPACE_RANGES

_SPACES = "".join(
    chr(point) for first, last in WHITE_SPACE_RANGES for point in range(first, last + 1)
)
_SPACE = "".join(f"{chr(first)}-{chr(last)}" for first, last in WHITE_SPACE_RANGES)
# Emphasis of Markdown, which may be around a sentence.
_EMPHASIS = "*_`~"
_CLOSING = f"\"'\u2019\u201d\u201c\u00bb\u203a\u300d\u300f)\\]{_EMPHASIS}"
_OPENING = f"\"'\u2018\u201c\u201e\u201a\u00ab\u2039(\\[\u00bf\u00a1{_EMPHASIS}"
# Those of Arabic, Urdu, Hindi, Armenian, Ethiopic, Khmer and Burmese are the last.
_MARKS = ".!?\u2026\u061f\u06d4\u0964\u0965\u0589\u1362\u17d4\u104b"
# Superscript numbers, and emoji with what joins and varies them.
_NOTES = "\u00b9\u00b2\u00b3\u2070-\u2079\u2600-\u27bf\u200d\ufe0f\U0001f000-\U0001faff"
# Marks, closing quotes and references to notes, and spacing; Chinese and Japanese need
# no spacing. Possessive, so that a megabyte of periods takes no longer than one of
# letters.
_AFTER = f"(?:[{_CLOSING}{_NOTES}]|\\[\\w{{1,4}}\\])*+"
_END = re.compile(
    f"(?<![{_MARKS}])(?P<marks>[{_MARKS}]++){_AFTER}(?P<space>[{_SPACE}]++)"
    f"|[\u3002\uff01\uff1f]++{_AFTER}(?P<wide>[{_SPACE}]*+)"
)
_LAST_WORD = re.compile(f"[^{_SPACE}{_OPENING}]*$")
# Longer than any abbreviation.
_NEARBY = 32

# Abbreviations by language, in lower case and without the last period. A sentence
# seldom ends in one. Titles are those of all languages.
_TITLES = "dr prof st"
_ABBREVIATIONS: tuple[tuple[str, str], ...] = (
    (
        "en",
        "mr mrs ms messrs mt ft jr sr gen col lt capt sgt maj rev hon gov sen rep "
        "pres vs e.g i.e cf approx dept est jan feb mar apr jun jul aug sep sept oct "
        "nov dec",
    ),
    (
        "de",
        "hr fr frl dipl ing bzw vgl ca d.h z.b u.a s.o s.u abs art bspw evtl ggf inkl "
        "jan feb apr aug sep sept okt nov dez max min mio mrd sog str tel geb gest",
    ),
    ("fr", "mm mme mmes mlle mlles me mgr cf av env p.ex c.-à-d janv févr avr juil"),
    ("es", "sr sra srta sres dra ud uds p.ej pág núm av ee.uu"),
    ("it", "sig sigg sig.ra dott dott.ssa ing avv p.es ecc"),
    ("nl", "dhr mevr mr ir ing bijv d.w.z o.a m.b.t"),
    ("pt", "sr sra srs dra exmo exma p.ex pág av"),
)
# Abbreviations only before a number: "No. 5".
_BEFORE_NUMBERS = "no nos nr art p pp fig vol bd kap abb"
# Languages that write ordinal numbers with a period: "am 3. Oktober".
_ORDINALS = "cs da de et fi hr hu is lv nb nn no pl sk sl sr tr"


def split_sentences(paragraph: str, language: str) -> list[tuple[str, str]]:
    """Returns the sentences of a paragraph, each with the spacing after it.

    Spacing before the first sentence comes as an empty sentence. Joined, sentences and
    spacing are the paragraph.

    >>> split_sentences("Dr. Weber came.  Did he? Yes", "en")
    [('Dr. Weber came.', '  '), ('Did he?', ' '), ('Yes', '')]
    """
    start = len(paragraph) - len(paragraph.lstrip(_SPACES))
    parts = [("", paragraph[:start])] if start else []
    words = dict(_ABBREVIATIONS).get(language, "").split() + _TITLES.split()
    abbreviations = frozenset(words)
    for end in _END.finditer(paragraph, start):
        space = end["space"] if end["wide"] is None else end["wide"]
        before = paragraph[max(start, end.start() - _NEARBY) : end.start()]
        after = paragraph[end.end() : end.end() + _NEARBY]
        if (
            end["wide"] is not None
            or not after
            or _is_boundary(before, end["marks"], after, language, abbreviations)
        ):
            parts.append((paragraph[start : end.end() - len(space)], space))
            start = end.end()
    if start < len(paragraph):
        sentence = paragraph[start:].rstrip(_SPACES)
        parts.append((sentence, paragraph[start + len(sentence) :]))
    return parts


def _is_boundary(
    before: str, marks: str, after: str, language: str, abbreviations: frozenset[str]
) -> bool:
    """Returns whether a sentence ends at marks between two texts."""
    first = after.lstrip(_OPENING.replace("\\", ""))[:1]
    if first.islower():
        return False
    if marks != ".":
        return True
    word = _LAST_WORD.search(before)[0].lower()  # type: ignore[index]
    if word in abbreviations or (len(word) == 1 and word.isalpha()):
        return False
    if first.isdigit() and word in _BEFORE_NUMBERS.split():
        return False
    is_ordinal = word.isdecimal() and len(word) <= 2
    return not (is_ordinal and language in _ORDINALS.split())
