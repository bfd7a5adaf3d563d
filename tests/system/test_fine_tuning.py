"""Fine-tuning by the commands of docs/finetuning.md."""

import dataclasses
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_keras.runs import models
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.translation import scoring
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.runs.replace_settings import replace_settings
from tests.system.test_docs_commands import commands


@pytest.mark.release
@pytest.mark.timeout(3600)
def test_domain_adaptation_as_documented(tmp_path, monkeypatch) -> None:
    """The commands of docs/finetuning.md: gains in the new domain, keeps the old."""
    monkeypatch.chdir(tmp_path)
    flags = ("--noexport_at_end", "--nojit_compile")
    assert run_program("train", "--flagfile=configs/tiny.flags", *flags).status == 0
    _check_alignments(tmp_path)
    tune, *_ = commands("finetuning.md")
    result = run_program("train", *shlex.split(tune)[3:], *flags)
    assert result.status == 0, result.stderr
    scores = {
        (run, dataset): _bleu(Path("runs") / run, dataset)
        for run in ("tiny", "business")
        for dataset in ("grammar_ende", "business_ende")
    }
    new, old = "business_ende", "grammar_ende"
    assert scores["business", new] - scores["tiny", new] >= 20, scores
    assert scores["business", old] - scores["tiny", old] >= -2, scores
    page = (REPOSITORY / "docs/finetuning.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `runs/(\w+)`.* \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
    assert [run for run, _, _ in rows] == ["tiny", "business"]
    # Another processor rounds otherwise, which grows over the updates.
    for run, everyday, formal in rows:
        assert scores[run, old] == pytest.approx(float(everyday), abs=2), scores
        assert scores[run, new] == pytest.approx(float(formal), abs=8), scores


def _check_alignments(folder: Path) -> None:
    """Checks the error rates of docs/alignments.md, which uses the same run."""
    writer = REPOSITORY / "data/grammar_ende/write_text.py"
    subprocess.run([sys.executable, writer, folder / "text"], check=True)
    flags = "--model_dir=runs/tiny", "--gold_alignments=text/test.align", "--json"
    files = "--source=text/test.en", "--reference=text/test.de"
    page = (REPOSITORY / "docs/alignments.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (default: )?layer (\d) \| ([\d.]+) \|", page, re.M)
    assert len(rows) == 2
    for default, layer, rate in rows:
        heads = () if default else (f"--alignment_heads={layer}",)
        scores = json.loads(run_program("evaluate", *flags, *files, *heads).stdout)
        # The layer that does not align differs more from run to run.
        near = 3 if default else 15
        assert scores["aer"] == pytest.approx(float(rate), abs=near), scores


def _bleu(model_dir: Path, dataset: str) -> float:
    """BLEU of a run on the test set of a dataset."""
    run = ModelDir(model_dir)
    config = replace_settings(run.config(), "data", dataset=dataset, mixture=())
    trained = dataclasses.replace(models.load_trained(run, "averaged"), config=config)
    test_set = scoring.read_split(
        from_settings.build_corpus(config.data, ("test",)), "test"
    )
    return scoring.score(trained, test_set, config.decoding).as_dict()["bleu"]
