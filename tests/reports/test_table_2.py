"""Table 2 of the report: our results only where they are comparable."""

import dataclasses

from t2t_keras.reports.blocks import Missing, Table
from t2t_keras.reports.table_2 import comparison_blocks, table_2_blocks
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.model_config import BIG
from t2t_keras.settings.training_config import TrainingConfig
from tests.reports.runs import (
    build_score,
    papers_base,
    write_run,
    write_scored_run,
)

NOT_RUN = Missing()


def tables(runs) -> list[Table]:
    blocks = [*table_2_blocks(runs), *comparison_blocks(runs)]
    return [block for block in blocks if isinstance(block, Table)]


def test_without_a_run_everything_of_ours_is_named_missing() -> None:
    (table,) = tables([])
    ours = [row for row in table.rows if row.ours]
    assert [row.cells for row in ours] == [
        ("this project, base", *[NOT_RUN] * 4),
        ("this project, big", *[NOT_RUN] * 4),
    ]
    papers = {row.cells[0]: row.cells[1:] for row in table.rows if not row.ours}
    assert papers["ConvS2S"] == ("25.16", "40.46", "9.6·10¹⁸", "1.5·10²⁰")
    assert papers["ByteNet"] == ("23.75", *[Missing("—")] * 3)
    assert papers["Transformer (big)"][:3] == ("28.4", "41.8", "2.3·10¹⁹")


def ours(runs) -> dict[str, tuple]:
    return {row.cells[0]: row.cells[1:] for row in tables(runs)[0].rows if row.ours}


def test_a_base_run_on_wmt14_is_compared_with_the_papers(tmp_path) -> None:
    run = write_scored_run(tmp_path / "run", papers_base())
    _, costs = tables([run])
    _, scores, _ = tables([run, run])
    assert ours([run]) == {
        "this project, base": ("28.15", NOT_RUN, "2.5·10¹⁸", NOT_RUN),
        "this project, big": (NOT_RUN,) * 4,
    }
    assert scores.rows[0].cells[1:] == (
        "wmt14_translate/de-en (en-de)",
        "100,000",
        "5",
        "beam 4, alpha 0.6",
        "28.15",
        "27.64",
        "51.50",
    )
    # 12 hours on eight devices, like the paper's base model on P100: 3.3e18.
    assert costs.rows[0].cells[1:] == (
        "12.00",
        "8",
        "2.5·10¹⁸",
        "5.8·10¹³",
        Missing("not measured"),
        "9.7·10¹⁷",
        "1.3·10¹⁸",
        "2.1·10¹⁸",
        "3.3·10¹⁸",
    )


def test_a_big_run_to_french_has_its_own_column(tmp_path) -> None:
    corpus = {"dataset": "wmt14_translate/fr-en", "target_language": "fr"}
    config = ExperimentConfig(
        DataConfig(**corpus, vocabulary_size=32_000),
        dataclasses.replace(BIG, dropout_rate=0.1),
        TrainingConfig(train_steps=300_000, average_checkpoints=20),
    )
    run = write_scored_run(tmp_path / "r", config)
    assert ours([run])["this project, big"] == (NOT_RUN, "28.15", NOT_RUN, "2.5·10¹⁸")


def test_other_runs_have_what_is_known_of_them(tmp_path) -> None:
    """Of a parser that is its cost alone."""
    files = DataConfig(test_source=("/my/news.en",), test_target=("/my/news.de",))
    trees = DataConfig(dataset="grammar_ende", target_language="tree")
    search = {"beam_size": 1, "alpha": 0.6, "extra_length": 50}
    scores = {"test averaged/step-40": build_score(decoding=search)}
    cost = {"hours": 1.0, "devices": 2, "flops": 1e15, "flops_per_second": 2.8e11}
    cost["paper_estimate_flops"] = 4.2e15
    runs = [
        write_run(tmp_path / "files", data=files, scores=scores, training_cost=cost),
        write_run(tmp_path / "begun", training_cost={}, scores={}, averaged={}),
        write_run(tmp_path / "trees", data=trees),
    ]
    _, scored, costs = (table.rows for table in tables(runs))
    assert scored[0].cells[1] == "news.en, news.de (en-de)"
    assert scored[0].cells[4] == "beam 1, alpha 0.6"
    assert scored[1].cells[2:] == (NOT_RUN,) * 6
    assert costs[0].cells[5] == "4.2·10¹⁵"
    assert costs[1].cells[1:] == (NOT_RUN,) * 9
    assert (len(scored), len(costs)) == (2, 3)


def test_a_variation_of_base_is_not_base(tmp_path) -> None:
    """Row D1 of Table 3, a run with another mixture, and an unfinished run: none is
    in the paper's table, and none hides the run that is."""
    base = papers_base()
    model = dataclasses.replace(base.model, dropout_rate=0.0)
    data = dataclasses.replace(base.data, mixture=("more.tsv:1/2",))
    others = [
        write_scored_run(tmp_path / "d1", dataclasses.replace(base, model=model)),
        write_scored_run(tmp_path / "mixed", dataclasses.replace(base, data=data)),
        write_scored_run(tmp_path / "new", base, scores={}, training_cost={}),
    ]
    assert set(ours(others).values()) == {(NOT_RUN,) * 4}
    score = {**others[0].card["scores"]["test averaged/step-100000"]}
    score["tokenized_bleu"] = 27.31
    scored = {"test averaged/step-100000": score}
    real = write_scored_run(tmp_path / "base", base, scores=scored)
    assert ours([*others, real])["this project, base"][0] == "27.31"
    assert len(tables([*others, real])[1].rows) == 4
