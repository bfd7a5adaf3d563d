"""Records: a training corpus as token ids on disk, in memory-mapped shards.

FOLDER/
  making.json        specification: settings, corpus, vocabulary
  vocabulary.model   the SentencePiece model
  train-00000/ ...   shards, in the order of the text (shards.py)
  dev.source ...     dev and test set as text, where the corpus has them
  preparing/         what is needed until the records are finished (unfinished.py)
  manifest.json      written last: specification, counts and hashes

This is format 2. Format 1, of releases up to 0.9, cut shards by pairs that filters
keep; it is read.

Pair i of records is pair i of the same text tokenized in memory, so batches are
equal to the last bit. With 36 million pairs an open corpus takes 0.9 GB of memory:
24 bytes per pair for lengths and offsets.

Shapes: N pairs, n of a batch, S shards.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
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
    token_positions,
)
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary

FORMAT = 2
OLD_FORMAT = 1
"""Of releases up to 0.9."""
SPEC_FILE = "making.json"
MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocabulary.model"
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
    """

    spec: RecordSpec
    fingerprint: str
    text_pairs: int
    report: TokenizationReport
    filters: Mapping[str, int]
    shards: tuple[ShardMetadata, ...]
    texts: Mapping[str, str]

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

    shards = [open_shard(folder / shard.name, shard) for shard in manifest.shards]
    lengths_N2 = np.concatenate([shard.lengths for shard in shards], dtype=np.int32)
    first_pairs = np.cumsum([0, *(len(shard.lengths) for shard in shards)])
    source, target = (
        RecordSide(
            tuple(shard.tokens[side] for shard in shards),
            lengths_N2[:, side],
            first_pairs,
        )
        for side in (0, 1)
    )
    texts = (KeptText(open_lines),) if has_text else ()
    return TokenizedCorpus(source, target, manifest.report, texts)


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


class RecordSide:
    """Sentences of one language in shards on disk.

    Args:
        tokens: Ids of each shard's sentences, end to end.
        lengths: [N] lengths of the sentences of all shards.
        first_pairs: [S + 1] int64: shard s has sentences `first_pairs[s]` to
            `first_pairs[s + 1]`.
    """

    def __init__(
        self,
        tokens: Sequence[np.ndarray],
        lengths: np.ndarray,
        first_pairs: np.ndarray,
    ):
        self.lengths = lengths
        self._tokens = tokens
        self._first_pairs = first_pairs

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """[N] offset of each sentence in its shard."""
        largest = max(len(tokens) for tokens in self._tokens)
        starts = np.empty(
            len(self.lengths), np.uint32 if largest < 1 << 32 else np.int64
        )
        for begin, end in zip(
            self._first_pairs[:-1], self._first_pairs[1:], strict=True
        ):
            lengths = self.lengths[begin:end]
            starts[begin:end] = np.cumsum(lengths, dtype=np.int64) - lengths
        return starts

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `tokenized.Sentences.gather`. It makes one NumPy call for each shard."""
        lengths = self.lengths[indices].astype(np.int64)
        shard = np.searchsorted(self._first_pairs, indices, side="right") - 1
        by_shard = np.argsort(shard, kind="stable")
        shard_places = token_positions(
            self._starts[indices[by_shard]], lengths[by_shard]
        )
        before = np.cumsum(lengths) - lengths
        places = token_positions(before[by_shard], lengths[by_shard])
        tokens = np.empty(len(places), self._tokens[0].dtype)
        num_tokens = np.bincount(shard, lengths, len(self._tokens)).astype(np.int64)
        ends = np.cumsum(num_tokens)
        for number in np.flatnonzero(num_tokens).tolist():
            part = slice(ends[number] - num_tokens[number], ends[number])
            tokens[places[part]] = self._tokens[number][shard_places[part]]
        return tokens, lengths


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
