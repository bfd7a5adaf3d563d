"""docs/back_translation.md: the recipe at its real size."""

import re

import pytest

from t2t_keras import Run
from tests.forked import REPOSITORY
from tests.system.test_docs_commands import commands, run_shell


@pytest.mark.release
@pytest.mark.timeout(5400)
def test_back_translated_text_raises_bleu_as_documented(tmp_path, monkeypatch):
    """3,000 pairs and 27,000 back-translated ones against the 3,000 pairs alone."""
    monkeypatch.chdir(tmp_path)
    for name in ("configs", "data"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    recipe = commands("back_translation.md")
    for command in recipe:
        run_shell(command)
    alone = re.sub(r"--(mixture|user_symbols)=\S+ ", "", recipe[-1])
    run_shell(alone.replace("runs/back", "runs/alone"))
    runs = "runs/back", "runs/alone"
    bleu = {run: Run(run).evaluate().as_dict()["bleu"] for run in runs}
    assert bleu["runs/back"] - bleu["runs/alone"] >= 10, bleu
