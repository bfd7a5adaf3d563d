"""Minimum Bayes risk: the hypothesis that is most like all others."""

from sacrebleu.metrics.chrf import CHRF

from t2t_keras.translation.translator import Translation


def rerank_by_chrf(hypotheses: tuple[Translation, ...]) -> tuple[Translation, ...]:
    """Returns the distinct translations of a line, highest expected chrF first.

    The expected chrF of a translation is the mean of its sentence chrF against all
    hypotheses, itself included, each with the same weight. Of several hypotheses with
    the same text, all count, and the first is returned. Equals keep their order.

    Source: Eikema and Aziz 2022, with chrF (Popović 2015) of sacreBLEU as the utility.
    """
    counts: dict[str, int] = {}
    for each in hypotheses:
        counts[each.text] = counts.get(each.text, 0) + 1
    metric = CHRF()

    def expected_chrf(text: str) -> float:
        return sum(
            # sacreBLEU gives 0 for two empty texts.
            count
            * (100.0 if other == text else metric.sentence_score(text, [other]).score)
            for other, count in counts.items()
        )

    first = {each.text: each for each in reversed(hypotheses)}
    return tuple(
        first[text] for text in sorted(counts, key=expected_chrf, reverse=True)
    )
