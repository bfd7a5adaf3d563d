import numpy as np
import pytest

from benchmarks import input_pipeline


@pytest.mark.slow
def test_it_measures_text_and_records(capsys):
    input_pipeline.main(
        [
            "--pairs=300",
            "--batches=3",
            "--tokens_per_batch=512",
            "--vocabulary_size=500",
            "--workers=1",
        ]
    )
    rows = capsys.readouterr().out.splitlines()
    assert rows[:2] == ["| measured | figure |", "| --- | --- |"]
    names = [row.split(" | ")[0] for row in rows[2:]]
    assert names[0] == "| prepare 300 pairs, learning the vocabulary"
    for number, source in enumerate(("text", "records")):
        assert names[1 + 3 * number : 4 + 3 * number] == [
            f"| {source}: until it is open",
            f"| {source}: first batch",
            f"| {source}: 3 batches of 512 tokens a side",
        ]


def test_it_measures_the_plan_of_an_epoch(capsys):
    input_pipeline.main(["--plan_pairs=2000"])
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row.startswith("| plan of an epoch of 2,000 pairs | ")


def test_it_measures_records_of_any_size(capsys):
    input_pipeline.main(["--mapped_pairs=900", "--pairs_per_shard=400", "--batches=2"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(": ")[1].split(" | ")[0] for row in rows] == [
        "until they are open",
        "first batch",
        "2 batches of 25,000 tokens a side",
        "memory",
    ]


def test_lengths_are_like_wmt14s():
    lengths = input_pipeline.sample_lengths(50_000)
    np.testing.assert_allclose(lengths.mean(axis=0), 30, rtol=0.1)
    assert lengths.min() >= 2
    assert lengths.max() <= 256
    assert 0.01 < (lengths.max(axis=1) > 100).mean() < 0.05
    assert np.corrcoef(lengths.T)[0, 1] > 0.8
