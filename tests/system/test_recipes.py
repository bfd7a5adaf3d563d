"""Commands of docs/back_translation.md, executed."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.system.in_process import run_program
from tests.system.programs import REPOSITORY

PAGE = (REPOSITORY / "docs/back_translation.md").read_text(encoding="utf-8")


@pytest.mark.release
@pytest.mark.timeout(900)
def test_the_commands_of_the_page_work(tmp_path, monkeypatch):
    """With 200 pairs, ten updates and a smaller model."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    short = (
        *("--train_steps=10", "--warmup_steps=5", "--eval_steps=10", "--d_model=16"),
        *("--d_ff=16", "--num_layers=1", "--vocabulary_size=400", "--nojit_compile"),
        "--beam_size=2",
    )
    ran = []
    for block in blocks:
        text = block.replace("\\\n", " ")
        text = text.replace("3000", "100").replace("+3001", "+101")
        for command in re.split(r"\n(?! )", text.strip()):
            words = shlex.split(command)
            if words[:3] == ["python", "-m", "t2t_keras.train"]:
                done = run_program("train", *words[3:], *short)
                assert done.status == 0, done.stderr
            else:
                command = command.replace("python ", f"{sys.executable} ", 1)
                command = re.sub(
                    r"(data|examples)/(\w+)", rf"{REPOSITORY}/\1/\2", command
                )
                subprocess.run(["bash", "-ec", command], check=True)
            ran.append(words)
            if "--output=back.en" in words:
                # Ten updates teach the model to end at once.
                back = tmp_path / "back.en"
                assert back.read_bytes().count(b"\n") == 100
                back.write_text("The dog sleeps.\n" * 100)
            if "write_text.py" in command:
                for path in tmp_path.glob("text/*"):
                    lines = path.read_text().splitlines(keepends=True)
                    path.write_text("".join(lines[:200]))
    trained = [words for words in ran if words[2:3] == ["t2t_keras.train"]]
    assert len(trained) == 2
    for name in ("reverse", "back"):
        assert (tmp_path / f"runs/{name}/checkpoints/step-10").is_dir()
