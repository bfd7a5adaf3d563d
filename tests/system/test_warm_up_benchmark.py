"""The benchmark of the warm-up on a short run: exports, servers and calls."""

import pytest

from benchmarks import warm_up


@pytest.mark.release
def test_every_signature_is_called_whatever_is_warmed_up(short_run, capsys):
    choices = ["none", "serving_default"]
    before = {path.name for path in short_run.model_dir.path.iterdir()}
    warm_up.main(
        [f"--model_dir={short_run.model_dir.path}", "--starts=1", "--choices", *choices]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| seconds | `none` | `serving_default` |"
    assert len(lines) == 4 + 2 * len(warm_up.SIGNATURES)
    assert {path.name for path in short_run.model_dir.path.iterdir()} == before
