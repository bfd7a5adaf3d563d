"""Commands of docs/recipes.md, executed; the annotation of terms."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.system.in_process import run_program
from tests.system.programs import REPOSITORY

PAGE = (REPOSITORY / "docs/recipes.md").read_text(encoding="utf-8")
ANNOTATE = REPOSITORY / "examples/annotate_terms.py"


def annotate(*arguments, stdin="", status=0):
    done = subprocess.run(
        [sys.executable, ANNOTATE, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout.splitlines()


def test_terms_are_the_only_translation_of_their_word(tmp_path):
    text = {
        "en": "the old dog, barks\nno\nyes yes\n\nwe go home\n",
        "de": "der alte Hund, bellt laut\nnein\nja\n\nwir gehen nach Hause\n",
        # A possible link; two links of one word; a translation shared by two words.
        "align": "0-0 1p1 2-2 3-3 3-4\n0-0\n0-0 1-0\n\n1-1 2-2 2-3\n",
    }
    for name, lines in text.items():
        (tmp_path / name).write_text(lines)
    files = (tmp_path / "en", tmp_path / "de")
    found = {
        tuple(annotate(f"--align={tmp_path}/align", f"--seed={seed}", *files))
        for seed in range(9)
    }
    first, *rest = zip(*found, strict=True)
    assert {line.split("\t")[1] for line in first} == {"der alte Hund, bellt laut"}
    assert {line.split("\t")[0] for line in first} == {
        "<t> the <is> der </t> old dog, barks",
        "the old <t> dog, <is> Hund </t> barks",
        "<t> the <is> der </t> old <t> dog, <is> Hund </t> barks",
    }
    assert [set(lines) for lines in rest] == [
        {"<t> no <is> nein </t>\tnein"},
        {"we <t> go <is> gehen </t> home\twir gehen nach Hause"},
    ]


def test_a_glossary_annotates_every_occurrence(tmp_path):
    (tmp_path / "glossary").write_text("dog\tKöter\nhouse\tdas Gebäude\n")
    lines = annotate(f"--glossary={tmp_path}/glossary", stdin="a dog, the dog\n\nDog\n")
    assert lines == [
        "a <t> dog, <is> Köter </t> the <t> dog <is> Köter </t>",
        "",
        "Dog",
    ]
    annotate(stdin="a", status=2)


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
                command = command.replace(" python ", f" {sys.executable} ")
                command = re.sub(
                    r"(data|examples)/(\w+)", rf"{REPOSITORY}/\1/\2", command
                )
                subprocess.run(["bash", "-ec", command], check=True)
            ran.append(words)
            if "write_text.py" in command:
                for path in tmp_path.glob("text/*"):
                    lines = path.read_text().splitlines(keepends=True)
                    path.write_text("".join(lines[:200]))
    trained = [words for words in ran if words[2] == "t2t_keras.train"]
    assert len(trained) == 3
    for name in ("reverse", "back", "terms"):
        assert (tmp_path / f"runs/{name}/checkpoints/step-10").is_dir()
    assert len((tmp_path / "back.en").read_text().splitlines()) == 100
    assert " <is> " in (tmp_path / "terms.tsv").read_text()
