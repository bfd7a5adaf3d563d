"""Scores of translations by several metrics, with intervals and significance tests.

All statistics are sacreBLEU's own: bootstrap confidence intervals (Koehn, "Statistical
Significance Tests for Machine Translation Evaluation", 2004), the paired bootstrap of
the same paper, and paired approximate randomization (Riezler and Maxwell, "On Some
Pitfalls in Automatic Evaluation and Significance Testing for MT", 2005). The variable
SACREBLEU_SEED sets their seed.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.evaluation.bleu import check_sentence_pairs
from t2t_keras.evaluation.compound_bleu import MosesBleu, moses_languages
from t2t_keras.evaluation.scoring_settings import MOSES_METRICS, ScoringSettings
from t2t_keras.evaluation.tokenizers import (
    build_bleu,
    has_no_spaces,
)

_SIGNIFICANT = 0.05
# sacreBLEU's defaults.
_RESAMPLES, _TRIALS = 1_000, 10_000
# sacreBLEU holds all resamples in memory at once: up to 18 counts of float32 for each
# line of a resample, or a selection of two int64 for each line of a trial.
_BYTES_PER_RESAMPLED_LINE, _BYTES_PER_TRIED_LINE = 72, 16
_MAX_BYTES = 4_000_000_000


@dataclasses.dataclass(frozen=True)
class MetricScore:
    """Score of a system by one metric.

    Attributes:
        score: The score; 0 to 100, but TER, the lower the better, may exceed 100.
        signature: Everything that determines the score, in sacreBLEU's form.
        mean: Mean of the bootstrap resamples; None without an interval.
        confidence: Half the width of the 95 % confidence interval around `mean`.
        p_value: Probability of a difference from the first system at least this
            large if both were equally good; None for the first system, or without a
            test.
    """

    score: float
    signature: str
    mean: float | None = None
    confidence: float | None = None
    p_value: float | None = None

    def cells(self) -> tuple[str, str]:
        """Returns the score with its interval, and the p-value, for a table."""
        cell = f"{self.score:.2f}"
        if self.confidence is not None:
            cell += f" ± {self.confidence:.2f}"
        if self.p_value is None:
            return cell, ""
        star = " *" if self.p_value <= _SIGNIFICANT else ""
        return cell, f"p = {self.p_value:.4f}{star}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Scores of one system or several on the same sentences.

    Attributes:
        sentences: Number of sentences.
        references: Number of references of each.
        systems: For each system by name, its score for each metric by name.
        settings: What the systems were scored by.
    """

    sentences: int
    references: int
    systems: Mapping[str, Mapping[str, MetricScore]]
    settings: ScoringSettings = dataclasses.field(default_factory=ScoringSettings)

    def describe(self) -> str:
        """Returns a table of systems and metrics, and the signatures below it."""
        first = next(iter(self.systems.values()))
        rows = [["system", *map(_title, first)]]
        for name, scores in self.systems.items():
            cells = [score.cells() for score in scores.values()]
            rows.append([name, *(cell for cell, _ in cells)])
            if any(p_value for _, p_value in cells):
                rows.append(["", *(p_value for _, p_value in cells)])
        plural = "" if self.references == 1 else "s"
        return "\n".join(
            [
                f"{self.sentences:,} sentences, {self.references} reference{plural}",
                "",
                *_align(rows),
                "",
                *_align([[_title(name), first[name].signature] for name in first]),
                *self._notes(),
            ]
        )

    def _notes(self) -> list[str]:
        notes = []
        if self.settings.bootstrap:
            notes.append("±: 95 % confidence interval, by bootstrap")
        if self.settings.paired_test:
            notes.append(
                f"p: paired {self.settings.paired_test} test against "
                f"{next(iter(self.systems))}; * p ≤ {_SIGNIFICANT}"
            )
        return ["", *notes] if notes else []

    def as_dict(self) -> dict[str, Any]:
        """Returns all scores in JSON values; what was not computed is None."""
        return {
            "sentences": self.sentences,
            "references": self.references,
            "systems": [
                {
                    "name": name,
                    "scores": {
                        metric: dataclasses.asdict(score)
                        for metric, score in scores.items()
                    },
                }
                for name, scores in self.systems.items()
            ],
        }


