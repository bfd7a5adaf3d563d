"""Benchmark of packing against bucketing: training with both."""

import pytest

from benchmarks import batching
from t2t_keras.settings.model_config import ModelConfig


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
            "--xla=off",
            "--pairs=300",
            "--vocabulary_size=500",
            "--max_shapes=2",
            "--tokens_per_batch=512",
            "--steps=2",
            "--rounds=3",
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
