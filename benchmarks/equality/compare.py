"""Bit-for-bit comparison of two records of `benchmarks.equality.record`.

    python -m benchmarks.equality.compare old.npz new.npz

Prints a Markdown table with a row for each case and the names of differing values.
Exits with status 1 if any value differs.
"""

import argparse
import collections
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

# Number of differing values that are named, for each case.
_SHOWN = 10


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Returns the largest relative difference; 0 if equal bit for bit, inf if not
    comparable.

    It is relative to the largest magnitude of `old`, so that values near zero do not
    determine the result.
    """
    if old.dtype != new.dtype or old.shape != new.shape:
        return float("inf")
    if old.tobytes() == new.tobytes():
        return 0.0
    if old.dtype.kind != "f":
        return float("inf")
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(new - old)) / np.max(np.abs(old))
    return float(largest) if np.isfinite(largest) and largest > 0 else float("inf")


def compare(
    old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]
) -> Mapping[str, float]:
    """Returns the difference of each value; inf if one side does not have it."""
    return {
        name: difference(old[name], new[name])
        if name in old and name in new
        else float("inf")
        for name in (*old, *(name for name in new if name not in old))
    }


def table(differences: Mapping[str, float]) -> list[str]:
    """Returns the rows of a Markdown table, then the names of differing values."""
    by_case = collections.defaultdict(dict)
    for name, value in differences.items():
        case, _, rest = name.partition(": ")
        by_case[case][rest] = value
    lines = [
        "| case | values | equal | largest difference |",
        "| --- | --- | --- | --- |",
    ]
    named = []
    for case, values in by_case.items():
        differing = {name: value for name, value in values.items() if value}
        largest = max(values.values())
        lines.append(
            f"| {case} | {len(values)} | {len(values) - len(differing)} | "
            f"{largest:.1e} |"
        )
        for name, value in list(differing.items())[:_SHOWN]:
            named.append(f"{case}: {name}: {value:.1e}")
        if len(differing) > _SHOWN:
            named.append(f"{case}: {len(differing) - _SHOWN} more")
    return [*lines, "", *named]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args(argv)
    with np.load(args.old) as old, np.load(args.new) as new:
        differences = compare(dict(old), dict(new))
    print("\n".join(table(differences)))
    return int(any(differences.values()))


if __name__ == "__main__":
    sys.exit(main())
