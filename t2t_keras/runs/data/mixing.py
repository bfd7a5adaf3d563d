"""Mixture of corpora that the settings name: opening and tokenizing its parts.

`input_pipeline/batches/mixture.py` determines the pairs of an epoch (ADR 0022).
"""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.remote import as_path
from t2t_keras.input_pipeline.batches.mixture import (
    Mixture,
    join_corpora,
    tag_sources,
)
from t2t_keras.input_pipeline.corpora.corpus import Corpus, TextChunk, open_corpus
from t2t_keras.input_pipeline.corpora.filtered import PairFilters
from t2t_keras.input_pipeline.corpora.parallel_text import TreeReader
from t2t_keras.input_pipeline.records.manifest import (
    RecordSpec,
    open_records,
    read_manifest,
)
from t2t_keras.input_pipeline.records.remote_records import local_shards
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus, tokenize_corpus
from t2t_keras.runs.tasks import Task, task_for
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.training_text import (
    MixtureItem,
    parse_mixture_item,
)
from t2t_keras.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TextPart:
    """A part that is text, from files or a dataset."""

    item: MixtureItem
    corpus: Corpus

    @property
    def fingerprint(self) -> str:
        """Fingerprint of its training text."""
        return self.corpus.splits["train"].fingerprint

    def has_fingerprint(self, stored: str) -> bool:
        """Returns whether a stored fingerprint is that of its text."""
        return self.corpus.splits["train"].has_fingerprint(stored)

    def chunks(self) -> Iterator[TextChunk]:
        """Yields its pairs as text, to learn a vocabulary from."""
        return self.corpus.chunks("train")

    def tokenize(
        self, vocabulary: Vocabulary, max_length: int, *, keep_text: bool
    ) -> TokenizedCorpus:
        """Returns its pairs as ids, at most `max_length` of a side."""
        return tokenize_corpus(
            self.corpus.pairs("train"),
            vocabulary,
            max_length,
            keep_text=keep_text,
            before=self.corpus.splits["train"].left_out,
        )


