"""Table of attention heads: statistics of each, and a name for its pattern."""

import math
from collections.abc import Sequence

from t2t_keras.model.sentence_maps import kind_title
from t2t_keras.pictures.head_statistics import HeadStatistics

# A head is named for the first of these that it has this much of, or more.
BROAD_FROM = 0.8
SHARE_FROM = 0.4
FOCUSED_FROM = 0.7
NEAR_FROM = 0.6

PLACES = ("previous", "same", "next", "begin", "end", "punctuation")
SHARES = (*PLACES, "near", "distant")
COLUMNS = HeadStatistics._fields


def name_head(head: HeadStatistics) -> str:
    """Returns a name for the pattern of a head, the first of these that applies.

    - `broad`: its weights are nearly equal.
    - `previous`, `same`, `next`, `begin`, `end`, `punctuation`: the largest of these
      shares, if it is two fifths or more.
    - `focused`: it attends to one token at a time, at any position.
    - `near`: it attends to tokens close by, at no fixed position.
    - `distant`: it attends to tokens far away.
    - `mixed`: none of these.
    """
    largest = max(PLACES, key=lambda share: getattr(head, share))
    for name, is_so in (
        ("broad", head.evenness >= BROAD_FROM),
        (largest, getattr(head, largest) >= SHARE_FROM),
        ("focused", head.largest >= FOCUSED_FROM),
        ("near", head.near >= NEAR_FROM),
        ("distant", head.distant >= SHARE_FROM),
    ):
        if is_so:
            return name
    return "mixed"


def as_tsv(heads: Sequence[HeadStatistics]) -> str:
    """Returns a tab-separated table with a header and a line for each head.

    Numbers have six digits after the point; NaN is empty.
    """
    lines = ["\t".join([*COLUMNS, "name"])]
    lines += ["\t".join([*map(_exact, head), name_head(head)]) for head in heads]
    return "".join(f"{line}\n" for line in lines)


def as_markdown(heads: Sequence[HeadStatistics], about: str = "") -> str:
    """Returns a text and a Markdown table, in percent, for each kind of attention."""
    lines = [about, ""] if about else []
    for kind in dict.fromkeys(head.kind for head in heads):
        lines += [f"## {kind_title(kind)}", "", *_table(heads, kind), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(heads: Sequence[HeadStatistics], kind: str) -> list[str]:
    titles = [
        "layer",
        "head",
        "name",
        *(f"{share} %" for share in SHARES),
        "distance",
        "entropy, bits",
        "evenness %",
        "largest %",
    ]
    rows = [
        [
            str(head.layer),
            str(head.head),
            name_head(head),
            *(_percent(getattr(head, share)) for share in SHARES),
            f"{head.distance:.1f}",
            f"{head.entropy:.2f}",
            _percent(head.evenness),
            _percent(head.largest),
        ]
        for head in heads
        if head.kind == kind
    ]
    rules = ["---" if title == "name" else "---:" for title in titles]
    return [f"| {' | '.join(row)} |" for row in (titles, rules, *rows)]


def _exact(value: str | float) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.6f}"


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f}"
