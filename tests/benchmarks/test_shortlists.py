"""Benchmark of shortlists: its table has a row for each size."""

import pytest

from benchmarks.decoding import measured, shortlists, write
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig

TINY = ModelConfig(num_layers=1, d_model=12, d_ff=20, num_heads=3)
WORDS = 23


@pytest.mark.slow
def test_searches_with_shortlists_do_the_same_work(monkeypatch, capsys):
    def build(_config, vocabulary_size):
        return write.build_model(ExperimentConfig(model=TINY), vocabulary_size)

    monkeypatch.setattr(measured, "VOCABULARY", WORDS)
    monkeypatch.setattr(shortlists, "build_model", build)
    monkeypatch.setattr(shortlists, "CANDIDATES", 5)
    arguments = ["shortlists", "--rounds=3", "--sentences=2", f"--sizes=7,{WORDS}"]
    monkeypatch.setattr("sys.argv", arguments)
    shortlists.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [name for name, *_ in rows] == [
        "whole vocabulary",
        "7 words",
        f"{WORDS} words",
    ]
    assert rows[0][2:] == ["1.000, 1.000, 1.000", "1.000"]
    for _, rate, ratios, median in rows[1:]:
        assert float(rate) > 0
        assert median == sorted(ratios.split(", "), key=float)[1]
