"""Checks the number of sentence pairs in a prepared copy of WMT14.

    python data/wmt14/check_counts.py --pair=de-en
    python data/wmt14/check_counts.py --pair=fr-en --data_dir=/data/tfds

Exits with status 0 if all three splits have the expected number of pairs, with 1 if
one has not, with 2 if the corpus has not been prepared.
"""

import argparse
import importlib
import pathlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

# newstest2013 is the development set, newstest2014 (sacreBLEU's wmt14/full) the test.
EXPECTED_PAIRS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "de-en": MappingProxyType(
            {"train": 4_508_785, "validation": 3_000, "test": 3_003}
        ),
        "fr-en": MappingProxyType(
            {"train": 40_836_715, "validation": 3_000, "test": 3_003}
        ),
    }
)
_DOWNLOAD_ADVICE = (
    "Prepare it with --download (hours, and the disk space in data/wmt14/README.md), "
    "or name the folder that holds it with --data_dir."
)


class NotPreparedError(ValueError):
    """The corpus is not in the data directory."""


def prepared_counts(
    pair: str, data_dir: str | None, downloads: bool, manual_dir: str | None
) -> dict[str, int]:
    """Returns the number of pairs in every split of a prepared corpus.

    Args:
        pair: configuration of `wmt14_translate`, such as `de-en`.
        data_dir: where TFDS keeps its data; None is its default.
        downloads: whether to download and prepare the corpus if it is not there.
        manual_dir: folder with archives to use in place of their downloads.

    Raises:
        NotPreparedError: if the corpus is not there and may not be downloaded.
    """
    tfds: Any = importlib.import_module("tensorflow_datasets")
    builder = tfds.builder(f"wmt14_translate/{pair}", data_dir=data_dir)
    if downloads:
        config = tfds.download.DownloadConfig(manual_dir=manual_dir)
        builder.download_and_prepare(download_config=config)
    # Asked first: tfds.load would try the network for minutes before it failed.
    if not builder.info.splits:
        raise NotPreparedError(
            f"wmt14_translate/{pair} is not prepared in {builder.data_dir}. "
            + _DOWNLOAD_ADVICE
        )
    return {name: split.num_examples for name, split in builder.info.splits.items()}


def differences(expected: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """Returns one line for every split whose number of pairs is not the expected."""
    lines = []
    for split, count in expected.items():
        if split not in found:
            lines.append(f"{split}: missing, expected {count:,} pairs")
        elif found[split] != count:
            lines.append(f"{split}: {found[split]:,} pairs, expected {count:,}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit status."""
    parser = argparse.ArgumentParser(
        description="Checks the number of sentence pairs in a prepared WMT14.",
        epilog="example: python data/wmt14/check_counts.py --pair=de-en",
    )
    parser.add_argument(
        "--pair",
        choices=sorted(EXPECTED_PAIRS),
        default="de-en",
        help="language pair, named as in TFDS (default: %(default)s)",
    )
    parser.add_argument(
        "--data_dir",
        type=pathlib.Path,
        help="folder of prepared TFDS data (default: that of TFDS)",
    )
    parser.add_argument(
        "--download",
        action="store_true",
        help="download and prepare the corpus first if it is not there",
    )
    parser.add_argument(
        "--manual_dir",
        type=pathlib.Path,
        help="folder with archives you have already, used in place of downloads",
    )
    options = parser.parse_args(arguments)
    data_dir = str(options.data_dir) if options.data_dir else None
    manual_dir = str(options.manual_dir) if options.manual_dir else None
    try:
        found = prepared_counts(options.pair, data_dir, options.download, manual_dir)
    except NotPreparedError as error:
        print(error, file=sys.stderr)
        return 2
    problems = differences(EXPECTED_PAIRS[options.pair], found)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    counts = ", ".join(f"{split} {count:,}" for split, count in found.items())
    print(f"wmt14_translate/{options.pair} is complete: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
