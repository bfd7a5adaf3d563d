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
