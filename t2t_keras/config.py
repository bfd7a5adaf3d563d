"""The settings of an experiment, as frozen values.

Every field is also a flag of the same name: its default, its help and its unit are
written here and nowhere else. The defaults are the paper's base model and its
training; `configs/` holds a flagfile for each run worth naming.
"""

import dataclasses
from typing import Any, get_args, get_type_hints


def setting(default: Any, about: str, choices: tuple[str, ...] = ()) -> Any:
    """Returns a dataclass field with a default, a help text and legal values."""
    metadata = {"about": about, "choices": choices}
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
    target_language: str = setting("de", "Language to translate to, as a code (de).")
    train_source: tuple[str, ...] = setting(
        (),
        "Source side of the training text: files, plain or .gz, one sentence a line, "
        "comma-separated, patterns allowed. A .tsv holds both sides.",
    )
    train_target: tuple[str, ...] = setting((), "Target side, line by line the same.")
    dev_source: tuple[str, ...] = setting((), "Source side of the dev set.")
    dev_target: tuple[str, ...] = setting((), "Target side of the dev set.")
    test_source: tuple[str, ...] = setting((), "Source side of the test set.")
    test_target: tuple[str, ...] = setting((), "Target side of the test set.")
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
        256, "Longest sentence to train on, in tokens; longer pairs are left out."
    )
    tokens_per_batch: int = setting(
        25_000,
        "Most source tokens, and most target tokens, in one update of all devices "
        "together, padding counted.",
    )


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Model: the hyperparameters of section 3 and Table 3."""

    num_layers: int = setting(6, "N, layers of the encoder and of the decoder.")
    d_model: int = setting(512, "Width of the model.")
    d_ff: int = setting(2048, "Inner width of the feed-forward networks.")
    num_heads: int = setting(8, "h, attention heads.")
    d_k: int | None = setting(
        None, "Size of queries and keys per head; d_model / num_heads if not given."
    )
    d_v: int | None = setting(
        None, "Size of values per head; d_model / num_heads if not given."
    )
    dropout_rate: float = setting(0.1, "P_drop, in [0, 1).")
    learned_positions: int | None = setting(
        None, "Learn this many position vectors (Table 3, row E); sinusoids if not set."
    )
    encoder_neighborhood: int | None = setting(
        None,
        "r, odd: tokens that one token may attend to in the encoder (section 4); "
        "all of them if not set.",
    )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Training: how long, how fast, and what to keep."""

    train_steps: int = setting(100_000, "Updates to make, in all. Paper: 100,000.")
    warmup_steps: int = setting(4_000, "Updates until the learning rate's peak.")
    learning_rate_scale: float = setting(
        1.0, "Factor on the paper's learning rate; 1 is the paper."
    )
    label_smoothing: float = setting(0.1, "Epsilon of label smoothing, in [0, 1).")
    seed: int = setting(1, "Of initial weights, data order and dropout.")
    jit_compile: bool = setting(True, "Whether XLA compiles forward and gradient.")
    mixed_precision: bool = setting(
        False, "Whether to compute in bfloat16; weights, loss and softmax stay float32."
    )
    log_steps: int = setting(100, "Updates between two lines of progress.")
    eval_steps: int = setting(2_000, "Updates between two evaluations on the dev set.")
    dev_bleu_sentences: int = setting(
        500, "Dev sentences to translate at each evaluation, greedily; 0 for none."
    )
    save_steps: int = setting(
        0, "Updates between two checkpoints; 0 to go by --save_minutes."
    )
    save_minutes: float = setting(
        10.0, "Minutes between two checkpoints, where --save_steps is 0. Paper: 10."
    )
    keep_checkpoints: int = setting(
        20, "Newest checkpoints to keep; 0 for all. The best one is kept besides."
    )
    average_checkpoints: int = setting(
        5, "Last checkpoints to average at the end. Paper: base 5, big 20."
    )


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Decoding: how translations are searched for (section 6.1)."""

    beam_size: int = setting(4, "Hypotheses that live at a time; 1 is greedy.")
    alpha: float = setting(0.6, "Strength of the length penalty, at least 0.")
    extra_length: int = setting(
        50, "How many tokens longer than its source a translation may be."
    )


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides what a training run computes."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()


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
        "train_steps",
        "log_steps",
        "eval_steps",
        "dev_bleu_sentences",
        "save_steps",
        "save_minutes",
        "keep_checkpoints",
        "average_checkpoints",
        "jit_compile",
        "data_dir",
        "download",
        "beam_size",
        "alpha",
        "extra_length",
    }
)


def sections() -> dict[str, type]:
    """Returns the section classes of an experiment by field name, in order."""
    hints = get_type_hints(ExperimentConfig)
    return {f.name: hints[f.name] for f in dataclasses.fields(ExperimentConfig)}


def value_type(section: type, name: str) -> type:
    """Returns a field's type without `None`: str, int, float, bool or tuple."""
    hint = get_type_hints(section)[name]
    for candidate in get_args(hint) or (hint,):
        if candidate in (str, int, float, bool):
            return tuple if Ellipsis in get_args(hint) else candidate
    raise TypeError(f"{section.__name__}.{name} has no type a flag can have: {hint}")


def flat(config: ExperimentConfig) -> dict[str, Any]:
    """Returns every setting by name; names are unique over all sections."""
    return {
        field.name: getattr(getattr(config, section), field.name)
        for section in sections()
        for field in dataclasses.fields(getattr(config, section))
    }


def unflat(values: dict[str, Any]) -> ExperimentConfig:
    """Returns the configuration that `flat` returned the values of."""
    parts = {}
    for section, cls in sections().items():
        names = [field.name for field in dataclasses.fields(cls)]
        parts[section] = cls(**{name: values[name] for name in names})
    return ExperimentConfig(**parts)


def differences(old: ExperimentConfig, new: ExperimentConfig) -> dict[str, Any]:
    """Returns (old, new) values of settings that decide what an update computes."""
    before, after = flat(old), flat(new)
    return {
        name: (before[name], after[name])
        for name in before
        if before[name] != after[name] and name not in RESUMABLE
    }
