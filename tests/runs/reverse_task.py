"""String reversal, a minimal translation task.

The model has to learn only the order. With a wrong mask, position encoding or target
shift it does not learn it; a correct model learns it completely within a minute.
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
    """Returns distinct strings and their reverses, with spaces between letters."""
    generator = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < num_pairs:
        letters = generator.choices(LETTERS, k=generator.randint(shortest, longest))
        pairs[" ".join(letters)] = " ".join(reversed(letters))
    return list(pairs.items())


def write_split(
    folder: Path, split: str, pairs: Sequence[tuple[str, str]]
) -> list[str]:
    """Writes a split to two files and returns the flags that name them."""
    sources, targets = zip(*pairs, strict=True)
    flags = []
    for side, lines in (("source", sources), ("target", targets)):
        path = folder / f"{split}.{side}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        flags.append(f"--{split}_{side}={path}")
    return flags
