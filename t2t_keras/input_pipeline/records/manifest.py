"""Records: a training corpus as token ids on disk, in memory-mapped shards.

FOLDER/
  making.json        specification: settings, corpus, vocabulary
  vocabulary.model   the SentencePiece model
  train-00000/ ...   shards, in the order of the text (shards.py)
  dev.source ...     dev and test set as text, where the corpus has them
  preparing/         what is needed until the records are finished (unfinished.py)
  length_counts.npy  number of pairs of each source and target length (length_counts.py)
  manifest.json      written last: specification, counts and hashes

This is format 2. Format 1, of releases up to 0.9, cut shards by pairs that filters
keep; it is read.

Pair i of records is pair i of the same text tokenized in memory, so batches are
equal to the last bit. With 36 million pairs an open corpus takes 0.9 GB of memory:
24 bytes per pair for lengths and offsets.

Shapes: N pairs, n of a batch, S shards.
"""

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_file, file_sha256
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.input_pipeline.records.mapped import MappedPairs, MappedSide
from t2t_keras.input_pipeline.records.shards import (
    ShardMetadata,
    check_shard,
    open_shard,
    read_lines,
)
from t2t_keras.input_pipeline.records.tokenized import (
    KeptText,
    LinePairs,
    TokenizationReport,
    TokenizedCorpus,
)
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary

