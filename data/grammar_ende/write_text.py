"""Writes a bundled corpus as text files, with word alignments.

    python data/grammar_ende/write_text.py text
    python data/grammar_ende/write_text.py --corpus=business_ende business_text

writes train, validation and test as `NAME.en`, `NAME.de` and `NAME.align`. A line of
`NAME.align` has the links `0-0 1-2` between the words of the same line, counted from 0:
the Pharaoh format.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

_DATA = pathlib.Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path, help="Folder for the files.")
    parser.add_argument(
        "--corpus",
        choices=("grammar_ende", "business_ende"),
        default="grammar_ende",
        help="Corpus to write. Default: grammar_ende.",
    )
    flags = parser.parse_args(arguments)
    write_corpus(flags.corpus, flags.folder)
    return 0


def write_corpus(corpus: str, folder: pathlib.Path) -> None:
    """Writes the three splits of a corpus to a folder."""
    from grammar_ende.corpus import SEED, aligned_splits

    if corpus == "business_ende":
        from business_ende.sample_sentences import SIZES, draw_sentence
    else:
        from grammar_ende.corpus import SIZES
        from grammar_ende.sample_sentences import draw_sentence
    splits = aligned_splits(SEED, *SIZES, draw=draw_sentence)
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in splits._asdict().items():
        columns = {
            "en": [aligned.pair.en for aligned in pairs],
            "de": [aligned.pair.de for aligned in pairs],
            "align": [aligned.alignment for aligned in pairs],
        }
        for ending, lines in columns.items():
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{ending}").write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    sys.path.insert(0, str(_DATA))
    sys.exit(main())
