"""Settings of data: training, dev and test sets, vocabulary and batches."""

import dataclasses

from t2t_keras.errors import UserError
from t2t_keras.files.lines import text_suffix
from t2t_keras.settings.batch_growth import BatchGrowth
from t2t_keras.settings.setting import Settings, setting
from t2t_keras.settings.training_text import (
    check_user_symbols,
    parse_filter_item,
    parse_mixture_item,
)


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """Data: training, dev and test sets, vocabulary and batches."""

    dataset: str | None = setting(
        None,
        "Corpus: a TFDS name (wmt14_translate/de-en) or a folder under data/ "
        "(grammar_ende). Default: the text files of --train_source.",
        record="text",
    )
    data_dir: str | None = setting(
        None,
        "Directory of prepared TFDS datasets. Default: that of TFDS, "
        "~/tensorflow_datasets.",
        path=True,
        resume=True,
    )
    download: bool = setting(
        False,
        "Whether TFDS may download a dataset that is not prepared yet.",
        resume=True,
    )
    source_language: str = setting(
        "en",
        "Language to translate from, as a code such as en.",
        record="tokens",
        shared=True,
    )
    target_language: str = setting(
        "de",
        "Language to translate to, as a code such as de; tree for a parser.",
        record="tokens",
        shared=True,
    )
    train_source: tuple[str, ...] = setting(
        (),
        "Files of training text in the source language, comma-separated, plain, "
        ".gz, .xz, .bz2 or .zst, one sentence a line; patterns are allowed. Files that "
        "hold both languages are given alone: .tsv, .jsonl, .parquet, .tmx, .zip of "
        "OPUS. A .mrg file holds trees.",
        path=True,
        record="text",
    )
    train_target: tuple[str, ...] = setting(
        (),
        "Files of training text in the target language, line by line the "
        "translations of --train_source.",
        path=True,
        record="text",
    )
    source_column: str | None = setting(
        None,
        "Column of the source text in .jsonl and .parquet files, with a dot before a "
        "column within another: translation.en. Default: translation.SOURCE_LANGUAGE, "
        "or else the code alone, or else source.",
    )
    target_column: str | None = setting(
        None,
        "Column of the target text in .jsonl and .parquet files. Default: "
        "translation.TARGET_LANGUAGE, or else the code alone, or else target.",
    )
    mixture: tuple[str, ...] = setting(
        (),
        "Training text in addition to the main corpus, comma-separated, each "
        "with its rate: NAME:RATE (a dataset, a file with both languages such as .tsv, "
        "a folder of records) or SOURCE:TARGET:RATE. At rate 2 an epoch has each pair "
        "twice, at 0.25 a different quarter of the pairs each time. With a third "
        "part, NAME:RATE:TAG, the tag precedes each source; see --user_symbols.",
        record="text",
    )
    filter: tuple[str, ...] = setting(
        (),
        "Filters of training pairs, comma-separated: length_ratio:2 (one side has more "
        "than twice as many words; length_ratio:2:characters counts characters), "
        "copied (source and target are equal), duplicates (the pair has occurred "
        "before), script (most letters of a side are not of its language's script), "
        "language (a side is in another language), markup (a side has HTML tags or "
        "entities), numbers (the sides have different numbers).",
        record="text",
    )
    rejected: str | None = setting(
        None,
        "File for the pairs that --filter rejects: line, filter, source and target, "
        "separated by tabs. Default: they are counted only.",
        path=True,
        resume=True,
    )
    train_alignments: tuple[str, ...] = setting(
        (),
        "Files of word alignments in Pharaoh format, line by line those of "
        "--train_source, for --guided_alignment.",
        path=True,
        batches_only=True,
    )
    dev_source: tuple[str, ...] = setting(
        (),
        "Files of the dev set in the source language.",
        path=True,
        resume=True,
    )
    dev_target: tuple[str, ...] = setting(
        (),
        "Files of the dev set in the target language.",
        path=True,
        resume=True,
    )
    test_source: tuple[str, ...] = setting(
        (),
        "Files of the test set in the source language.",
        path=True,
        resume=True,
    )
    test_target: tuple[str, ...] = setting(
        (),
        "Files of the test set in the target language.",
        path=True,
        resume=True,
    )
    records: str | None = setting(
        None,
        "Folder of records from t2t_keras.prepare, or its URL, to train on instead of "
        "text, with their vocabulary, dev and test sets.",
        path=True,
        batches_only=True,
        resume=True,
    )
    records_cache: str | None = setting(
        None,
        "Folder for copies of --records that are on an object store, which several "
        "runs may share. Default: t2t_keras/records in XDG_CACHE_HOME or ~/.cache.",
        path=True,
        batches_only=True,
        resume=True,
    )
    vocabulary_file: str | None = setting(
        None,
        "SentencePiece model to use instead of learning one. Its ids must be pad 0, "
        "eos 1, unk 2.",
        path=True,
        record="text",
    )
    vocabulary_size: int = setting(
        37_000,
        "Number of subwords to learn, shared by both languages. Paper: 37,000 EN-DE.",
        record="vocabulary",
    )
    subwords: str = setting(
        "bpe",
        "Method of learning subwords: bpe (byte-pair encoding), or unigram, which "
        "is closest to the word pieces of the paper's EN-FR model.",
        choices=("bpe", "unigram"),
        record="vocabulary",
    )
    user_symbols: tuple[str, ...] = setting(
        (),
        "Symbols, comma-separated, that are always one subword, such as tags of "
        "languages or domains: <2de>,<2fr>. They count towards --vocabulary_size.",
        record="vocabulary",
    )
    subword_sampling: float = setting(
        0.0,
        "Rate of subword regularization, from 0 for none to 0.99: training text is "
        "split into other subwords in each epoch. For bpe it is the probability that a "
        "merge is skipped (BPE-dropout; published: 0.1). For unigram it is 1 - alpha, "
        "where segmentations are drawn in proportion to their probability^alpha "
        "(published: alpha from 0.1 to 0.5). Records need prepare --keep_text.",
        low=0,
        high=0.99,
        batches_only=True,
        paper=True,
    )
    max_length: int = setting(
        256,
        "Maximum length of a training sentence, in tokens; longer pairs are left out.",
        low=2,
        record="tokens",
    )
    batching: str = setting(
        "bucket",
        "Method of filling batches: bucket, one pair per row with other pairs of "
        "similar length, as in the paper; or pack, several pairs per row, with "
        "less padding and one shape to compile.",
        choices=("bucket", "pack"),
        batches_only=True,
    )
    max_shapes: int = setting(
        24,
        "Maximum number of batch shapes with --batching=bucket. More shapes pad "
        "less, compile longer, and mix short and long sentences less.",
        low=1,
        high=1024,
        batches_only=True,
    )
    tokens_per_batch: int = setting(
        25_000,
        "Maximum number of source tokens, and of target tokens, in one update on "
        "all devices together, including padding.",
        low=2,
        batches_only=True,
        paper=True,
    )
    tokens_per_batch_steps: tuple[str, ...] = setting(
        (),
        "Growth of the batch, as UPDATES:TOKENS, comma-separated: after so many "
        "updates, an update has so many tokens, a multiple of --tokens_per_batch. The "
        "gradients of batches of that size are added. Default: no growth.",
        batches_only=True,
        paper=True,
    )

    shuffle_pairs: int | None = setting(
        None,
        "Number of pairs that are shuffled together. An epoch of a larger corpus is "
        "planned in windows of so many pairs, from 16 or more places of the corpus: "
        "memory and the time to start do not grow with it. A window of few batches "
        "pads more. Default: 8,000,000; all pairs with --mixture or "
        "--subword_sampling, and in runs of releases up to 0.9.",
        low=1,
        batches_only=True,
    )

    def batch_growth(self) -> BatchGrowth:
        """Returns the number of batches of each update.

        Raises:
            UserError: If --tokens_per_batch_steps is not legal.
        """
        return BatchGrowth.parse(self.tokens_per_batch_steps, self.tokens_per_batch)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of both sides in tables; empty for the default."""
        return tuple(filter(None, (self.source_column, self.target_column)))

    def check(self) -> None:
        self._check_batches()
        if len(self.columns) == 1:
            raise UserError(
                "--source_column and --target_column belong together: the columns of "
                "both sides. Give both, or neither for the default. Received: "
                f"{self.columns[0]} alone"
            )
        filters = [parse_filter_item(item).name for item in self.filter]
        if len(set(filters)) < len(filters):
            raise UserError(
                "--filter must name each filter once. "
                f"Received: {','.join(self.filter)}"
            )
        if self.rejected and not self.filter:
            raise UserError(
                "--rejected needs --filter, which rejects pairs. "
                f"Received: --rejected={self.rejected} alone"
            )
        if self.train_alignments and (self.records or not self.train_source):
            raise UserError(
                "--train_alignments is for text: the lines are those of --train_source "
                "and --train_target. Give these, without --records; or leave it out, "
                "with --guided_alignment=0 --train_alignments=. Received: "
                f"--train_alignments={','.join(self.train_alignments)}"
            )
        if self.train_alignments and self.target_language == "tree":
            raise UserError(
                "--train_alignments is for translation: a parser's output has no words "
                "to align. Leave it out. Received: --target_language=tree"
            )
        check_user_symbols(self.user_symbols)
        if self.subword_sampling and self.target_language == "tree":
            raise UserError(
                "--subword_sampling is for translation: a parser predicts symbols, "
                "which must not be split. Leave it out. Received: "
                f"--subword_sampling={self.subword_sampling} --target_language=tree"
            )
        sources = *self.train_source, *self.dev_source, *self.test_source
        parts = (parse_mixture_item(item).names[0] for item in self.mixture)
        for name in (*sources, *parts):
            if self.target_language != "tree" and text_suffix(name) == ".mrg":
                raise UserError(
                    f"{name} holds trees, which only a parser can learn from. Set "
                    f"--target_language=tree. Received: {self.target_language}"
                )

    def _check_batches(self) -> None:
        if self.shuffle_pairs and (self.mixture or self.subword_sampling):
            raise UserError(
                "--shuffle_pairs is not for --mixture and --subword_sampling, whose "
                "epochs are planned as a whole. Leave one out. Received: "
                f"--shuffle_pairs={self.shuffle_pairs}"
            )
        if self.tokens_per_batch < self.max_length:
            raise UserError(
                "--tokens_per_batch must be at least --max_length, or a long sentence "
                f"fits no batch. Received: {self.tokens_per_batch} and "
                f"{self.max_length}"
            )
        self.batch_growth()
