"""What translations are scored by, checked without sacreBLEU as far as possible."""

import dataclasses
import os

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting

# Metrics that need Moses' rules for a language.
MOSES_METRICS = ("tokenized_bleu", "t2t_bleu")
METRICS = ("bleu", "chrf", "chrf++", "ter", *MOSES_METRICS)
PAIRED_TESTS = ("bootstrap", "randomization")


@dataclasses.dataclass(frozen=True)
class ScoringSettings(Settings):
    """What translations are scored by.

    Attributes:
        language: Code of the target language, for the tokenizer of BLEU and for Moses;
            None leaves out the metrics that need one, as does a language that Moses has
            no rules for.

    Raises:
        UserError: If a name is unknown, or a number is too small.
    """

    language: str | None = None
    metrics: tuple[str, ...] = setting(
        (),
        "Metrics of --hypotheses, comma-separated: bleu, chrf, chrf++, ter, "
        "tokenized_bleu, t2t_bleu. Default: all but chrf++.",
        choices=METRICS,
        uses=("files",),
    )
    tokenize: str | None = setting(
        None,
        "Tokenizer of sacreBLEU. Default: that of the target language (zh for Chinese, "
        "ja-mecab for Japanese, ko-mecab for Korean, 13a for all others); a model has "
        "that of its training run.",
        uses=("models", "files"),
    )
    lowercase: bool = setting(
        False,
        "Whether BLEU and chrF of --hypotheses ignore case. TER always does.",
        uses=("files",),
    )
    ascii_quotes: bool = setting(
        False,
        "Whether curly and low quotes are replaced by straight ones for tokenized "
        "BLEU, as in the paper's reference of newstest2014.",
        uses=("models", "files"),
    )
    confidence: bool = setting(
        False,
        "Whether scores of --hypotheses have 95 % confidence intervals, by bootstrap.",
        uses=("files",),
    )
    paired_test: str | None = setting(
        None,
        "Significance test of each of --hypotheses against the first: bootstrap, which "
        "includes intervals, or randomization.",
        choices=PAIRED_TESTS,
        uses=("files",),
    )
    resamples: int | None = setting(
        None,
        "Number of bootstrap resamples, or of trials of the randomization test. "
        "Default: 1,000, or 10,000 trials.",
        low=2,
        uses=("files",),
    )

    def check(self) -> None:
        if self.tokenize is not None:
            from t2t_keras.evaluation.tokenizers import check_tokenizer

            check_tokenizer(self.tokenize)
        if self.resamples is not None and not (self.confidence or self.paired_test):
            raise UserError(
                "--resamples is for intervals and tests. Add --confidence or "
                "--paired_test, or leave it out."
            )
        if self.confidence or self.paired_test:
            _check_seed(os.environ.get("SACREBLEU_SEED", "none"))

    @property
    def tokenizer(self) -> str:
        """Name of sacreBLEU's tokenizer for `bleu`."""
        from t2t_keras.evaluation.tokenizers import tokenizer_for

        return self.tokenize or tokenizer_for(self.language)

    @property
    def bootstrap(self) -> bool:
        """Whether scores have confidence intervals."""
        return self.confidence or self.paired_test == "bootstrap"


def _check_seed(seed: str) -> None:
    # sacreBLEU's paired tests would take 0 for none.
    if seed.lower() != "none" and not (seed.isdecimal() and int(seed)):
        raise UserError(
            "The environment variable SACREBLEU_SEED must be a whole number above 0, "
            f"or none for a new seed each time. Received: {seed!r}"
        )
