"""TFDS builder of parallel text in shards of TSV, prepared by Apache Beam.

For corpora that one machine cannot prepare. Beam is imported when it is run and not
before: `pip install -e ".[beam]"`.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

_DESCRIPTION = """
Sentence pairs from shards of TSV, source and target with a tab between them.
"""
_SPLITS = ("train", "validation", "test")
_Example = tuple[str, dict[str, str]]


class TsvBeam(tfds.core.GeneratorBasedBuilder):
    """Pairs `source` and `target`, from `<split>*.tsv` in the manual folder."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 - read by TFDS
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put train*.tsv, and validation*.tsv and test*.tsv if you have them, into one "
        "folder, and name it with --manual_dir."
    )

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {"source": tfds.features.Text(), "target": tfds.features.Text()}
            ),
            supervised_keys=("source", "target"),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> Any:
        try:
            folder = pathlib.Path(dl_manager.manual_dir)
        except AssertionError as error:  # TFDS's way of saying that there is none
            raise FileNotFoundError(str(error)) from error
        paths = {split: sorted(folder.glob(f"{split}*.tsv")) for split in _SPLITS}
        if not paths["train"]:
            raise FileNotFoundError(f"There is no train*.tsv in {folder}.")
        return {
            split: self._generate_examples([str(path) for path in shards])
            for split, shards in paths.items()
            if shards
        }

    def _generate_examples(self, paths: list[str]) -> Any:
        beam = tfds.core.lazy_imports.apache_beam
        # A file is what one worker reads at a time: many small ones spread well.
        return beam.Create(paths) | beam.Reshuffle() | beam.FlatMap(examples_of)


def examples_of(path: str) -> Iterator[_Example]:
    """Yields the pairs of a file, each with a key of its own.

    Raises:
        ValueError: If a line has not exactly two columns.
    """
    with open(path, encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.removesuffix("\n").removesuffix("\r").split("\t")
            if len(columns) != 2:
                raise ValueError(
                    f"{path}, line {number}: a line must have 2 columns, source and "
                    f"target. Received: {len(columns)}"
                )
            source, target = columns
            key = f"{pathlib.Path(path).name}:{number:010d}"
            yield key, {"source": source, "target": target}
