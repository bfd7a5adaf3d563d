"""Table of attention heads: what each attends to, in numbers and in one word."""

import math
from collections.abc import Sequence

from t2t_keras.attention.head_sums import HeadFacts
from t2t_keras.runs.sentence_maps import title_of

# A head is named for the first of these that it has this much of, or more.
BROAD_FROM = 0.8
SHARE_FROM = 0.4
FOCUSED_FROM = 0.7
NEAR_FROM = 0.6

PLACES = ("previous", "same", "next", "begin", "end", "punctuation")
SHARES = (*PLACES, "near", "distant")
COLUMNS = HeadFacts._fields


def name_of(facts: HeadFacts) -> str:
    """Returns one word for what a head does, the first of these that is true.

    - `broad`: its weights are nearly equal.
    - `previous`, `same`, `next`, `begin`, `end`, `punctuation`: the largest of these
      shares, if it is two fifths or more.
    - `focused`: it looks at one token at a time, wherever that is.
    - `near`: it looks at tokens close by, at no place in particular.
    - `distant`: it looks far away.
    - `mixed`: none of these.
    """
    largest = max(PLACES, key=lambda share: getattr(facts, share))
    for name, is_so in (
        ("broad", facts.evenness >= BROAD_FROM),
        (largest, getattr(facts, largest) >= SHARE_FROM),
        ("focused", facts.largest >= FOCUSED_FROM),
        ("near", facts.near >= NEAR_FROM),
        ("distant", facts.distant >= SHARE_FROM),
    ):
        if is_so:
            return name
    return "mixed"


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
