"""Records: a training corpus as token ids on disk, opened without reading it.

FOLDER/
  making.json        what is being made: settings, corpus, vocabulary
  vocabulary.model   the SentencePiece model
  train-00000/ ...   shards, in the order of the text (shards.py)
  dev.source ...     dev and test set as text, where the corpus has them
  manifest.json      written last: all of this, hashed and counted

Pair i of records is pair i of the same text tokenized in memory, so batches are
equal to the last bit. At 36 million pairs an open corpus takes 0.9 GB of memory:
24 bytes a pair for lengths and places.

Shapes: N pairs, n of a batch, S shards.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records.shards import (
    ShardFacts,
    check_shard,
    open_shard,
)
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    TokenizedCorpus,
    token_positions,
)
from t2t_keras.text.vocabulary import SubwordVocabulary

FORMAT = 1
MAKING_FILE = "making.json"
MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocabulary.model"
SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class Making:
    """What records are made of; two equal ones give the same bytes.

    Attributes:
        settings: By name, as the program had them.
        corpus: What the corpus is called.
        fingerprint: Of its training text.
        text_pairs: Pairs of training text.
        vocabulary_size: Number of ids.
        vocabulary_sha256: Hash of the vocabulary's file.
        pairs_per_shard: Pairs of text in every shard but the last.
        max_length: Longest side that is kept, end of sentence included.
        format: Of the folder; another number is another layout.
    """

    settings: Mapping[str, Any]
    corpus: str
    fingerprint: str
    text_pairs: int
    vocabulary_size: int
    vocabulary_sha256: str
    pairs_per_shard: int
    max_length: int
    format: int = FORMAT

    @property
    def num_shards(self) -> int:
        """How many shards there will be."""
        return -(-self.text_pairs // self.pairs_per_shard)

    def to_json(self) -> str:
        """Returns it as text, which `read_making` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a finished folder holds.

    Attributes:
        making: What it was made of.
        report: What became of all pairs.
        shards: The shards, in order.
        texts: SHA-256 of the pairs of "dev" and "test", of those that there are.
    """

    making: Making
    report: TokenizationReport
    shards: tuple[ShardFacts, ...]
    texts: Mapping[str, str]

    def to_json(self) -> str:
        """Returns it as text, which `read_manifest` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


def read_making(folder: Path) -> Making | None:
    """Returns what is being made in a folder; None if nothing is.

    Raises:
        UserError: If its file is damaged, or of another format.
    """
    facts = _read_json(folder / MAKING_FILE)
    return None if facts is None else _making_of(facts, folder / MAKING_FILE)


def read_manifest(folder: Path) -> Manifest:
    """Returns what a folder of records holds.

    Raises:
        UserError: If there are no finished records, or their manifest is damaged.
    """
    file = folder / MANIFEST_FILE
    facts = _read_json(file)
    if facts is None:
        unfinished = (folder / MAKING_FILE).exists()
        raise UserError(
            f"The records in {folder} are not finished. Run t2t_keras.prepare again "
            "with the same flags: it goes on where it stopped."
            if unfinished
            else f"There are no records in {folder}: it has no {MANIFEST_FILE}. Make "
            f"them with python -m t2t_keras.prepare --output={folder}"
        )
    try:
        return Manifest(
            _making_of(facts["making"], file),
            TokenizationReport(**facts["report"]),
            tuple(map(ShardFacts.of_json, facts["shards"])),
            facts["texts"],
        )
    except (TypeError, KeyError) as error:
        raise _damaged_facts(file, error) from error


def open_records(folder: Path, manifest: Manifest) -> TokenizedCorpus:
    """Returns the training pairs, their tokens still on disk.

    Args:
        folder: Of the records.
        manifest: Its manifest.

    Raises:
        UserError: If a shard is missing or has another size; it is named.
    """
    shards = [open_shard(folder / facts.name, facts) for facts in manifest.shards]
    lengths_N2 = np.concatenate([shard.lengths for shard in shards])
    first_pairs = np.cumsum([0, *(len(shard.lengths) for shard in shards)])
    source, target = (
        RecordSide(
            tuple(shard.tokens[side] for shard in shards),
            lengths_N2[:, side],
            first_pairs,
        )
        for side in (0, 1)
    )
    return TokenizedCorpus(source, target, manifest.report)


def open_vocabulary(folder: Path, making: Making) -> SubwordVocabulary:
    """Returns the vocabulary of records.

    Raises:
        UserError: If it is missing or has been changed.
    """
    vocabulary = SubwordVocabulary.load(folder / VOCABULARY_FILE)
    expected = making.vocabulary_sha256
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


def verify_records(folder: Path) -> Manifest:
    """Reads records whole, and returns their manifest if every hash is right.

    Raises:
        UserError: If something is missing, damaged or changed; it is named.
    """
    manifest = read_manifest(folder)
    open_vocabulary(folder, manifest.making)
    for facts in manifest.shards:
        check_shard(folder / facts.name, facts)
    for split, expected in manifest.texts.items():
        source, target = text_files(folder, split)
        found = open_parallel_text([source], [target]).report.sha256
        if found != expected:
            raise UserError(
                f"The records are damaged: {source} and {target} have changed. Run "
                "t2t_keras.prepare again with the same flags."
            )
    return manifest


class RecordSide:
    """Sentences of one language in shards on disk.

    Args:
        tokens: Of each shard, its sentences end to end.
        lengths: [N] of the sentences of all shards.
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
        """[N] where each sentence begins in its own shard."""
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
        """See `tokenized.Sentences.gather`. One NumPy call a shard, none a pair."""
        lengths = self.lengths[indices].astype(np.int64)
        shard = np.searchsorted(self._first_pairs, indices, side="right") - 1
        by_shard = np.argsort(shard, kind="stable")
        there = token_positions(self._starts[indices[by_shard]], lengths[by_shard])
        before = np.cumsum(lengths) - lengths
        here = token_positions(before[by_shard], lengths[by_shard])
        tokens = np.empty(len(here), self._tokens[0].dtype)
        num_tokens = np.bincount(shard, lengths, len(self._tokens)).astype(np.int64)
        ends = np.cumsum(num_tokens)
        for number in np.flatnonzero(num_tokens).tolist():
            part = slice(ends[number] - num_tokens[number], ends[number])
            tokens[here[part]] = self._tokens[number][there[part]]
        return tokens, lengths


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged_facts(file, error) from error


def _making_of(facts: Any, file: Path) -> Making:
    try:
        found = facts["format"]
        if found != FORMAT:
            raise UserError(
                f"{file} is of format {found}, and this release reads {FORMAT}. Make "
                "the records again with t2t_keras.prepare in another --output."
            )
        return Making(**facts)
    except (TypeError, KeyError) as error:
        raise _damaged_facts(file, error) from error


def _damaged_facts(file: Path, error: Exception) -> UserError:
    return UserError(
        f"{file} is damaged: {error}. Put the original back, or delete the folder and "
        "make the records again with t2t_keras.prepare."
    )
