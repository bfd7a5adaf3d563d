"""Corpus, filters, vocabulary and batches of a run, built from its settings."""

import contextlib
import dataclasses
import functools
import glob
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_output
from t2t_keras.files.remote import as_path
from t2t_keras.input_pipeline.batches.batching_strategy import (
    BatchingStrategy,
    BucketBatching,
)
from t2t_keras.input_pipeline.batches.mixture import (
    Mixture,
    MixtureBatching,
    mixture_lengths,
)
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import EvaluationBatches
from t2t_keras.input_pipeline.batches.plan import ALL_ROWS, WorkerShard
from t2t_keras.input_pipeline.batches.sampled import SampledBatching, SampledCorpus
from t2t_keras.input_pipeline.batches.windows import WindowBatching
from t2t_keras.input_pipeline.corpora.corpus import (
    Corpus,
    Files,
    TextChunk,
    open_corpus,
)
from t2t_keras.input_pipeline.corpora.filtered import PairFilters
from t2t_keras.input_pipeline.corpora.filters import (
    ChunkFilter,
    IsDuplicate,
    copied,
    exceeds_length_ratio,
    has_markup,
    is_in_another_language,
    is_in_another_script,
    other_numbers,
)
from t2t_keras.input_pipeline.corpora.parallel_text import (
    TreeReader,
    read_lines,
)
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.input_pipeline.records.manifest import read_manifest, text_files
from t2t_keras.input_pipeline.records.token_links import (
    PieceSpaces,
    TokenLinks,
    read_word_links,
    select_rows,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus, TokenizedSide
from t2t_keras.runs.data.mixing import MixturePart
from t2t_keras.runs.data.training_lines import (
    MOST_SAMPLED,
    open_training_lines,
    sampled_chunks,
    sampled_share,
)
from t2t_keras.runs.tasks import Task, task_for
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.training_text import parse_filter_item, parse_mixture_item
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# XLA compiles a program for each batch shape. A dev set has few batches, which more
# shapes would not fill better.
_MAX_EVALUATION_SHAPES = 3
SHUFFLE_PAIRS = 8_000_000
"""Pairs that are shuffled together, unless --shuffle_pairs says otherwise."""


def build_corpus(
    config: DataConfig,
    splits: Sequence[str] = ("train", "dev", "test"),
    task: Task | None = None,
) -> Corpus:
    """Returns the corpus that the settings name.

    --train_source overrides a dataset that a flagfile names. With records, the corpus
    holds only the dev and test sets.

    Args:
        config: The settings.
        splits: Names of the text files to open. A dataset opens its splits on demand.
        task: Reads treebanks. Default: the task of the target language.

    Raises:
        UserError: If there is no text, or one side of it is missing.
    """
    files = {
        split: (getattr(config, f"{split}_source"), getattr(config, f"{split}_target"))
        for split in ("train", "dev", "test")
    }
    for split, (source, target) in files.items():
        if target and not source:
            raise UserError(f"--{split}_target also needs --{split}_source.")
    read_trees = (task or task_for(config.target_language)).read_trees
    if config.records:
        return _open_record_texts(config, files, splits, read_trees)
    if config.dataset is None and not files["train"][0]:
        raise UserError(
            "There is nothing to train on. Give --dataset (a TFDS name or a folder "
            "under data/), or --train_source and --train_target."
        )
    opened = {name: files[name] for name in splits if files[name][0]}
    if files["train"][0] and not opened:
        return Corpus("text files", {})
    return open_corpus(
        None if files["train"][0] else config.dataset,
        files=opened or None,
        source_language=config.source_language,
        target_language=config.target_language,
        data_dir=config.data_dir,
        download=config.download,
        read_trees=read_trees,
        columns=config.columns,
    )


def _open_record_texts(
    config: DataConfig,
    files: Mapping[str, Files],
    splits: Sequence[str],
    read_trees: TreeReader | None,
) -> Corpus:
    """Returns the dev and test sets: files in the settings, or else the records'."""
    folder = as_path(config.records or "")
    manifest = read_manifest(folder)
    record_texts = {
        split: ([source], [target])
        for split in manifest.texts
        for source, target in [text_files(folder, split)]
    }
    own_texts = {split: pair for split, pair in files.items() if pair[0]}
    opened = {
        split: pair
        for split, pair in {**record_texts, **own_texts}.items()
        if split in splits and split != "train"
    }
    if not opened:
        return Corpus(manifest.spec.corpus, {})
    texts = open_corpus(
        files=opened,
        source_language=config.source_language,
        target_language=config.target_language,
        read_trees=read_trees,
        columns=config.columns,
    )
    return Corpus(manifest.spec.corpus, texts.splits)


def read_links(config: DataConfig, corpus: Corpus) -> TokenizedSide | None:
    """Returns the links of --train_alignments, before filters; None without it.

    Raises:
        UserError: If a file cannot be used, or its lines do not belong to the text.
    """
    if not config.train_alignments:
        return None
    name = f"{','.join(config.train_alignments)} (--train_alignments)"
    if len(config.train_alignments) > 1:
        name = f"{name.removesuffix(')')}, counted through all files)"
    lines = read_lines(config.train_alignments)
    logger.info(
        f"reading the word alignments of {corpus.splits['train'].num_pairs:,} pairs …"
    )
    return read_word_links(corpus.lines("train"), lines, name)


def with_links(
    train: TokenizedCorpus,
    links: TokenizedSide,
    corpus: Corpus,
    vocabulary: Vocabulary,
) -> TokenizedCorpus:
    """Returns the training pairs with their links.

    Args:
        train: The pairs of the corpus' text that are trained on.
        links: Links of all pairs, from `read_links`.
        corpus: The corpus, after filters.
        vocabulary: The vocabulary of the pairs.
    """
    for is_kept in (corpus.splits["train"].is_kept, train.is_kept):
        links = select_rows(links, is_kept)
    spaces = (
        PieceSpaces.from_vocabulary(vocabulary.source),
        PieceSpaces.from_vocabulary(vocabulary),
    )
    token_links = TokenLinks(links, train.source, train.target, spaces, len(train))
    return dataclasses.replace(train, links=token_links)


@contextlib.contextmanager
def open_filters(config: DataConfig, *, writes: bool = True) -> Iterator[PairFilters]:
    """Yields the filters of --filter, to apply to each corpus during a `with` block.

    Args:
        config: The settings.
        writes: Whether to write the file of --rejected, which appears at the end of
            the block. It is not written if there is only text of records, which was
            filtered when they were made.

    Raises:
        UserError: If a filter does not know a language, or --rejected is a file to
            read; and at the end of the block, if no pair of a corpus is left.
    """
    makers = filter_makers(config)
    parts = [parse_mixture_item(item) for item in config.mixture]
    has_text = not config.records or not all(part.is_records for part in parts)
    with contextlib.ExitStack() as stack:
        rejected = None
        if config.rejected and writes and has_text:
            check_rejected(config)
            rejected = stack.enter_context(open_output(config.rejected))
        filters = PairFilters(makers, rejected)
        yield filters
    filters.check_any_left()


def check_rejected(config: DataConfig) -> None:
    """Raises `UserError` if --rejected is a file that the settings read."""
    output = config.rejected
    if output is None or not Path(output).is_file():
        return
    parts = [parse_mixture_item(item) for item in config.mixture]
    read: dict[str, Sequence[str]] = {
        f"{split}_{side}": getattr(config, f"{split}_{side}")
        for split in ("train", "dev", "test")
        for side in ("source", "target")
    }
    read["train_alignments"] = config.train_alignments
    read["vocabulary_file"] = [config.vocabulary_file or ""]
    read["mixture"] = [name for part in parts for name in part.names]
    for name, patterns in read.items():
        found = (glob.glob(pattern, recursive=True) for pattern in patterns)
        for path in itertools.chain(patterns, *found):
            if Path(path).is_file() and Path(path).samefile(output):
                raise UserError(
                    f"--rejected must be a file of its own, and {output} is read "
                    f"(--{name}). Give another name."
                )


def filter_makers(config: DataConfig) -> dict[str, Callable[[], ChunkFilter]]:
    """Returns the function that makes each filter of --filter, by its item.

    Raises:
        UserError: If a filter does not know a language.
    """
    languages = config.source_language, config.target_language
    by_name: dict[str, Callable[[], ChunkFilter]] = {
        "copied": copied,
        "duplicates": IsDuplicate,
        "script": functools.partial(is_in_another_script, *languages),
        "language": functools.partial(is_in_another_language, *languages),
        "markup": functools.partial(has_markup, config.user_symbols),
        "numbers": other_numbers,
    }
    makers = {}
    for text in config.filter:
        item = parse_filter_item(text)
        if item.ratio is None:
            makers[text] = by_name[item.name]
        else:
            makers[text] = functools.partial(
                exceeds_length_ratio, item.ratio, item.unit
            )
        makers[text]()  # raises UserError before any work
    return makers


def chunks_in_proportion(
    chunks: Iterable[TextChunk], parts: Sequence[MixturePart], share: Fraction
) -> Iterator[TextChunk]:
    """Yields training text in the proportions of the mixture.

    First the main corpus once. Then pair i of a part with rate r, repeated
    floor(r (i + 1)) - floor(r i) times: each pair twice for r = 2, every fourth pair
    for r = 1/4.

    Args:
        chunks: Text of the main corpus.
        parts: The others.
        share: Share of the main corpus that this is, by which the rates are multiplied.
    """
    yield from chunks
    for part in parts:
        yield from _repeat_pairs(part.chunks(), part.item.rate * share)


def _repeat_pairs(chunks: Iterator[TextChunk], rate: Fraction) -> Iterator[TextChunk]:
    first = 0
    for source, target in chunks:
        numbers = range(first, first + len(source))
        times = [int(rate * (i + 1)) - int(rate * i) for i in numbers]
        first += len(source)
        repeated = [
            [line for line, n in zip(lines, times, strict=True) for _ in range(n)]
            for lines in (source, target)
        ]
        yield repeated[0], repeated[1]


def load_vocabulary_file(config: DataConfig) -> Vocabulary:
    """Returns the vocabulary of --vocabulary_file, which must have the user symbols.

    That of a multilingual model is for the languages of the settings.
    """
    vocabulary = load_vocabulary(config.require("vocabulary_file"))
    vocabulary = vocabulary.with_languages(
        config.source_language, config.target_language
    )
    for symbol in config.user_symbols:
        vocabulary.source.symbol_ids(symbol, "user_symbols")
    return vocabulary


def build_vocabulary(
    config: DataConfig, corpus: Corpus, parts: Sequence[MixturePart] = ()
) -> Vocabulary:
    """Returns the vocabulary: loaded from a file, or learned of the training text.

    It is the one that `prepare` learns.

    Args:
        config: The settings.
        corpus: The corpus, after filters.
        parts: Other parts of a mixture.
    """
    if config.vocabulary_file:
        return load_vocabulary_file(config)
    train = corpus.splits["train"]
    num_lines = (train.num_pairs or 0) + train.left_out.pairs_dropped
    if num_lines <= MOST_SAMPLED:
        return learn_vocabulary(config, corpus.chunks("train"), parts)
    with open_training_lines(config, corpus) as lines:
        chunks = sampled_chunks(lines, filter_makers(config))
        share = sampled_share(lines.reader.num_lines)
        return learn_vocabulary(config, chunks, parts, share)


def learn_vocabulary(
    config: DataConfig,
    chunks: Iterable[TextChunk],
    parts: Sequence[MixturePart] = (),
    share: Fraction = Fraction(1),
) -> Vocabulary:
    """Returns a vocabulary that is learned from text.

    Args:
        config: The settings.
        chunks: Text of the main corpus.
        parts: Other parts of a mixture, which are read in proportion to their rates.
        share: Share of the main corpus that `chunks` has.
    """
    logger.info(f"learning {config.vocabulary_size:,} subwords …")

    def lines():
        for source, target in chunks_in_proportion(chunks, parts, share):
            for pair in zip(source, target, strict=True):
                yield from pair

    proto = learn_subwords(
        lines(),
        vocabulary_size=config.vocabulary_size,
        model_type=cast(Any, config.subwords),
        user_symbols=config.user_symbols,
    )
    return SubwordVocabulary(proto)


def build_batching_strategy(
    config: DataConfig,
    corpus: TokenizedCorpus | SampledCorpus,
    mixture: Mixture | None = None,
    shuffle_pairs: int | None = SHUFFLE_PAIRS,
) -> BatchingStrategy:
    """Returns the strategy that groups the training pairs into batches.

    Args:
        config: The settings.
        corpus: The training pairs.
        mixture: Selects the pairs of an epoch; None for all of them.
        shuffle_pairs: Pairs of a shuffle window, without --shuffle_pairs; None for
            whole epochs.
    """
    # 0 for whole epochs.
    pairs = 0 if mixture else config.shuffle_pairs or shuffle_pairs or 0
    if isinstance(corpus, TokenizedCorpus) and 0 < pairs < len(corpus):
        counts = corpus.counts or LengthCounts.join(
            LengthCounts.from_lengths(corpus.read(begin, begin + pairs))
            for begin in range(0, len(corpus), pairs)
        )
        none = np.zeros([0, 2], np.int32)
        strategy = dataclasses.replace(_pack_or_bucket(config, counts), lengths=none)
        return WindowBatching(corpus, pairs, strategy)
    if isinstance(corpus, SampledCorpus):
        lengths = corpus.representative_lengths()
        return SampledBatching(corpus, _plain_batching(config, lengths, mixture))
    return _plain_batching(config, corpus.lengths, mixture)


def _plain_batching(
    config: DataConfig, lengths: np.ndarray, mixture: Mixture | None
) -> BucketBatching | PackedBatching | MixtureBatching:
    if mixture is not None:
        strategy = _pack_or_bucket(config, mixture_lengths(lengths, mixture))
        return MixtureBatching(lengths, mixture, strategy)
    return _pack_or_bucket(config, lengths)


def _pack_or_bucket(
    config: DataConfig, lengths: Any
) -> BucketBatching | PackedBatching:
    if config.batching == "pack":
        return PackedBatching.from_lengths(
            lengths, tokens_per_batch=config.tokens_per_batch
        )
    return BucketBatching.from_lengths(
        lengths,
        max_shapes=config.max_shapes,
        tokens_per_batch=config.tokens_per_batch,
    )


def build_evaluation(
    config: DataConfig, corpus: TokenizedCorpus, shard: WorkerShard = ALL_ROWS
) -> EvaluationBatches:
    """Returns evaluation batches, or the rows of one worker in each of them."""
    return EvaluationBatches(
        corpus,
        max_shapes=min(config.max_shapes, _MAX_EVALUATION_SHAPES),
        tokens_per_batch=config.tokens_per_batch,
        shard=shard,
    )
