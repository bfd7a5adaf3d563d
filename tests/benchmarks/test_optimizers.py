"""Benchmark of optimizers: every variant is timed."""

import pytest

from benchmarks import optimizers


@pytest.mark.slow
def test_each_variant_has_a_row_and_adam_is_one(capsys) -> None:
    optimizers.main(
        ["--config=tiny", "--vocabulary=90", "--rows=3", "--length=8", "--rounds=2"]
    )
    _, _, *rows = capsys.readouterr().out.strip().splitlines()
    cells = [row.strip("|").split("|") for row in rows]
    assert [name.strip() for name, *_ in cells] == list(optimizers.VARIANTS)
    assert cells[0][2].strip() == "1.00 (1.00 to 1.00)"
    assert all(float(seconds) > 0 for _, seconds, _ in cells)
