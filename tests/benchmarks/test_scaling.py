"""Benchmark of scaling: a small run."""

import pytest

from benchmarks import scaling
from benchmarks.scaling import Point


@pytest.mark.release
def test_it_measures(monkeypatch, capsys) -> None:
    small = tuple(Point(rows=2, length=3, layers=n, width=64) for n in (1, 2))
    monkeypatch.setattr(scaling, "AXES", (("layers", small, "the rest"),))
    scaling.main(["--rounds=1"])
    lines = capsys.readouterr().out.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines[2:4]]
    assert [row[:3] for row in cells] == [["layers", "1", "6"], ["layers", "2", "6"]]
    # 3 times the forward pass: 56 D^2 + 12 L D per pair of layers, and 2 D V.
    d, length = 64, 3
    for row, layers in zip(cells, (1, 2), strict=True):
        layer = 3 * (56 * d * d + 12 * length * d)
        flops = layers * layer + 6 * d * scaling.VOCABULARY
        assert float(row[3]) == pytest.approx(flops / 1e6, abs=0.05)
        assert float(row[4]) > 0
    assert lines[5].endswith("the rest.")
