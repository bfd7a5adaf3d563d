"""Commands of docs/alignments.md, executed."""

import re
import shlex

import pytest

from t2t_keras.text.word_alignments import split_words
from tests.system.in_process import run_program
from tests.system.programs import REPOSITORY
from tests.system.test_docs_evaluation import run

PAGE = (REPOSITORY / "docs/alignments.md").read_text(encoding="utf-8")


def test_the_commands_without_a_model_print_what_the_page_shows(tmp_path):
    [(command, expected)] = re.findall(
        r"^```bash\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    printed = run(["bash", "-e", "-c", command], tmp_path)
    assert printed == expected


@pytest.mark.release
def test_the_commands_with_a_model_work(short_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    sides = zip(*short_run.held_out, strict=True)
    for ending, lines in zip(("en", "de"), sides, strict=True):
        (tmp_path / f"text/test.{ending}").write_text("".join(f"{x}\n" for x in lines))
    gold = "0-0\n" * len(short_run.held_out)
    (tmp_path / "text/test.align").write_text(gold)
    for name in ("train.en", "train.de", "train.align"):
        side = (tmp_path / name.replace("train", "text/test")).read_text()
        (tmp_path / "text" / name).write_text(side)
    guided = re.findall(r"python -m t2t_keras\.train ((?:.|\n)*?[^\\])\n", PAGE)
    flags = shlex.split(guided[0].replace("\\\n", " "))
    short = ("--train_steps=2", "--vocabulary_size=280", "--noexport_at_end")
    done = run_program("train", *flags, *short, "--warmup_steps=1", "--nojit_compile")
    assert done.status == 0, done.stderr
    assert (tmp_path / "runs/guided/checkpoints/step-2").is_dir()
    pattern = r"python -m t2t_keras\.(\w+) (--model_dir(?:.|\n)*?[^\\])\n"
    commands = re.findall(pattern, PAGE)
    assert [program for program, _ in commands] == ["translate", "evaluate", "evaluate"]
    for program, text in commands:
        flags = shlex.split(text.replace("\\\n", " "))
        # The short run has one layer.
        flags = [flag.replace("heads=2", "heads=1") for flag in flags[1:]]
        model = f"--model_dir={short_run.model_dir.path}"
        done = run_program(program, model, *flags, stdin=b"a b c\n\n")
        assert (done.status, done.stderr) == (0, ""), flags
    assert "AER" in done.stdout
    [line, empty] = (tmp_path / "out.align").read_text().splitlines()
    assert re.fullmatch(r"\d-\d( \d-\d)*", line)
    assert empty == ""
    forced = (tmp_path / "forced.align").read_text().splitlines()
    assert [len(split_words(line)) for line in forced] == [
        len(target.split()) for _, target in short_run.held_out
    ]