FORMAT = 2
OLD_FORMAT = 1
"""Of releases up to 0.9."""
SPEC_FILE = "making.json"
MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocabulary.model"
LENGTHS_FILE = "length_counts.npy"
SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class RecordSpec:
    """Specification of records; equal specifications give the same bytes.

    Attributes:
        settings: Settings of the program, by name.
        corpus: Name of the corpus.
        text_lines: Number of lines of its training text; in format 1, of pairs that
            filters keep.
        text_sha256: Hash of the files of the training text, or of its pairs where they
            are no lines of files; empty in format 1.
        vocabulary_size: Number of ids.
        vocabulary_sha256: Hash of the vocabulary's file.
        pairs_per_shard: Number of lines of text in every shard but the last.
        max_length: Longest side that is kept, end of sentence included.
        format: Version of the folder's layout.
    """

    settings: Mapping[str, Any]
    corpus: str
    text_lines: int
    text_sha256: str
    vocabulary_size: int
    vocabulary_sha256: str
    pairs_per_shard: int
    max_length: int
    format: int = FORMAT

    @property
    def num_shards(self) -> int:
        """Number of shards of complete records."""
        return -(-self.text_lines // self.pairs_per_shard)

    @property
    def digest(self) -> str:
        """SHA-256 of the specification, which each shard has."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def describe(self) -> str:
        """Returns the size of the text and the vocabulary."""
        return (
            f"{self.text_lines:,} lines in {self.num_shards:,} shards; "
            f"{self.vocabulary_size:,} subwords"
        )

    def lines_of(self, shard: int) -> range:
        """Returns the numbers of the lines of a shard."""
        first = shard * self.pairs_per_shard
        return range(first, min(first + self.pairs_per_shard, self.text_lines))

    def to_json(self) -> str:
        """Returns the specification as text, which `read_spec` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Contents of finished records.

    Attributes:
        spec: Specification; "making" in the file.
        fingerprint: Fingerprint of the training text, after filters.
        text_pairs: Number of pairs that it has then.
        report: Numbers of pairs kept and dropped.
        filters: Number of pairs that each filter rejected; empty in format 1.
        shards: Metadata of the shards, in order.
        texts: SHA-256 of the pairs of "dev" and "test", if the corpus has them.
        lengths_sha256: That of the counts of lengths; empty in format 1.
    """

    spec: RecordSpec
    fingerprint: str
    text_pairs: int
    report: TokenizationReport
    filters: Mapping[str, int]
    shards: tuple[ShardMetadata, ...]
    texts: Mapping[str, str]
    lengths_sha256: str

    def to_json(self) -> str:
        """Returns the manifest as text, which `read_manifest` reads."""
        fields = dataclasses.asdict(self)
        return json.dumps({"making": fields.pop("spec"), **fields}, indent=2) + "\n"


def read_spec(folder: Path) -> RecordSpec | None:
    """Returns the specification of the records in a folder; None if it has none.

    Raises:
        UserError: If its file is damaged, or of another format.
    """
    fields = _read_json(folder / SPEC_FILE)
    return None if fields is None else _parse_spec(fields, folder / SPEC_FILE)


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a folder of records.

    Raises:
        UserError: If there are no finished records, or their manifest is damaged.
    """
    file = folder / MANIFEST_FILE
    fields = _read_json(file)
    if fields is None:
        unfinished = (folder / SPEC_FILE).exists()
        raise UserError(
            f"The records in {folder} are not finished. Run t2t_keras.prepare again "
            "with the same flags: it resumes where it stopped."
            if unfinished
            else f"There are no records in {folder}: it has no {MANIFEST_FILE}. Make "
            f"them with python -m t2t_keras.prepare --output={folder}"
        )
    try:
        spec = _parse_spec(fields["making"], file)
        is_old = spec.format == OLD_FORMAT
        text = fields["making"] if is_old else fields
        return Manifest(
            spec,
            text["fingerprint"],
            text["text_pairs"],
            TokenizationReport(**fields["report"]),
            {} if is_old else fields["filters"],
            tuple(map(ShardMetadata.from_json, fields["shards"])),
            fields["texts"],
            "" if is_old else fields["lengths_sha256"],
        )
    except (TypeError, KeyError) as error:
        raise _damage_error(file, error) from error


def open_records(
    folder: Path, manifest: Manifest, *, needs_text: bool = False
) -> TokenizedCorpus:
    """Returns the training pairs, memory-mapped, and their text on demand if needed.

    Raises:
        UserError: If a shard is missing or has another size; it is named. Or if the
            text is needed and was not kept.
    """
    has_text = all(shard.has_text for shard in manifest.shards)
    if needs_text and not has_text:
        raise UserError(
            f"The records in {folder} have token ids only, and --subword_sampling "
            "segments the text again in each epoch. Make them with t2t_keras.prepare "
            "--keep_text in another --output, or train on the text."
        )

    def open_lines() -> Iterator[LinePairs]:
        for shard in manifest.shards:
            yield from read_lines(folder / shard.name, shard)

    pairs = MappedPairs(
        [shard.report.pairs_kept for shard in manifest.shards],
        lambda number: open_shard(
            folder / manifest.shards[number].name, manifest.shards[number]
        ),
    )
    for number in range(pairs.num_shards):
        pairs.shard(number)  # Damage is found now, not hours later.
    texts = (KeptText(open_lines),) if has_text else ()
    counts = None
    if manifest.lengths_sha256:
        counts = read_length_counts(folder, manifest.lengths_sha256)
    return TokenizedCorpus(
        MappedSide(pairs, 0),
        MappedSide(pairs, 1),
        manifest.report,
        texts,
        mapped=pairs,
        counts=counts,
    )


def write_length_counts(folder: Path, counts: LengthCounts) -> str:
    """Writes the counts of lengths of records, and returns the file's SHA-256."""
    file = folder / LENGTHS_FILE
    with atomic_file(file) as output:
        np.save(output, counts.to_array().astype("<i8"), allow_pickle=False)
    return file_sha256(file)


def read_length_counts(folder: Path, sha256: str) -> LengthCounts:
    """Returns the counts of lengths of records.

    Raises:
        UserError: If their file is missing or has another hash.
    """
    file = folder / LENGTHS_FILE
    try:
        content = file.read_bytes()
    except OSError as error:
        fault = error.strerror or str(error)
    else:
        if hashlib.sha256(content).hexdigest() == sha256:
            array = np.load(io.BytesIO(content), allow_pickle=False)
            return LengthCounts.from_array(array)
        fault = f"its SHA-256 is not {sha256[:12]}…"
    raise UserError(
        f"The records are damaged: {file}: {fault}. Put the original back, or remove "
        f"{MANIFEST_FILE} and run t2t_keras.prepare again with the same flags."
    )


def open_vocabulary(folder: Path, spec: RecordSpec) -> Vocabulary:
    """Returns the vocabulary of records.

    Raises:
        UserError: If its file is missing or has been changed.
    """
    vocabulary = load_vocabulary(folder / VOCABULARY_FILE)
    expected = spec.vocabulary_sha256
    if vocabulary.sha256 != expected:
        raise UserError(
            f"{folder / VOCABULARY_FILE} is not the vocabulary of these records: its "
            f"SHA-256 is {vocabulary.sha256[:12]}…, not {expected[:12]}…. Put the "
            "original file back."
        )
    return vocabulary


def text_files(folder: Path, split: str) -> tuple[str, str]:
    """Returns the paths of a split that records keep as text."""
    source, target = (str(folder / f"{split}.{side}") for side in SIDES)
    return source, target


def verify_records(
    folder: Path, check: Callable[[Path, ShardMetadata], None] = check_shard
) -> Manifest:
    """Reads all of the records, and returns their manifest if every hash is right.

    Args:
        folder: Folder of the records.
        check: Reads a shard and compares its hashes.

    Raises:
        UserError: If a file is missing, damaged or changed; it is named.
    """
    manifest = read_manifest(folder)
    open_vocabulary(folder, manifest.spec)
    if manifest.lengths_sha256:
        read_length_counts(folder, manifest.lengths_sha256)
    for shard in manifest.shards:
        check(folder / shard.name, shard)
    for split, expected in manifest.texts.items():
        source, target = text_files(folder, split)
        sha256 = open_parallel_text([source], [target]).sha256()
        if sha256 != expected:
            raise UserError(
                f"The records are damaged: {source} and {target} have changed. Run "
                "t2t_keras.prepare again with the same flags."
            )
    return manifest


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except UserError:  # of an object store
        raise
    except (OSError, ValueError) as error:
        raise _damage_error(file, error) from error


def _parse_spec(fields: Any, file: Path) -> RecordSpec:
    try:
        version = fields["format"]
        if version == OLD_FORMAT:
            fields = {**fields, "text_sha256": "", "text_lines": fields["text_pairs"]}
            del fields["text_pairs"], fields["fingerprint"]
        elif version != FORMAT:
            raise UserError(
                f"{file} is of format {version}, and this release reads {OLD_FORMAT} "
                f"and {FORMAT}. Make the records again with t2t_keras.prepare in "
                "another --output."
            )
        return RecordSpec(**fields)
    except (TypeError, KeyError) as error:
        raise _damage_error(file, error) from error


def _damage_error(file: Path, error: Exception) -> UserError:
    return UserError(
        f"{file} is damaged: {error}. Put the original back, or delete the folder and "
        "make the records again with t2t_keras.prepare."
    )
