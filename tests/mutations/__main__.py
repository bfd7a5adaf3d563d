"""Mutation testing: runs the tests against faulty variants of the code.

python -m tests.mutations                        all variants, all tiers
python -m tests.mutations --tier=quick --jobs=2
python -m tests.mutations --only="the padding mask is inverted"

Ctrl-C stops it; the same command resumes. The table is printed to standard output.
"""

import argparse
import signal
import sys
from pathlib import Path

from tests.mutations.checking import as_table, check_all
from tests.mutations.running import CAUGHT, STAGES
from tests.mutations.variants import VARIANTS


def main() -> int:
    """Checks variants; returns the exit status, 1 if a variant is not caught."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tier", choices=("quick", "all"), default="all")
    parser.add_argument("--only", action="append", help="name of a variant; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="variants in parallel")
    parser.add_argument("--state", type=Path, help="file for the results")
    parser.add_argument("--list", action="store_true", help="print names and end")
    given = parser.parse_args()
    names = {each.name for each in VARIANTS}
    if unknown := set(given.only or ()) - names:
        parser.error(f"no variant is called {', '.join(sorted(unknown))}; see --list")
    variants = [v for v in VARIANTS if not given.only or v.name in given.only]
    if given.list:
        print("\n".join(f"{each.name}  ({each.address})" for each in variants))
        return 0
    stages = STAGES[:2] if given.tier == "quick" else STAGES
    for number in (signal.SIGINT, signal.SIGTERM):  # background shells ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    try:
        results = check_all(variants, stages=stages, jobs=given.jobs, state=given.state)
    except KeyboardInterrupt:
        print("stopped; the same command resumes", file=sys.stderr)
        return 130
    print(as_table(variants, results))
    return 0 if all(result.outcome == CAUGHT for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
