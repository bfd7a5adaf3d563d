"""Benchmark of the start: every program and stage is measured."""

import pytest

from benchmarks import start


def _cells(printed: str) -> list[list[str]]:
    _, _, *rows = printed.strip().splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_programs_are_compared_with_the_imports(tmp_path, monkeypatch, capsys) -> None:
    times = [5.0, 8.5, 9.0, 11.0, 3.0, 4.5, 6.0, 8.0, 4.0, 6.0, 7.0, 15.0]
    seconds = iter(times)
    monkeypatch.setattr(start, "_measure", lambda *_: next(seconds))
    start.main([f"--model_dir={tmp_path}", "--rounds=3"])
    names, values, beyond = zip(
        *(cells[1:] for cells in _cells(capsys.readouterr().out)), strict=True
    )
    assert names == start.PROGRAMS
    assert values == ("4.00", "6.00", "7.00", "11.00")
    assert beyond == (
        "0.00 (0.00 to 0.00)",
        "2.00 (1.50 to 3.50)",
        "3.00 (3.00 to 4.00)",
        "6.00 (5.00 to 11.00)",
    )


@pytest.mark.slow
def test_memory_is_measured_after_each_stage(capsys) -> None:
    start.main(["--stages=tiny", "--vocabulary=90", "--rows=3", "--length=8"])
    rows = _cells(capsys.readouterr().out)
    assert [name for name, *_ in rows][1:3] == ["imports", "model and optimizer"]
    assert len(rows) == 6
    for _, _, memory, peak in rows:
        assert 0 < float(memory) <= float(peak)
