"""Settings of an experiment, as frozen dataclasses.

Every field is also a flag of the same name. Its default, help text and unit are
defined only here. The defaults are the paper's base model and its training; `configs/`
has flagfiles for other runs.
"""

import dataclasses
import re
from typing import Any

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.lines import text_suffix
from t2t_keras.settings.training_text import (
    check_user_symbols,
    parse_filter_item,
    parse_mixture_item,
)

# Tokenizers of sacreBLEU that need no download.
TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")


def setting(
    default: Any,
    about: str,
    choices: tuple[str | int, ...] = (),
    *,
    low: float | None = None,
    high: float | None = None,
) -> Any:
    """Returns a dataclass field with a default, a help text and legal values.

    Args:
        default: Default value.
        about: Help text, with the unit.
        choices: Allowed values; empty for any.
        low: Minimum of a number.
        high: Maximum of a number.
    """
    metadata = {"about": about, "choices": choices, "low": low, "high": high}
    return dataclasses.field(default=default, metadata=metadata)


def _check_regular_expression(name: str, pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise UserError(
            f"--{name} must be a regular expression: {error}. Received: {pattern}"
        ) from error


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Data: training, dev and test sets, vocabulary and batches."""

    dataset: str | None = setting(
        None,
        "Corpus: a TFDS name (wmt14_translate/de-en) or a folder under data/ "
        "(grammar_ende). Default: the text files of --train_source.",
    )
    data_dir: str | None = setting(
        None,
        "Directory of prepared TFDS datasets. Default: that of TFDS, "
        "~/tensorflow_datasets.",
    )
    download: bool = setting(
        False, "Whether TFDS may download a dataset that is not prepared yet."
    )
    source_language: str = setting(
        "en", "Language to translate from, as a code such as en."
    )
    target_language: str = setting(
        "de", "Language to translate to, as a code such as de; tree for a parser."
    )
    train_source: tuple[str, ...] = setting(
        (),
        "Files of training text in the source language, comma-separated, plain, "
        ".gz, .xz or .bz2, one sentence a line; patterns are allowed. A .tsv file "
        "holds both languages, a .mrg file trees.",
    )
    train_target: tuple[str, ...] = setting(
        (),
        "Files of training text in the target language, line by line the "
        "translations of --train_source.",
    )
    mixture: tuple[str, ...] = setting(
        (),
        "Training text in addition to the main corpus, comma-separated, each "
        "with its rate: NAME:RATE (a dataset, a .tsv or .mrg file, a folder of "
        "records) or SOURCE:TARGET:RATE. At rate 2 an epoch has each pair "
        "twice, at 0.25 a different quarter of the pairs each time. With a third "
        "part, NAME:RATE:TAG, the tag precedes each source; see --user_symbols.",
    )
    filter: tuple[str, ...] = setting(
        (),
        "Filters of training pairs, comma-separated: length_ratio:2 (one side has more "
        "than twice as many words; length_ratio:2:characters counts characters), "
        "copied (source and target are equal), duplicates (the pair has occurred "
        "before), script (most letters of a side are not of its language's script), "
        "language (a side is in another language), markup (a side has HTML tags or "
        "entities), numbers (the sides have different numbers).",
    )
    rejected: str | None = setting(
        None,
        "File for the pairs that --filter rejects: line, filter, source and target, "
        "separated by tabs. Default: they are counted only.",
    )
    train_alignments: tuple[str, ...] = setting(
        (),
        "Files of word alignments in Pharaoh format, line by line those of "
        "--train_source, for --guided_alignment.",
    )
    dev_source: tuple[str, ...] = setting(
        (), "Files of the dev set in the source language."
    )
    dev_target: tuple[str, ...] = setting(
        (), "Files of the dev set in the target language."
    )
    test_source: tuple[str, ...] = setting(
        (), "Files of the test set in the source language."
    )
    test_target: tuple[str, ...] = setting(
        (), "Files of the test set in the target language."
    )
    records: str | None = setting(
        None,
        "Folder of records from t2t_keras.prepare, to train on instead of "
        "text, with their vocabulary, dev and test sets.",
    )
    vocabulary_file: str | None = setting(
        None,
        "SentencePiece model to use instead of learning one. Its ids must be pad 0, "
        "eos 1, unk 2.",
    )
    vocabulary_size: int = setting(
        37_000,
        "Number of subwords to learn, shared by both languages. Paper: 37,000 EN-DE.",
    )
    subwords: str = setting(
        "bpe",
        "Method of learning subwords: bpe (byte-pair encoding), or unigram, which "
        "is closest to the word pieces of the paper's EN-FR model.",
        choices=("bpe", "unigram"),
    )
    user_symbols: tuple[str, ...] = setting(
        (),
        "Symbols, comma-separated, that are always one subword, such as tags of "
        "languages or domains: <2de>,<2fr>. They count towards --vocabulary_size.",
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
    )
    max_length: int = setting(
        256,
        "Maximum length of a training sentence, in tokens; longer pairs are left out.",
        low=2,
    )
    batching: str = setting(
        "bucket",
        "Method of filling batches: bucket, one pair per row with other pairs of "
        "similar length, as in the paper; or pack, several pairs per row, with "
        "less padding and one shape to compile.",
        choices=("bucket", "pack"),
    )
    max_shapes: int = setting(
        24,
        "Maximum number of batch shapes with --batching=bucket. More shapes pad "
        "less, compile longer, and mix short and long sentences less.",
        low=1,
        high=1024,
    )
    tokens_per_batch: int = setting(
        25_000,
        "Maximum number of source tokens, and of target tokens, in one update on "
        "all devices together, including padding.",
        low=2,
    )

    def __post_init__(self):
        if self.tokens_per_batch < self.max_length:
            raise UserError(
                "--tokens_per_batch must be at least --max_length, or a long sentence "
                f"fits no batch. Received: {self.tokens_per_batch} and "
                f"{self.max_length}"
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


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Model: the hyperparameters of section 3 and Table 3."""

    num_layers: int = setting(
        6, "N, number of layers in the encoder and in the decoder.", low=1
    )
    d_model: int = setting(512, "Width of the model, an even number.", low=2)
    d_ff: int = setting(2048, "Inner width of the feed-forward networks.", low=1)
    num_heads: int = setting(8, "h, number of attention heads.", low=1)
    d_k: int | None = setting(
        None,
        "Size of the queries and keys of a head. Default: d_model / num_heads.",
        low=1,
    )
    d_v: int | None = setting(
        None,
        "Size of the values of a head. Default: d_model / num_heads.",
        low=1,
    )
    dropout_rate: float = setting(
        0.1, "P_drop, rate of dropout, from 0 to 0.99.", low=0, high=0.99
    )
    attention_dropout_rate: float = setting(
        0.0,
        "Rate of dropout of attention weights, from 0 to 0.99. The paper uses it "
        "for parsing.",
        low=0,
        high=0.99,
    )
    learned_positions: int | None = setting(
        None,
        "Number of position vectors to learn (Table 3, row E). Default: sinusoids.",
        low=1,
    )
    encoder_neighborhood: int | None = setting(
        None,
        "Window size of restricted encoder self-attention (section 4), in tokens, "
        "odd. Default: unrestricted.",
        low=1,
    )
    encoder_layers: int | None = setting(
        None, "Number of layers in the encoder. Default: --num_layers.", low=1
    )
    decoder_layers: int | None = setting(
        None,
        "Number of layers in the decoder. Default: --num_layers. Few of them "
        "translate faster.",
        low=1,
    )
    normalization: str = setting(
        "post",
        "Place of layer normalization: post, after the sum of each sub-layer and its "
        "residual, as in the paper; or pre, before each sub-layer and after each "
        "stack, which deep models need.",
        choices=("post", "pre"),
    )
    layer_norm_epsilon: float = setting(
        1e-6, "Number added to the variance in layer normalization.", low=1e-12, high=1
    )
    activation: str = setting(
        "relu",
        "Activation of the feed-forward networks: relu, as in the paper, swish, or "
        "gelu (exact, without tanh).",
        choices=("relu", "swish", "gelu"),
    )
    attention_bias: bool = setting(
        False,
        "Whether the projections of queries, keys, values and of attention's output "
        "have biases.",
    )
    output_bias: bool = setting(False, "Whether the logits have a bias.")
    tie_output: bool = setting(
        True,
        "Whether the output projection has the matrix of the embedding, as in the "
        "paper. Otherwise it has one of its own.",
    )
    share_embeddings: bool = setting(
        True,
        "Whether the encoder has the embedding of the decoder, as in the paper. "
        "Otherwise it has one of its own.",
    )
    source_eos: bool = setting(
        True,
        "Whether the encoder reads the end-of-sentence token of a source. Models of "
        "OpenNMT-tf do not.",
    )
    position_layout: str = setting(
        "interleaved",
        "Layout of sinusoids: interleaved, sines and cosines alternate, as in the "
        "paper; halves, all sines first; or halves_t2t, which has the wavelengths of "
        "Tensor2Tensor and Marian too.",
        choices=("interleaved", "halves", "halves_t2t"),
    )
    first_position: int = setting(
        0,
        "Number of a sentence's first position, in sinusoids and in learned positions.",
        low=0,
        high=1_000_000,
    )
    decoder_start: str = setting(
        "zero",
        "First input of the decoder: zero, the zero vector; or a piece of the "
        "vocabulary, such as </s>, for its embedding.",
    )

    def __post_init__(self):
        if self.d_model % 2:
            raise UserError(
                "--d_model must be even: sines and cosines come in pairs. "
                f"Received: {self.d_model}"
            )
        if (self.d_k is None or self.d_v is None) and self.d_model % self.num_heads:
            raise UserError(
                "--d_model must be a multiple of --num_heads unless --d_k and --d_v "
                f"are set. Received: {self.d_model} and {self.num_heads}"
            )
        if self.encoder_neighborhood and not self.encoder_neighborhood % 2:
            raise UserError(
                "--encoder_neighborhood must be odd, so that it can be centered. "
                f"Received: {self.encoder_neighborhood}"
            )
        if self.learned_positions is None:
            return
        if self.position_layout != "interleaved":
            raise UserError(
                "--position_layout is for sinusoids, and with --learned_positions "
                f"there are none. Remove one of them. Received: {self.position_layout} "
                f"and {self.learned_positions}"
            )
        if self.first_position >= self.learned_positions:
            raise UserError(
                "--first_position must be below --learned_positions, whose first "
                f"number is 0. Received: {self.first_position} and "
                f"{self.learned_positions}"
            )

    @property
    def max_positions(self) -> int | None:
        """Maximum number of tokens that have a position; None for no maximum."""
        if self.learned_positions is None:
            return None
        return self.learned_positions - self.first_position


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Training: updates, devices, evaluation, checkpoints and log."""

    train_steps: int = setting(
        100_000, "Total number of updates. Paper: 100,000.", low=1
    )
    warmup_steps: int = setting(
        4_000, "Number of updates until the learning rate reaches its peak.", low=1
    )
    learning_rate_scale: float = setting(
        1.0, "Factor on the paper's learning rate.", low=1e-9
    )
    train_epochs: float | None = setting(
        None,
        "Total number of passes over the training data, instead of --train_steps, "
        "which it overrides. Default: --train_steps.",
        low=1e-9,
    )
    schedule: str = setting(
        "paper",
        "Learning-rate schedule: paper (equation 3), or a linear warm-up to "
        "--learning_rate in --warmup_steps, and from there constant, linear (to 0 at "
        "the last update) or inverse_square_root.",
        choices=("paper", "constant", "linear", "inverse_square_root"),
    )
    learning_rate: float | None = setting(
        None,
        "Peak of the learning rate with every --schedule but paper, whose peak follows "
        "from --d_model and --warmup_steps.",
        low=1e-12,
    )
    clip_norm: float | None = setting(
        None,
        "Maximum norm of the gradient of an update; a larger gradient is scaled down "
        "to it. Default: no limit, as in the paper.",
        low=1e-9,
    )
    ema_decay: float | None = setting(
        None,
        "Decay of an exponential moving average of the weights, such as 0.999, with "
        "which the model is evaluated, saved as the best, averaged and exported. "
        "Default: no moving average.",
        low=0,
        high=0.999999,
    )
    label_smoothing: float = setting(
        0.1, "Epsilon of label smoothing, from 0 to 0.99.", low=0, high=0.99
    )
    guided_alignment: float = setting(
        0.0,
        "Weight of a loss that trains a head of the decoder's last layer but one, or "
        "of its only layer, to align words as --train_alignments does; 0 for none. "
        "Published: 0.05.",
        low=0,
    )
    seed: int = setting(
        1, "Seed of initial weights, data order and dropout.", low=0, high=2**32 - 1
    )
    init_from: str | None = setting(
        None,
        "Run or checkpoint whose weights training starts from (fine-tuning): a "
        "model directory, of which the averaged weights are used, or else the latest "
        "checkpoint; or the folder of a checkpoint. Its vocabulary is used unless "
        "--vocabulary_file or --records names another. Default: random weights.",
    )
    init_optimizer: bool = setting(
        False,
        "Whether the moments of Adam are loaded from --init_from, too. The schedule "
        "always starts from its first step.",
    )
    init_skip: str | None = setting(
        None,
        "Regular expression for the names of weights that are not loaded from "
        "--init_from, such as weights of another shape. Default: all are loaded.",
    )
    freeze: str | None = setting(
        None,
        "Regular expression for the names of weights that training does not change; "
        "--list_weights prints the names. Default: all are trained.",
    )
    jit_compile: bool = setting(
        True,
        "Whether XLA compiles forward pass and gradient. It never does for "
        "bfloat16 on CPUs.",
    )
    precision: str = setting(
        "float32",
        "Precision of the computation: float32, bfloat16, or float16 with a "
        "dynamic loss scale. Weights, softmax, loss, layer normalization and "
        "positional encoding stay float32.",
        choices=("float32", "bfloat16", "float16"),
    )
    tf32: bool = setting(
        True,
        "Whether float32 matrix products may use TensorFloat-32, on GPUs that have it.",
    )
    strategy: str | None = setting(
        None,
        "Devices to train on: one, mirrored (all of this machine), or "
        "multi_worker (as TF_CONFIG or Slurm describes). Default: all devices.",
        choices=("one", "mirrored", "multi_worker"),
    )
    cpu_devices: int = setting(
        1,
        "Number of devices to split the CPU into, to try out a run on several GPUs.",
        low=1,
    )
    max_tokens_per_replica: int | None = setting(
        None,
        "Maximum number of source tokens, and of target tokens, that a device "
        "computes at a time. A larger part of --tokens_per_batch is computed in "
        "several steps (gradient accumulation). Default: no limit.",
        low=2,
    )
    log_steps: int = setting(
        100,
        "Number of updates between two records of loss and speed, each with a log "
        "line. Shorter lines are logged every few seconds.",
        low=1,
    )
    eval_steps: int = setting(
        2_000, "Number of updates between two evaluations on the dev set.", low=1
    )
    dev_bleu_sentences: int = setting(
        500,
        "Number of dev sentences to translate greedily at each evaluation; 0 for none.",
        low=0,
    )
    tokenize: str | None = setting(
        None,
        "Tokenizer of sacreBLEU for the BLEU of the dev set and of the scores at the "
        "end. Default: that of the target language (zh for Chinese, ja-mecab for "
        "Japanese, ko-mecab for Korean, 13a for all others); a run that is resumed "
        "keeps its own.",
        choices=TOKENIZERS,
    )
    monitor: str = setting(
        "dev_loss",
        "Score of an evaluation that decides which checkpoint is the best: dev_loss, "
        "or dev_bleu (greedy; bracket F1 of a parser).",
        choices=("dev_loss", "dev_bleu"),
    )
    patience: int = setting(
        0,
        "Number of evaluations in a row without a better --monitor after which "
        "training stops early; 0 for never.",
        low=0,
    )
    keep_best: int = setting(
        1,
        "Number of checkpoints with the best --monitor to keep in best/, for "
        "average --best.",
        low=1,
    )
    save_steps: int = setting(
        0,
        "Number of updates between two checkpoints; 0 to use --save_minutes instead.",
        low=0,
    )
    save_minutes: float = setting(
        10.0,
        "Minutes between two checkpoints if --save_steps is 0. Paper: 10.",
        low=0,
    )
    keep_checkpoints: int = setting(
        20,
        "Number of newest checkpoints to keep; 0 for all. --keep_best are also kept.",
        low=0,
    )
    average_checkpoints: int = setting(
        5,
        "Number of newest checkpoints to average at the end. Paper: base 5, big 20.",
        low=1,
    )
    score_split: str = setting(
        "test",
        "Split to translate and score at the end: test, or dev, on which "
        "variations are compared (Table 3).",
        choices=("dev", "test"),
    )
    export_at_end: bool = setting(
        True, "Whether the averaged model is exported at the end."
    )
    on_nonfinite: str = setting(
        "stop",
        "What to do after a NaN or infinite loss or gradient: stop, and save the "
        "batch in the model directory; or skip, and continue. The update is always "
        "discarded.",
        choices=("stop", "skip"),
    )
    watchdog_minutes: float = setting(
        30.0,
        "Minutes without a step after which the stacks of all threads are "
        "written to a file; 0 for never.",
        low=0,
    )
    profile_steps: str | None = setting(
        None,
        "First and last update to record for TensorBoard's profiler, such as "
        "100:110. Default: none.",
    )
    measure_ceiling: bool = setting(
        False,
        "Whether to measure the speed of matrix products at the start, to report "
        "the fraction of it that training reaches. Takes a few seconds.",
    )

    def __post_init__(self):
        self.profiled_steps()
        for name in ("init_skip", "freeze"):
            _check_regular_expression(name, getattr(self, name))
        if self.init_from is None and (self.init_optimizer or self.init_skip):
            raise UserError(
                "--init_optimizer and --init_skip need --init_from, the run or "
                "checkpoint to load. Received no --init_from."
            )
        self._check_schedule()
        if self.monitor == "dev_bleu" and not self.dev_bleu_sentences:
            raise UserError(
                "--monitor=dev_bleu needs translations of the dev set. Received: "
                "--dev_bleu_sentences=0. Set it above 0, or use --monitor=dev_loss."
            )

    def _check_schedule(self):
        if self.schedule == "paper" and self.learning_rate is not None:
            raise UserError(
                "--learning_rate is for --schedule=constant, linear or "
                "inverse_square_root; --schedule=paper has --learning_rate_scale. "
                f"Received: --schedule=paper --learning_rate={self.learning_rate}"
            )
        if self.schedule != "paper" and self.learning_rate is None:
            raise UserError(
                f"--schedule={self.schedule} needs --learning_rate, the peak, such as "
                "1e-4. Received none."
            )
        if self.schedule != "paper" and self.learning_rate_scale != 1:
            raise UserError(
                "--learning_rate_scale is for --schedule=paper; other schedules have "
                f"--learning_rate. Received: --schedule={self.schedule} "
                f"--learning_rate_scale={self.learning_rate_scale}"
            )
        if (
            self.schedule == "linear"
            and self.train_epochs is None
            and self.warmup_steps >= self.train_steps
        ):
            raise UserError(
                "--warmup_steps must be less than --train_steps with --schedule=linear,"
                f" which falls after the warm-up. Received: {self.warmup_steps} and "
                f"{self.train_steps}"
            )

    def profiled_steps(self) -> range:
        """Returns the updates to profile; empty for none.

        Raises:
            UserError: If the setting is not two numbers from 1, in ascending order.
        """
        if self.profile_steps is None:
            return range(0)
        first, _, last = self.profile_steps.partition(":")
        numbers = first.isdecimal() and last.isdecimal()
        if not (numbers and 0 < int(first) <= int(last)):
            raise UserError(
                "--profile_steps must be the first and the last update to record, such "
                f"as 100:110. Received: {self.profile_steps}"
            )
        return range(int(first), int(last) + 1)


def _check_legal(field: dataclasses.Field, value: Any) -> None:
    """Raises `UserError` if a value is no number, too low, or not a choice."""
    low, choices = field.metadata["low"], field.metadata["choices"]
    if value is None:
        return
    if choices and value not in choices:
        raise UserError(
            f"{field.name} must be one of {', '.join(choices)}. Received: {value}."
            f"{did_you_mean(str(value), choices)}"
        )
    kind, name = (
        (int, "a whole number")
        if type(field.default) is int
        else (
            int | float,
            "a number",
        )
    )
    if low is not None and not isinstance(value, kind):
        raise UserError(f"{field.name} must be {name}. Received: {value!r}")
    if low is not None and not low <= value < float("inf"):
        raise UserError(f"{field.name} must be at least {low}. Received: {value}")
    high = field.metadata["high"]
    if high is not None and value > high:
        raise UserError(f"{field.name} must be at most {high}. Received: {value}")


def check_legal(settings: Any) -> None:
    """Raises `UserError` if a setting has a value that its flag cannot have.

    Args:
        settings: One of this module's dataclasses.
    """
    for field in dataclasses.fields(settings):
        _check_legal(field, getattr(settings, field.name))


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Decoding: settings of the beam search (section 6.1)."""

    beam_size: int = setting(
        4,
        "Beam size: hypotheses kept at each step of the search, at most 10,000; 1 is "
        "greedy.",
        low=1,
        high=10_000,
    )
    alpha: float = setting(0.6, "Strength of the length penalty, at least 0.", low=0)
    extra_length: int = setting(
        50,
        "Maximum number of tokens that a translation has beyond its source's, at most "
        "100,000.",
        low=0,
        high=100_000,
    )
    length_penalty: str = setting(
        "gnmt",
        "Divisor of the log probability of a translation of n tokens: gnmt, "
        "((5 + n) / 6)^alpha as in the paper; power, n^alpha; none, 1.",
        choices=("gnmt", "power", "none"),
    )
    suppress_unknown: bool = setting(
        False, "Whether the unknown token is forbidden in translations."
    )
    min_length: int = setting(
        0,
        "Minimum number of tokens of a translation, not counting the end of the "
        "sentence.",
        low=0,
    )
    no_repeat_ngram: int = setting(
        0,
        "n, to forbid translations in which the same n tokens in a row occur twice, at "
        "most 100; 0 to allow all.",
        low=0,
        high=100,
    )
    renormalize: bool = setting(
        False,
        "Whether the probabilities of the tokens that may follow add up to 1: the "
        "search ignores those of padding and of forbidden tokens.",
    )

    def override(self, **values: Any) -> "DecodingConfig":
        """Returns these settings with other values, by name; None keeps a value.

        Raises:
            UserError: If there is no such setting, or a value is not legal.
        """
        fields = {field.name: field for field in dataclasses.fields(self)}
        for name, value in values.items():
            if name not in fields:
                raise UserError(
                    f"There is no search setting {name!r}. Settings: "
                    f"{', '.join(fields)}.{did_you_mean(name, list(fields))}"
                )
            _check_legal(fields[name], value)
        given = {name: value for name, value in values.items() if value is not None}
        return dataclasses.replace(self, **given)

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings by name, the paper's three and all that are not default.

        This is how scores and exports record them. A setting added later does not
        change what is recorded without it.
        """
        always = "beam_size", "alpha", "extra_length"
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name in always or getattr(self, field.name) != field.default
        }

    def describe(self) -> str:
        """Returns beam size, alpha, and options that are not default, as text."""
        options = self.as_dict()
        beam_size, alpha = options.pop("beam_size"), options.pop("alpha")
        del options["extra_length"]
        parts = [f"{name} {value}" for name, value in options.items()]
        return ", ".join([f"beam {beam_size}, alpha {alpha:g}", *parts])


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """All settings of a training run."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    def __post_init__(self):
        if bool(self.data.train_alignments) != bool(self.training.guided_alignment):
            raise UserError(
                "--guided_alignment and --train_alignments belong together: the weight "
                "of a loss, and the word alignments of the training text. Give both, "
                "or for neither --guided_alignment=0 --train_alignments=. Received: "
                f"--guided_alignment={self.training.guided_alignment} "
                f"--train_alignments={','.join(self.data.train_alignments)}"
            )
        if self.training.tokenize and self.data.target_language == "tree":
            raise UserError(
                "--tokenize is for BLEU, and a parser is scored by its brackets. Leave "
                f"it out. Received: --tokenize={self.training.tokenize} "
                "--target_language=tree"
            )
        positions, first = self.model.max_positions, self.model.first_position
        if positions is not None and positions < self.data.max_length:
            needed = "--max_length plus --first_position" if first else "--max_length"
            raise UserError(
                f"--learned_positions must be at least {needed}, or long sentences "
                f"have no position. Received: {self.model.learned_positions} and "
                f"{self.data.max_length}{f' plus {first}' if first else ''}"
            )
        max_tokens = self.training.max_tokens_per_replica
        if max_tokens is not None and max_tokens < self.data.max_length:
            raise UserError(
                "--max_tokens_per_replica must be at least --max_length: a sentence "
                f"pair is not divided. Received: {max_tokens} and "
                f"{self.data.max_length}"
            )


# The paper's two models, and one that trains in six minutes on two cores.
BASE = ModelConfig()
BIG = ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout_rate=0.3)
TINY = ModelConfig(num_layers=2, d_model=128, d_ff=512, num_heads=4)

# Settings that may change when a run resumes: they decide when to evaluate and when to
# stop, not what an update computes.
CHANGEABLE_ON_RESUME = frozenset(
    {
        "dev_source",
        "dev_target",
        "test_source",
        "test_target",
        "records",
        "rejected",
        "train_steps",
        "train_epochs",
        "patience",
        "keep_best",
        "log_steps",
        "eval_steps",
        "dev_bleu_sentences",
        "tokenize",
        "save_steps",
        "save_minutes",
        "keep_checkpoints",
        "average_checkpoints",
        "score_split",
        "export_at_end",
        "on_nonfinite",
        "watchdog_minutes",
        "profile_steps",
        "measure_ceiling",
        "jit_compile",
        "strategy",
        "cpu_devices",
        "max_tokens_per_replica",
        "data_dir",
        "download",
        "beam_size",
        "alpha",
        "extra_length",
        "length_penalty",
        "suppress_unknown",
        "min_length",
        "no_repeat_ngram",
        "renormalize",
    }
)
