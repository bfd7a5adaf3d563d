"""Short training runs whose values are compared, one for each mode of training."""

import dataclasses

STEPS = 30
USED_STEPS = 400
KILLED = "killed and resumed"

# Flags of all cases: small enough for two cores, with a line of metrics per update.
SHORT = (
    "--vocabulary_size=800",
    "--max_length=100",
    "--tokens_per_batch=1024",
    "--max_shapes=3",
    "--num_layers=2",
    "--d_model=64",
    "--d_ff=128",
    "--num_heads=4",
    f"--train_steps={STEPS}",
    "--warmup_steps=10",
    "--log_steps=1",
    "--eval_steps=15",
    "--dev_bleu_sentences=10",
    "--save_steps=10",
    "--keep_checkpoints=3",
    "--average_checkpoints=2",
    "--extra_length=10",
    "--noexport_at_end",
)


@dataclasses.dataclass(frozen=True)
class Case:
    """Run of `train`.

    Attributes:
        name: Feature that it covers.
        flags: Flags in addition to `SHORT`; "{text}" is the folder of the text.
        trees: Whether it trains a parser.
        workers: Number of processes that train together.
        used: Whether other programs use its model afterwards.
    """

    name: str
    flags: tuple[str, ...] = ()
    trees: bool = False
    workers: int = 1
    used: bool = False


CASES = (
    Case(
        "tiny",
        # Long enough for translations that are not empty.
        (
            f"--train_steps={USED_STEPS}",
            "--warmup_steps=100",
            "--log_steps=10",
            "--eval_steps=100",
            "--save_steps=100",
            "--export_at_end",
        ),
        used=True,
    ),
    Case(
        "base with 2 layers",
        (
            "--d_model=512",
            "--d_ff=2048",
            "--num_heads=8",
            "--d_k=64",
            "--d_v=64",
            "--max_shapes=1",
        ),
    ),
    Case("packed", ("--batching=pack",)),
    Case("mixture", ("--mixture={text}/other.en:{text}/other.de:0.5",)),
    Case(
        "parsing",
        (
            "--source_language=en",
            "--target_language=tree",
            "--attention_dropout_rate=0.1",
            "--nojit_compile",
        ),
        trees=True,
    ),
    Case("two devices", ("--strategy=mirrored", "--cpu_devices=2")),
    Case("two workers", ("--nojit_compile",), workers=2),
    Case("bfloat16", ("--precision=bfloat16",)),
    Case("float16, unigram", ("--precision=float16", "--subwords=unigram")),
    Case(KILLED, ("--nojit_compile", "--max_tokens_per_replica=600")),
)
