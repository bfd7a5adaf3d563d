"""Benchmark of packing against bucketing: its arithmetic, and training with both."""

import pytest

from benchmarks import batching
from benchmarks.batching import TimedStep
from t2t_keras.settings.config import ModelConfig
from t2t_keras.typing import BatchShape, BatchSize

# 10 x (4 + 6) positions: 30 + 20 tokens; then 2 x (5 + 5): 6 + 9.
STEPS = (
    TimedStep(0.5, 20.0, BatchSize(BatchShape(10, 4, 6), 30, 20), 7e6),
    TimedStep(1.5, 9.0, BatchSize(BatchShape(2, 5, 5), 6, 9), 1e6),
)
OTHERS = (TimedStep(2.0, 58.0, BatchSize(BatchShape(10, 4, 6), 40, 58), 29e6),)


def test_a_pace_is_of_all_seconds() -> None:
    assert batching.tokens_per_second(STEPS) == 29 / 2.0


def test_real_tokens_are_those_of_both_sides() -> None:
    assert batching.real_token_fraction(STEPS) == 65 / 120


def test_flops_are_shared_by_real_target_tokens() -> None:
    assert batching.megaflops_per_token(STEPS) == pytest.approx(8 / 29)


def test_a_table_has_a_column_for_each_way() -> None:
    assert batching.table([STEPS], [OTHERS]).splitlines() == [
        "| real tokens of all positions | 54.2% | 98.0% |",
        "| MFLOP a real target token | 0.3 | 0.5 |",
        "| seconds a step, median | 1.000 | 2.000 |",
        "| real target tokens/s | 14 | 29 |",
    ]


def test_a_comparison_is_of_packed_to_buckets() -> None:
    text = batching.comparison([STEPS, STEPS[:1]], [OTHERS, OTHERS])
    # 116 / 4 s to 49 / 2.5 s; by rounds 29 to 14.5 and to 40.
    assert "train 1.480 times" in text
    assert "(rounds 0.725 to 2.000, median 1.363)" in text
    # 0.98 to 115 / 220; and 15 / 49 to 29 / 58 MFLOP.
    assert "real tokens would make it 1.875" in text
    assert "whole rows too, 0.612. A FLOP takes 0.414 times" in text


FIRST_STEPS = (
    # 8 + 5,400 / 100 = 2 + 5,400 / 90 = 62 s.
    ((8.0, 2.0, 100.0, 90.0), "packed rows are ahead for 5,400 target tokens, bu"),
    ((2.0, 8.0, 90.0, 100.0), "buckets are ahead for 5,400 target tokens, packed"),
    ((8.0, 2.0, 90.0, 100.0), "packed rows are ahead from the start"),
    ((2.0, 8.0, 100.0, 90.0), "buckets are ahead from the start"),
)


def test_first_steps_are_set_against_the_pace() -> None:
    for figures, expected in FIRST_STEPS:
        assert expected in batching.compare_with_first_steps(*figures), figures


@pytest.mark.release
def test_both_ways_train_on_the_product_s_batches(monkeypatch, capsys) -> None:
    small = ModelConfig(num_layers=1, d_model=8, d_ff=12, num_heads=2)
    monkeypatch.setattr(batching, "SMALL", small)
    ways = []
    original = batching.StrategyTrial

    def kept(*arguments):
        ways.append(original(*arguments))
        return ways[-1]

    monkeypatch.setattr(batching, "StrategyTrial", kept)
    batching.main(
        [
            *("--xla=off", "--pairs=300", "--vocabulary_size=500", "--max_shapes=2"),
            *("--tokens_per_batch=512", "--steps=2", "--rounds=3"),
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert "| shapes | 2 | 1 |" in lines
    assert sum("first step " in line for line in lines) == 3
    assert sum("several pairs per row" in line for line in lines) == 1
    for way in ways:
        assert [len(steps) for steps in way.rounds] == [2, 2, 2]
        for step in (step for steps in way.rounds for step in steps):
            # The loss counts the tokens of the pipeline, and no padding.
            assert 0 < step.target_tokens == step.size.target_tokens
            rows, _, target_bound = step.size.shape
            assert step.size.target_tokens <= rows * target_bound
