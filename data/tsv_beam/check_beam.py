"""Runs the tsv_beam builder on Beam's local runner and compares what comes out.

    pip install -e ".[beam]"
    python data/tsv_beam/check_beam.py

Makes a few hundred pairs up, writes them as shards of TSV, has TFDS prepare them by
Apache Beam, and reads them back. Exits with status 0 if every pair came through
once, with 1 if not.
"""

import argparse
import collections
import importlib
import pathlib
import random
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

_SHARDS = 5
_PAIRS_PER_SHARD = 60


def write_shards(folder: pathlib.Path, seed: int) -> list[tuple[str, str, str]]:
    """Writes shards of made-up pairs; returns (split, source, target) of each."""
    generator = random.Random(seed)
    written = []
    for split in ("train", "validation"):
        for shard in range(_SHARDS):
            rows = [
                (
                    " ".join(generator.choices("abc äöü ß 中".split(), k=5)),
                    f"{split} {shard} {row}",
                )
                for row in range(_PAIRS_PER_SHARD)
            ]
            path = folder / f"{split}-{shard}.tsv"
            path.write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
            written += [(split, source, target) for source, target in rows]
    return written


def prepared_pairs(
    manual_dir: pathlib.Path, data_dir: pathlib.Path
) -> list[tuple[str, str, str]]:
    """Prepares the shards by Beam's local runner; returns what TFDS then reads."""
    tfds: Any = importlib.import_module("tensorflow_datasets")
    sys.path.append(str(pathlib.Path(__file__).parents[1]))
    module = importlib.import_module("tsv_beam.tsv_beam_dataset_builder")
    builder = module.TsvBeam(data_dir=str(data_dir))
    config = tfds.download.DownloadConfig(
        manual_dir=str(manual_dir), beam_runner="DirectRunner"
    )
    builder.download_and_prepare(download_config=config)
    return [
        (split, example["source"].decode(), example["target"].decode())
        for split in builder.info.splits
        for example in tfds.as_numpy(builder.as_dataset(split=split))
    ]


def main(arguments: Sequence[str]) -> int:
    """Runs the check; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args(arguments).seed
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tsv").mkdir()
        written = write_shards(folder / "tsv", seed)
        found = prepared_pairs(folder / "tsv", folder / "prepared")
    if collections.Counter(found) != collections.Counter(written):
        print(f"{len(written)} pairs went in, {len(found)} came out, not the same")
        return 1
    print(f"all {len(written)} pairs came through Apache Beam, each once")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