@dataclasses.dataclass(frozen=True)
class RecordsPart:
    """A part that is records, written by `prepare`.

    Attributes:
        item: Its name and rate.
        languages: Codes of source and target language of the run.
        filters: Items of --filter; empty for those of the records.
        cache: Folder for copies from an object store; None for the default.
    """

    item: MixtureItem
    languages: tuple[str, str]
    filters: Sequence[str]
    cache: str | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of its training text."""
        return read_manifest(as_path(self.item.name)).fingerprint

    def has_fingerprint(self, stored: str) -> bool:
        """Returns whether a stored fingerprint is that of its text."""
        return stored == self.fingerprint

    def chunks(self) -> Iterator[TextChunk]:
        """Raises `UserError`: records are tokenized already."""
        raise UserError(
            f"No vocabulary can be learned from the records in {self.item.name}, which "
            "are tokenized already. Use their vocabulary: --vocabulary_file="
            f"{self.item.name}/vocabulary.model"
        )

    def tokenize(
        self, vocabulary: Vocabulary, max_length: int, *, keep_text: bool
    ) -> TokenizedCorpus:
        """Returns its pairs as ids, which stay on disk.

        Raises:
            UserError: If the records have other settings or another vocabulary.
        """
        folder, spec = as_path(self.item.name), self._spec
        expected = {
            "source_language": self.languages[0],
            "target_language": self.languages[1],
            "max_length": max_length,
        }
        rows = [
            f"  --{name}: {spec.settings[name]} in the records, {value} now"
            for name, value in expected.items()
            if spec.settings[name] != value
        ]
        made_with = spec.settings.get("filter", [])
        if self.filters and sorted(made_with) != sorted(self.filters):
            rows.append(
                f"  --filter: {','.join(made_with)} in the records, "
                f"{','.join(self.filters)} now"
            )
        if spec.vocabulary_sha256 != vocabulary.sha256:
            rows.append(
                f"  vocabulary: SHA-256 {spec.vocabulary_sha256[:12]}… in the "
                f"records, {vocabulary.sha256[:12]}… now"
            )
        if rows:
            raise UserError(
                f"{folder} holds records of other settings than the mixture's:\n"
                + "\n".join(rows)
                + "\nPrepare all parts with the same settings and one "
                "--vocabulary_file."
            )
        manifest = read_manifest(folder)
        shards = local_shards(folder, manifest, self.cache)
        return open_records(shards, manifest, needs_text=keep_text)

    @property
    def _spec(self) -> RecordSpec:
        return read_manifest(as_path(self.item.name)).spec


MixturePart = TextPart | RecordsPart
"""A corpus that is trained on in addition to the main one."""


def open_parts(
    config: DataConfig,
    filters: PairFilters,
    task: Task | None = None,
) -> tuple[MixturePart, ...]:
    """Returns the parts of the settings' mixture; empty without a mixture.

    Args:
        config: The settings.
        filters: Filters of the text of each part.
        task: Reads treebanks. Default: the task of the target language.

    Raises:
        UserError: If a part cannot be read.
    """
    read_trees = (task or task_for(config.target_language)).read_trees
    items = map(parse_mixture_item, config.mixture)
    parts = (_open_part(item, config, read_trees) for item in items)
    return tuple(
        dataclasses.replace(
            part, corpus=filters.apply(part.corpus, f"{part.item.name}:")
        )
        if isinstance(part, TextPart)
        else part
        for part in parts
    )


def _open_part(
    item: MixtureItem,
    config: DataConfig,
    read_trees: TreeReader | None,
) -> MixturePart:
    if item.is_records:
        languages = config.source_language, config.target_language
        return RecordsPart(item, languages, config.filter, config.records_cache)
    source, target = item.names[:1], item.names[1:]
    corpus = open_corpus(
        None if item.is_text else item.name,
        files={"train": (source, target)} if item.is_text else None,
        source_language=config.source_language,
        target_language=config.target_language,
        data_dir=config.data_dir,
        download=config.download,
        read_trees=read_trees,
        columns=config.columns,
    )
    corpus.chunks("train")  # raises UserError without a train split
    for warning in corpus.splits["train"].warnings:
        logger.warning(f"{item.name}: {warning}")
    return TextPart(item, corpus)


def mix(
    train: TokenizedCorpus,
    parts: Sequence[MixturePart],
    vocabulary: Vocabulary,
    max_length: int,
    *,
    keep_text: bool,
) -> tuple[TokenizedCorpus, Mixture | None]:
    """Returns the joined corpora and their mixture.

    Without parts, returns the main corpus unchanged, and None.

    Args:
        train: The main corpus.
        parts: The others.
        vocabulary: Vocabulary of all of them.
        max_length: Maximum tokens of a side, including the tag.
        keep_text: Whether they keep their text, for subword sampling.

    Raises:
        UserError: If a part has no usable pair, its records have other settings, or
            the vocabulary splits its tag.
    """
    if not parts:
        return train, None
    corpora = [train]
    for part in parts:
        tag = part.item.tag
        tag_ids = vocabulary.source.symbol_ids(tag, "mixture") if tag else []
        corpus = part.tokenize(vocabulary, max_length, keep_text=keep_text)
        corpora.append(tag_sources(corpus, tag_ids, max_length) if tag else corpus)
    mixture = Mixture(tuple(map(len, corpora)), tuple(part.item.rate for part in parts))
    return join_corpora(corpora), mixture


def describe(parts: Sequence[MixturePart], mixture: Mixture) -> str:
    """Returns the number of pairs that an epoch has from each part, a line each."""
    counts = mixture.counts(0)
    lines = [f"an epoch has {counts[0]:,} pairs of the main corpus, and"]
    for part, size, count in zip(parts, mixture.sizes[1:], counts[1:], strict=True):
        lines.append(
            f"  {count:,} of {part.item.name}: {size:,} times {part.item.rate}"
        )
    return "\n".join(lines)


def run_card_entries(
    parts: Sequence[MixturePart], mixture: Mixture | None
) -> list[dict[str, Any]]:
    """Returns each part's entry of the run card."""
    if mixture is None:
        return []
    return [
        {
            "name": part.item.name,
            "rate": str(part.item.rate),
            "fingerprint": part.fingerprint,
            "pairs": size,
        }
        for part, size in zip(parts, mixture.sizes[1:], strict=True)
    ]
