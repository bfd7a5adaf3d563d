"""Ablations with given results."""

from collections.abc import Mapping, Sequence

from t2t_keras.reports.ablation.results import Ablation, RowSummary, RunResult


def build_ablation(
    figures: Mapping[str, Sequence[tuple[float, float]]],
    seeds: int = 3,
    corpus: str = "grammar_ende/1.0.0 en-de",
    **fields,
) -> Ablation:
    """Returns an ablation; `figures` has (perplexity, BLEU) of each seed by row."""
    runs = tuple(
        RunResult(
            row,
            seed,
            40,
            perplexity,
            bleu,
            "BLEU|tok:13a",
            bleu + 1,
            "multi-bleu",
            3e12,
            90.0,
            1,
        )
        for row, values in figures.items()
        for seed, (perplexity, bleu) in enumerate(values, start=1)
    )
    rows = tuple(
        RowSummary(name, f"{name}.flags", {} if not i else {"num_heads": i}, 411_904)
        for i, name in enumerate(figures)
    )
    values = {"vocabulary_size": 1000, "sentences": 50, "steps": 40, **fields}
    return Ablation(
        corpus=corpus,
        seeds=seeds,
        rows=rows,
        runs=runs,
        failures=values.pop("failures", ()),
        **values,
    )
