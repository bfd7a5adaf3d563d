"""What each head does, as a table and in a word."""

import math
from collections.abc import Sequence

from t2t_keras.pictures.head_sums import HeadFacts
from t2t_keras.pictures.sentence_maps import title_of

# A head is named for the share that has this much of its weights, or more.
NAMED_FROM = 0.5
# A head that looks this evenly looks at nothing in particular.
BROAD_FROM = 0.8

SHARES = ("previous", "same", "next", "begin", "end", "punctuation", "distant")
COLUMNS = HeadFacts._fields


def name_of(facts: HeadFacts) -> str:
    """Returns one word for what a head does.

    It is the largest share, if that is half or more: `previous`, `same`, `next`,
    `begin`, `end`, `punctuation`, and of what is none of these, `distant`. A head
    whose weights are nearly equal is `broad`, and any other `mixed`.
    """
    if facts.evenness >= BROAD_FROM:
        return "broad"
    *near, distant = SHARES
    largest = max(near, key=lambda share: getattr(facts, share))
    if getattr(facts, largest) >= NAMED_FROM:
        return largest
    return distant if getattr(facts, distant) >= NAMED_FROM else "mixed"


def as_tsv(heads: Sequence[HeadFacts]) -> str:
    """Returns a line for each head, fields parted by tabs, the first line of names.

    Numbers have six digits after the point; NaN is empty.
    """
    lines = ["\t".join([*COLUMNS, "name"])]
    lines += ["\t".join([*map(_exact, facts), name_of(facts)]) for facts in heads]
    return "".join(f"{line}\n" for line in lines)


def as_markdown(heads: Sequence[HeadFacts], about: str = "") -> str:
    """Returns a table for each kind of attention, to be read: shares in percent.

    Args:
        heads: Of all kinds, layers and heads.
        about: What stands before the tables.
    """
    lines = [about, ""] if about else []
    for kind in dict.fromkeys(facts.kind for facts in heads):
        lines += [f"## {title_of(kind)}", "", *_table(heads, kind), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(heads: Sequence[HeadFacts], kind: str) -> list[str]:
    titles = [
        *("layer", "head", "name"),
        *(f"{share} %" for share in SHARES),
        *("distance", "entropy, bits", "evenness %", "largest %"),
    ]
    rows = [
        [
            *(str(facts.layer), str(facts.head), name_of(facts)),
            *(_percent(getattr(facts, share)) for share in SHARES),
            *(f"{facts.distance:.1f}", f"{facts.entropy:.2f}"),
            *(_percent(facts.evenness), _percent(facts.largest)),
        ]
        for facts in heads
        if facts.kind == kind
    ]
    rules = ["---" if title == "name" else "---:" for title in titles]
    return [f"| {' | '.join(row)} |" for row in (titles, rules, *rows)]


def _exact(value: str | float) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.6f}"


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f}"
