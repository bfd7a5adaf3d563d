"""Settings of training (section 5): updates, devices, evaluation, checkpoints, log."""

import dataclasses
import re

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting

# Tokenizers of sacreBLEU that need no download.
TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")

OPTIMIZERS_WITH_MOMENTS = ("adam", "adamw")
"""Values of --optimizer whose moments another run can start from."""


def _check_regular_expression(name: str, pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise UserError(
            f"--{name} must be a regular expression: {error}. Received: {pattern}"
        ) from error


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Settings):
    """Training: updates, devices, evaluation, checkpoints and log."""

    train_steps: int = setting(
        100_000,
        "Total number of updates. Paper: 100,000.",
        low=1,
        resume=True,
        same_on_workers=True,
        paper=True,
    )
    warmup_steps: int = setting(
        4_000,
        "Number of updates until the learning rate reaches its peak.",
        low=1,
        paper=True,
    )
    learning_rate_scale: float = setting(
        1.0,
        "Factor on the paper's learning rate.",
        low=1e-9,
        paper=True,
    )
    train_epochs: float | None = setting(
        None,
        "Total number of passes over the training data, instead of --train_steps, "
        "which it overrides. Default: --train_steps.",
        low=1e-9,
        resume=True,
    )
    schedule: str = setting(
        "paper",
        "Learning-rate schedule: paper (equation 3), or a linear warm-up to "
        "--learning_rate in --warmup_steps, and from there constant, linear (to 0 at "
        "the last update) or inverse_square_root.",
        choices=("paper", "constant", "linear", "inverse_square_root"),
        paper=True,
    )
    learning_rate: float | None = setting(
        None,
        "Peak of the learning rate with every --schedule but paper, whose peak follows "
        "from --d_model and --warmup_steps.",
        low=1e-12,
    )
    optimizer: str = setting(
        "adam",
        "Optimizer: adam (the paper's), adamw (with --weight_decay), "
        "schedule_free_adamw (whose averaged weights are evaluated and exported; best "
        "with --schedule=constant), or muon (Adam for embeddings and vectors).",
        choices=("adam", "adamw", "schedule_free_adamw", "muon"),
        paper=True,
    )
    weight_decay: float = setting(
        0.0,
        "Decoupled weight decay of every --optimizer but adam: an update shrinks "
        "matrices and embeddings by this times the learning rate, such as 0.01.",
        low=0,
        paper=True,
    )
    clip_norm: float | None = setting(
        None,
        "Maximum norm of the gradient of an update; a larger gradient is scaled down "
        "to it. Default: no limit, as in the paper.",
        low=1e-9,
        paper=True,
    )
    ema_decay: float | None = setting(
        None,
        "Decay of an exponential moving average of the weights, such as 0.999, with "
        "which the model is evaluated, saved as the best, averaged and exported. "
        "Default: no moving average.",
        low=0,
        high=0.999999,
        paper=True,
    )
    label_smoothing: float = setting(
        0.1,
        "Epsilon of label smoothing, from 0 to 0.99.",
        low=0,
        high=0.99,
        paper=True,
    )
    guided_alignment: float = setting(
        0.0,
        "Weight of a loss that trains a head of the decoder's last layer but one, or "
        "of its only layer, to align words as --train_alignments does; 0 for none. "
        "Published: 0.05.",
        low=0,
        paper=True,
    )
    r_drop: float = setting(
        0.0,
        "Weight of the loss of R-Drop: each pair is computed with two dropout masks, "
        "and the two distributions of a token are drawn towards each other. More than "
        "doubles the time of an update; 0 for none. Published: 5 for translation.",
        low=0,
        paper=True,
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
        path=True,
        model_folder=True,
        paper=True,
    )
    init_optimizer: bool = setting(
        False,
        "Whether the moments of Adam or AdamW are loaded from --init_from, too. The "
        "schedule always starts from its first step.",
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
        paper=True,
    )
    jit_compile: bool = setting(
        True,
        "Whether XLA compiles forward pass and gradient. It never does for "
        "bfloat16 on CPUs.",
        resume=True,
        same_on_workers=True,
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
        resume=True,
    )
    cpu_devices: int = setting(
        1,
        "Number of devices to split the CPU into, to try out a run on several GPUs.",
        low=1,
        resume=True,
    )
    max_tokens_per_replica: int | None = setting(
        None,
        "Maximum number of source tokens, and of target tokens, that a device "
        "computes at a time. A larger part of --tokens_per_batch is computed in "
        "several steps (gradient accumulation). Default: no limit.",
        low=2,
        resume=True,
        same_on_workers=True,
    )
    log_steps: int = setting(
        100,
        "Number of updates between two records of loss and speed, each with a log "
        "line. Shorter lines are logged every few seconds.",
        low=1,
        resume=True,
    )
    eval_steps: int = setting(
        2_000,
        "Number of updates between two evaluations on the dev set.",
        low=1,
        resume=True,
        same_on_workers=True,
    )
    dev_bleu_sentences: int = setting(
        500,
        "Number of dev sentences to translate greedily at each evaluation; 0 for none.",
        low=0,
        resume=True,
    )
    tokenize: str | None = setting(
        None,
        "Tokenizer of sacreBLEU for the BLEU of the dev set and of the scores at the "
        "end. Default: that of the target language (zh for Chinese, ja-mecab for "
        "Japanese, ko-mecab for Korean, 13a for all others); a run that is resumed "
        "keeps its own.",
        choices=TOKENIZERS,
        resume=True,
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
        resume=True,
    )
    keep_best: int = setting(
        1,
        "Number of checkpoints with the best --monitor to keep in best/, for "
        "average --best.",
        low=1,
        resume=True,
    )
    save_steps: int = setting(
        0,
        "Number of updates between two checkpoints; 0 to use --save_minutes instead.",
        low=0,
        resume=True,
    )
    save_minutes: float = setting(
        10.0,
        "Minutes between two checkpoints if --save_steps is 0. Paper: 10.",
        low=0,
        resume=True,
    )
    keep_checkpoints: int = setting(
        20,
        "Number of newest checkpoints to keep; 0 for all. --keep_best are also kept.",
        low=0,
        resume=True,
    )
    average_checkpoints: int = setting(
        5,
        "Number of newest checkpoints to average at the end. Paper: base 5, big 20.",
        low=1,
        resume=True,
        paper=True,
    )
    score_split: str = setting(
        "test",
        "Split to translate and score at the end: test, or dev, on which "
        "variations are compared (Table 3).",
        choices=("dev", "test"),
        resume=True,
    )
    export_at_end: bool = setting(
        True,
        "Whether the averaged model is exported at the end.",
        resume=True,
    )
    on_nonfinite: str = setting(
        "stop",
        "What to do after a NaN or infinite loss or gradient: stop, and save the "
        "batch in the model directory; or skip, and continue. The update is always "
        "discarded.",
        choices=("stop", "skip"),
        resume=True,
        same_on_workers=True,
    )
    watchdog_minutes: float = setting(
        30.0,
        "Minutes without a step after which the stacks of all threads are "
        "written to a file; 0 for never.",
        low=0,
        resume=True,
    )
    profile_steps: str | None = setting(
        None,
        "First and last update to record for TensorBoard's profiler, such as "
        "100:110. Default: none.",
        resume=True,
    )
    measure_ceiling: bool = setting(
        False,
        "Whether to measure the speed of matrix products at the start, to report "
        "the fraction of it that training reaches. Takes a few seconds.",
        resume=True,
    )

    def check(self) -> None:
        self.profiled_steps()
        for name in ("init_skip", "freeze"):
            _check_regular_expression(name, getattr(self, name))
        if self.init_from is None and (self.init_optimizer or self.init_skip):
            raise UserError(
                "--init_optimizer and --init_skip need --init_from, the run or "
                "checkpoint to load. Received no --init_from."
            )
        self._check_schedule()
        self._check_optimizer()
        if self.monitor == "dev_bleu" and not self.dev_bleu_sentences:
            raise UserError(
                "--monitor=dev_bleu needs translations of the dev set. Received: "
                "--dev_bleu_sentences=0. Set it above 0, or use --monitor=dev_loss."
            )

    def _check_schedule(self):
        if self.schedule == "paper" and self.learning_rate is not None:
            raise UserError(
                "--learning_rate is for schedules other than paper, which has "
                "--learning_rate_scale. Received: --schedule=paper "
                f"--learning_rate={self.learning_rate}"
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
            self.falls_to_last_step
            and self.train_epochs is None
            and self.warmup_steps >= self.train_steps
        ):
            raise UserError(
                "--warmup_steps must be less than --train_steps with "
                f"--schedule={self.schedule}, which falls after the warm-up. Received: "
                f"{self.warmup_steps} and {self.train_steps}"
            )

    def _check_optimizer(self):
        if self.optimizer == "adam" and self.weight_decay:
            raise UserError(
                "--weight_decay is for other optimizers than adam, such as adamw. "
                f"Received: --optimizer=adam --weight_decay={self.weight_decay}"
            )
        if self.optimizer == "adamw" and not self.weight_decay:
            raise UserError(
                "--optimizer=adamw needs --weight_decay above 0, such as 0.01; without "
                "it, it is adam. Received none."
            )
        if self.optimizer == "schedule_free_adamw" and self.ema_decay is not None:
            raise UserError(
                "--optimizer=schedule_free_adamw averages the weights itself. Received "
                f"--ema_decay={self.ema_decay} as well. Leave one of them out."
            )
        if self.init_optimizer and self.optimizer not in OPTIMIZERS_WITH_MOMENTS:
            raise UserError(
                "--init_optimizer loads the moments of Adam, for --optimizer=adam and "
                f"adamw. Received: --optimizer={self.optimizer}"
            )

    @property
    def falls_to_last_step(self) -> bool:
        """Whether the learning rate of every update depends on the last one."""
        return self.schedule == "linear"

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
