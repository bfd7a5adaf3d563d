"""Command of docs/architecture.md: a model that all programs can use."""

import re
import shlex

import ctranslate2
import numpy as np
import pytest

from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import load_trained
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.runs.reverse_task import reversed_pairs, write_split

# Smaller than the page's model, and few updates; packed, so that starts matter.
SMALL = (
    "--vocabulary_size=280",
    "--max_length=8",
    "--tokens_per_batch=256",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--encoder_layers=2",
    "--train_steps=20",
    "--eval_steps=20",
    "--save_steps=10",
    "--dev_bleu_sentences=2",
    "--average_checkpoints=2",
    "--extra_length=3",
    "--batching=pack",
    "--nojit_compile",
    "--score_split=dev",
    "--noexport_at_end",
)


def options() -> list[str]:
    """The flags of the page's command that name its architecture."""
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^```\n(python .*?)^```$", page, re.M | re.S)
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:5] == [
        "python",
        "-m",
        "t2t_keras.train",
        "--flagfile=configs/tiny.flags",
        "--model_dir=runs/deep",
    ]
    return words[5:]


@pytest.mark.release
def test_the_command_trains_a_model_that_every_program_takes(tmp_path) -> None:
    pairs = reversed_pairs(60, seed=3)
    files = [
        flag
        for split in ("train", "dev", "test")
        for flag in write_split(tmp_path, split, pairs)
    ]
    run = tmp_path / "run"
    flags = (f"--model_dir={run}", *files, *options(), *SMALL)
    trained = run_program("train", *flags)
    assert trained.status == 0, trained.stderr
    text = "".join(f"{source}\n" for source, _ in pairs[:5]).encode()
    done = run_program("translate", f"--model_dir={run}", "--scores", stdin=text)
    assert done.status == 0, done.stderr
    resumed = run_program("train", *flags)
    assert "all 20 steps are done already" in resumed.stderr
    model = load_trained(ModelDir(run), "latest")
    assert model.model.sizes["decoder_start"] == 1
    assert model.model.sizes["encoder_layers"] == 2
    for export_format in ("text", "ctranslate2"):
        done = run_program("export", f"--model_dir={run}", f"--format={export_format}")
        assert done.status == 0, done.stderr
    translator = ctranslate2.Translator(str(run / "export_ctranslate2/1"))
    assert np.isfinite(
        translator.translate_batch([["▁"]], return_scores=True)[0].scores[0]
    )