def _title(metric: str) -> str:
    names = {
        "bleu": "BLEU",
        "chrf": "chrF2",
        "chrf++": "chrF2++",
        "ter": "TER",
        "tokenized_bleu": "tokenized BLEU",
        "t2t_bleu": "T2T BLEU",
    }
    return names[metric]


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines in which each column begins at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def score_translations(
    hypotheses: Sequence[str] | Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    extra_references: Sequence[Sequence[str]] = (),
    **options: Any,
) -> Comparison:
    """Returns the scores of translations, made by any system.

    Args:
        hypotheses: Translations in plain text, one a sentence; or those of several
            systems by name, of which the first is the baseline of tests.
        references: The reference of each translation, at the same index.
        extra_references: More references of all sentences, a sequence for each set.
        **options: Fields of `ScoringSettings`, such as `language` or `confidence`.

    Raises:
        UserError: If there is no sentence, or not one reference per translation, an
            option has a wrong value, or a test has no second system.
        ValueError: If translations or references are a single string.

    >>> result = score_translations(["Das ist ein Haus."], ["Das war ein Haus."])
    >>> round(result.systems["system"]["bleu"].score, 2)
    42.73
    """
    known = [field.name for field in dataclasses.fields(ScoringSettings)]
    if unknown := sorted(options.keys() - set(known)):
        hint = did_you_mean(unknown[0], known)
        raise UserError(f"There is no option {unknown[0]!r}.{hint}")
    settings = ScoringSettings(**options)
    if not isinstance(hypotheses, Mapping):
        hypotheses = {"system": hypotheses}
    if not hypotheses:
        raise UserError("There is no system to score. Received: hypotheses={}")
    if settings.paired_test and len(hypotheses) < 2:
        raise UserError(
            "--paired_test compares systems with the first one, so it needs two or "
            f"more. Received: {len(hypotheses)}"
        )
    for translations in hypotheses.values():
        for each in (references, *extra_references):
            check_sentence_pairs(translations, each)
    _check_memory(settings, len(references))
    metrics = _select_metrics(settings)
    if settings.ascii_quotes and not set(metrics) & set(MOSES_METRICS):
        raise UserError(
            "--ascii_quotes is for tokenized BLEU, which is not computed. Give "
            "--target_language, such as de, or leave it out."
        )
    all_references = [references, *extra_references]
    systems: dict[str, dict[str, MetricScore]] = {name: {} for name in hypotheses}
    for name in metrics:
        metric = _build_metric(name, settings, all_references)
        scores = _score_systems(metric, hypotheses, settings)
        for system, score in zip(systems, scores, strict=True):
            systems[system][name] = score
    return Comparison(len(references), len(all_references), systems, settings)


def _select_metrics(settings: ScoringSettings) -> tuple[str, ...]:
    """Returns the names of the metrics to compute, in the order of the table."""
    if settings.metrics:
        return tuple(dict.fromkeys(settings.metrics))
    if has_no_spaces(settings.language):
        return ("bleu", "chrf")
    has_rules = settings.language in moses_languages()
    return ("bleu", "chrf", "ter", *(MOSES_METRICS if has_rules else ()))


def _build_metric(
    name: str, settings: ScoringSettings, references: Sequence[Sequence[str]]
) -> Metric:
    """Returns a metric that has read the references."""
    lowercase = settings.lowercase
    if name == "bleu":
        return build_bleu(
            settings.tokenizer,
            lowercase=lowercase,
            # Keeps sacreBLEU from warning that input looks tokenized.
            force=settings.tokenizer == "none",
            references=references,
        )
    if name in ("chrf", "chrf++"):
        word_order = 2 if name == "chrf++" else 0
        return CHRF(word_order=word_order, lowercase=lowercase, references=references)
    if name == "ter":
        from sacrebleu.metrics.ter import TER

        return TER(references=references)
    if settings.language is None:
        raise UserError(
            f"The metric {name} needs Moses' rules for the target language. Give "
            "--target_language, such as de."
        )
    return MosesBleu(
        settings.language,
        # The paper splits compounds only for English-German.
        split_compounds=settings.language == "de",
        ascii_quotes=settings.ascii_quotes,
        replace_punctuation=name == "t2t_bleu",
        lowercase=lowercase,
        references=references,
    )


def _score_systems(
    metric: Metric,
    hypotheses: Mapping[str, Sequence[str]],
    settings: ScoringSettings,
) -> list[MetricScore]:
    if settings.paired_test:
        return _test_systems(metric, hypotheses, settings)
    resamples = (settings.resamples or _RESAMPLES) if settings.confidence else 1
    scores = []
    for translations in hypotheses.values():
        score = metric.corpus_score(translations, None, resamples)
        signature = f"{score.name}|{metric.get_signature()}"
        # sacreBLEU has no public name for its interval.
        interval = map(float, (score._mean, score._ci) if settings.confidence else ())
        scores.append(MetricScore(score.score, signature, *interval))
    return scores


def _test_systems(
    metric: Metric,
    hypotheses: Mapping[str, Sequence[str]],
    settings: ScoringSettings,
) -> list[MetricScore]:
    from sacrebleu.significance import PairedTest

    test = PairedTest(
        list(hypotheses.items()),
        {"metric": metric},
        None,
        test_type="bs" if settings.paired_test == "bootstrap" else "ar",
        n_samples=settings.resamples or 0,
        n_ar_confidence=_RESAMPLES if settings.confidence else -1,
    )
    signatures, scores = test()
    [(name, signature)] = signatures.items()
    results: Any = scores[name]
    first = results[0]
    return [
        MetricScore(
            result.score,
            f"{name}|{signature}",
            # Some are NumPy's float32, which JSON does not know.
            *(
                None if value is None else float(value)
                for value in (result.mean, result.ci, _p_value(result, first))
            ),
        )
        for result in results
    ]


def _p_value(result: Any, first: Any) -> float | None:
    """Returns sacreBLEU's p, but 1 where there is no difference.

    Any difference is at least as large as none; sacreBLEU counts larger ones only.
    """
    is_tested = result.p_value is not None
    return 1.0 if is_tested and result.score == first.score else result.p_value


def _check_memory(settings: ScoringSettings, lines: int) -> None:
    """Raises `UserError` if sacreBLEU would need too much memory."""
    needed = 0
    if settings.bootstrap:
        resamples = settings.resamples or _RESAMPLES
        needed = lines * resamples * _BYTES_PER_RESAMPLED_LINE
    if settings.paired_test == "randomization":
        trials = settings.resamples or _TRIALS
        needed = max(needed, lines * trials * _BYTES_PER_TRIED_LINE)
    if needed > _MAX_BYTES:
        raise UserError(
            f"Intervals and tests of {lines:,} sentences would need "
            f"{needed / 1e9:.0f} GB of memory. Give fewer --resamples, or a part of "
            "the sentences."
        )
