"""The settings of an experiment, as frozen values.

Every field is also a flag of the same name: its default, its help and its unit are
written here and nowhere else. The defaults are the paper's base model and its
training; `configs/` holds a flagfile for each run worth naming.
"""

import dataclasses
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings.mixture import mixture_item


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
        default: Its value if nothing is said.
        about: What it is, with its unit.
        choices: All that it may be; empty for anything.
        low: Of a number, the least it may be.
        high: Of a number, the most it may be.
    """
    metadata = {"about": about, "choices": choices, "low": low, "high": high}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Data: what to train, tune and test on."""

    dataset: str | None = setting(
        None,
        "A TFDS name (wmt14_translate/de-en) or a folder under data/ (grammar_ende). "
        "Leave it out and give --train_source for text files of your own.",
    )
    data_dir: str | None = setting(
        None,
        "Where TFDS keeps prepared datasets; its own default, ~/tensorflow_datasets, "
        "if not given.",
    )
    download: bool = setting(
        False, "Whether TFDS may download a dataset that is not prepared yet."
    )
    source_language: str = setting("en", "Language to translate from, as a code (en).")
    target_language: str = setting(
        "de", "Language to translate to, as a code (de); tree for a parser."
    )
    train_source: tuple[str, ...] = setting(
        (),
        "Source side of the training text: files, plain or .gz, one sentence a line, "
        "comma-separated, patterns allowed. A .tsv holds both sides, a .mrg trees.",
    )
    train_target: tuple[str, ...] = setting((), "Target side, line by line the same.")
    mixture: tuple[str, ...] = setting(
        (),
        "More training text beside this main corpus, comma-separated, each with the "
        "rate at which it is seen: NAME:RATE (a dataset, a .tsv or .mrg file, a folder "
        "of records) or SOURCE:TARGET:RATE. At rate 2 an epoch has each pair twice, at "
        "0.25 another quarter of them each time.",
    )
    dev_source: tuple[str, ...] = setting((), "Source side of the dev set.")
    dev_target: tuple[str, ...] = setting((), "Target side of the dev set.")
    test_source: tuple[str, ...] = setting((), "Source side of the test set.")
    test_target: tuple[str, ...] = setting((), "Target side of the test set.")
    records: str | None = setting(
        None,
        "A folder that t2t_keras.prepare made: train on it instead of on text, with "
        "its vocabulary, dev and test set.",
    )
    vocabulary_file: str | None = setting(
        None,
        "A SentencePiece model to use instead of learning one (pad 0, eos 1, unk 2).",
    )
    vocabulary_size: int = setting(
        37_000, "Subwords to learn, shared by both languages. Paper: 37,000 EN-DE."
    )
    subwords: str = setting(
        "bpe",
        "How subwords are learned: byte-pair encoding, or unigram, the nearest to "
        "the word pieces of the paper's EN-FR model.",
        choices=("bpe", "unigram"),
    )
    max_length: int = setting(
        256,
        "Longest sentence to train on, in tokens; longer pairs are left out.",
        low=2,
    )
    batching: str = setting(
        "bucket",
        "How batches are filled: in buckets, a row for each pair with pairs of like "
        "length, as the paper did; or packed, several pairs in a row, with less "
        "padding and one shape to compile.",
        choices=("bucket", "pack"),
    )
    max_shapes: int = setting(
        24,
        "Most shapes of batches, where they are filled in buckets. More of them pad "
        "less, compile longer, and mix long and short sentences less.",
        low=1,
        high=1024,
    )
    tokens_per_batch: int = setting(
        25_000,
        "Most source tokens, and most target tokens, in one update of all devices "
        "together, padding counted.",
        low=2,
    )

    def __post_init__(self):
        if self.tokens_per_batch < self.max_length:
            raise UserError(
                "--tokens_per_batch must be at least --max_length, or a long sentence "
                f"fits no batch. Received: {self.tokens_per_batch} and "
                f"{self.max_length}"
            )
        sources = *self.train_source, *self.dev_source, *self.test_source
        parts = (mixture_item(item).names[0] for item in self.mixture)
        for name in (*sources, *parts):
            if self.target_language != "tree" and name.endswith((".mrg", ".mrg.gz")):
                raise UserError(
                    f"{name} holds trees, and trees are what a parser learns. Give "
                    "--target_language=tree beside it. "
                    f"Received: {self.target_language}"
                )


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Model: the hyperparameters of section 3 and Table 3."""

    num_layers: int = setting(6, "N, layers of the encoder and of the decoder.", low=1)
    d_model: int = setting(512, "Width of the model, even.", low=2)
    d_ff: int = setting(2048, "Inner width of the feed-forward networks.", low=1)
    num_heads: int = setting(8, "h, attention heads.", low=1)
    d_k: int | None = setting(
        None,
        "Size of queries and keys per head; d_model / num_heads if not given.",
        low=1,
    )
    d_v: int | None = setting(
        None,
        "Size of values per head; d_model / num_heads if not given.",
        low=1,
    )
    dropout_rate: float = setting(0.1, "P_drop, from 0 to 0.99.", low=0, high=0.99)
    attention_dropout_rate: float = setting(
        0.0,
        "Share of the attention weights to drop, from 0 to 0.99. Paper: for parsing.",
        low=0,
        high=0.99,
    )
    learned_positions: int | None = setting(
        None,
        "Learn this many position vectors (Table 3, row E); sinusoids if not set.",
        low=1,
    )
    encoder_neighborhood: int | None = setting(
        None,
        "r, odd: tokens that one token may attend to in the encoder (section 4); "
        "all of them if not set.",
        low=1,
    )

    def __post_init__(self):
        if self.d_model % 2:
            raise UserError(
                "--d_model must be even: sines and cosines come in pairs. "
                f"Received: {self.d_model}"
            )
        if (self.d_k is None or self.d_v is None) and self.d_model % self.num_heads:
            raise UserError(
                "--d_model must be a multiple of --num_heads where --d_k and --d_v "
                f"are not given. Received: {self.d_model} and {self.num_heads}"
            )
        if self.encoder_neighborhood and not self.encoder_neighborhood % 2:
            raise UserError(
                "--encoder_neighborhood must be odd, so that it can be centered. "
                f"Received: {self.encoder_neighborhood}"
            )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Training: how long, how fast, and what to keep."""

    train_steps: int = setting(
        100_000, "Updates to make, in all. Paper: 100,000.", low=1
    )
    warmup_steps: int = setting(4_000, "Updates until the learning rate's peak.", low=1)
    learning_rate_scale: float = setting(
        1.0, "Factor on the paper's learning rate; 1 is the paper.", low=1e-9
    )
    label_smoothing: float = setting(
        0.1, "Epsilon of label smoothing, from 0 to 0.99.", low=0, high=0.99
    )
    seed: int = setting(
        1, "Of initial weights, data order and dropout.", low=0, high=2**32 - 1
    )
    jit_compile: bool = setting(
        True,
        "Whether XLA compiles forward and gradient; never for bfloat16 on CPUs.",
    )
    precision: str = setting(
        "float32",
        "What is computed in: float32, bfloat16, or float16 with a dynamic loss "
        "scale. Weights, softmax, loss, normalization and positions stay float32.",
        choices=("float32", "bfloat16", "float16"),
    )
    tf32: bool = setting(
        True, "Whether float32 products may use TensorFloat-32, on GPUs that have it."
    )
    strategy: str | None = setting(
        None,
        "Where to train: one device, mirrored over this machine's, or multi_worker, "
        "as TF_CONFIG or Slurm says. What there is decides if not given.",
        choices=("one", "mirrored", "multi_worker"),
    )
    cpu_devices: int = setting(
        1, "Devices to split the CPU into, to rehearse a run on several GPUs.", low=1
    )
    max_tokens_per_replica: int | None = setting(
        None,
        "Most source tokens, and most target tokens, that a device computes at a "
        "time; a larger share of --tokens_per_batch is added up in several parts.",
        low=2,
    )
    log_steps: int = setting(
        100,
        "Updates between two records of loss and speed, each with its line; short "
        "lines come every few seconds besides.",
        low=1,
    )
    eval_steps: int = setting(
        2_000, "Updates between two evaluations on the dev set.", low=1
    )
    dev_bleu_sentences: int = setting(
        500,
        "Dev sentences to translate at each evaluation, greedily; 0 for none.",
        low=0,
    )
    save_steps: int = setting(
        0, "Updates between two checkpoints; 0 to go by --save_minutes.", low=0
    )
    save_minutes: float = setting(
        10.0,
        "Minutes between two checkpoints, where --save_steps is 0. Paper: 10.",
        low=0,
    )
    keep_checkpoints: int = setting(
        20,
        "Newest checkpoints to keep; 0 for all. The best one is kept besides.",
        low=0,
    )
    average_checkpoints: int = setting(
        5, "Last checkpoints to average at the end. Paper: base 5, big 20.", low=1
    )
    score_split: str = setting(
        "test",
        "Which split is translated and scored at the end: test, or dev, on which "
        "variations are compared (Table 3).",
        choices=("dev", "test"),
    )
    export_at_end: bool = setting(
        True, "Whether the averaged model is exported at the end."
    )
    on_nonfinite: str = setting(
        "stop",
        "What follows an update whose loss or gradient is not finite, and which is "
        "therefore not made: stop, with its batch kept in the model_dir, or skip it.",
        choices=("stop", "skip"),
    )
    watchdog_minutes: float = setting(
        30.0,
        "Minutes without a step after which all stacks are written down; 0 for never.",
        low=0,
    )
    profile_steps: str | None = setting(
        None,
        "First and last update to record for TensorBoard's profiler, as 100:110.",
    )
    measure_ceiling: bool = setting(
        False,
        "Whether to measure at the start how fast matrix products are here, to say "
        "what share of it training reaches. Takes some seconds.",
    )

    def __post_init__(self):
        self.profiled_steps()

    def profiled_steps(self) -> range:
        """Returns the updates to profile; empty for none.

        Raises:
            UserError: If they are not two numbers, the first above 0 and the second
                not below it.
        """
        if self.profile_steps is None:
            return range(0)
        first, _, last = self.profile_steps.partition(":")
        numbers = first.isdecimal() and last.isdecimal()
        if not (numbers and 0 < int(first) <= int(last)):
            raise UserError(
                "--profile_steps must be the first and the last update to record, as "
                f"100:110. Received: {self.profile_steps}"
            )
        return range(int(first), int(last) + 1)


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Decoding: how translations are searched for (section 6.1)."""

    beam_size: int = setting(4, "Hypotheses that live at a time; 1 is greedy.", low=1)
    alpha: float = setting(0.6, "Strength of the length penalty, at least 0.", low=0)
    extra_length: int = setting(
        50, "How many tokens longer than its source a translation may be.", low=0
    )

    def changed(
        self, beam_size: int | None = None, alpha: float | None = None
    ) -> "DecodingConfig":
        """Returns these settings with other values; None leaves a value as it is."""
        return DecodingConfig(
            self.beam_size if beam_size is None else beam_size,
            self.alpha if alpha is None else alpha,
            self.extra_length,
        )


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides what a training run computes."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    def __post_init__(self):
        positions = self.model.learned_positions
        if positions is not None and positions < self.data.max_length:
            raise UserError(
                "--learned_positions must be at least --max_length, or long sentences "
                f"have no position. Received: {positions} and {self.data.max_length}"
            )
        most = self.training.max_tokens_per_replica
        if most is not None and most < self.data.max_length:
            raise UserError(
                "--max_tokens_per_replica must be at least --max_length: a sentence "
                f"pair is not divided. Received: {most} and {self.data.max_length}"
            )


# The paper's two models, and one for two cores and six minutes.
BASE = ModelConfig()
BIG = ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout_rate=0.3)
TINY = ModelConfig(num_layers=2, d_model=128, d_ff=512, num_heads=4)

# What may differ when a run goes on: it decides when to look and when to stop, not
# what an update computes.
RESUMABLE = frozenset(
    {
        "dev_source",
        "dev_target",
        "test_source",
        "test_target",
        "records",
        "train_steps",
        "log_steps",
        "eval_steps",
        "dev_bleu_sentences",
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
    }
)
