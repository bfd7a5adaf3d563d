"""Strings of letters and the same read backwards: translation at its smallest.

Nothing but order is to be learned, so a model with a wrong mask, position or shift
does not learn it, and a sound one learns it to the last letter within a minute.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

Pairs: TypeAlias = list[tuple[str, str]]

LETTERS = "abcdefghij"


def reversed_pairs(
    num_pairs: int, seed: int, shortest: int = 3, longest: int = 6
) -> Pairs:
    """Returns distinct strings, each with its reverse, letters set apart by spaces."""
    generator = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < num_pairs:
        letters = generator.choices(LETTERS, k=generator.randint(shortest, longest))
        pairs[" ".join(letters)] = " ".join(reversed(letters))
    return list(pairs.items())


def written(folder: Path, split: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Writes a split to two files, and returns the flags that name them."""
    sources, targets = zip(*pairs, strict=True)
    flags = []
    for side, lines in (("source", sources), ("target", targets)):
        path = folder / f"{split}.{side}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        flags.append(f"--{split}_{side}={path}")
    return flags
