"""Commands of the pages, executed one after the other with small models."""

import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.runs.export import saved_model
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.forked import REPOSITORY, command_path
from tests.in_process import run_program
from tests.serving.fake_server import read_texts, serve, shout

SMALL = (
    "--vocabulary_size=290",
    "--max_length=40",
    "--tokens_per_batch=400",
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=16",
    "--num_heads=2",
)
SHORT = (
    "--train_steps=6",
    "--warmup_steps=2",
    "--eval_steps=2",
    "--save_steps=2",
    "--keep_checkpoints=9",
    "--average_checkpoints=2",
    "--beam_size=2",
    "--extra_length=2",
    "--nojit_compile",
    "--noexport_at_end",
)
# No test set, and BLEU of the dev set only where it decides: each traces a search.
TEXT = tuple(
    f"--{split}_{side}={split}.{language}"
    for split in ("train", "dev")
    for side, language in (("source", "en"), ("target", "de"))
)
# Pages and their sections; all if none are named.
PAGES = MappingProxyType(
    {
        "transformers.md": (),
        "marian.md": (),
        "training.md": ("Learning rate", "Early stopping", "Checkpoint averaging"),
        "multi30k.md": (),
        "distillation.md": (),
        "finetuning.md": ("Another vocabulary", "Partial loading and freezing"),
        "data.md": (
            "Subword regularization",
            "Mixtures: several corpora at once",
            "Tags of languages and domains",
            "Paragraphs",
        ),
        "evaluation.md": ("A model",),
        "decoding.md": (),
        "alignments.md": (),
        "terminology.md": (),
    }
)
# The models of this test are smaller than those of the pages.
REPLACED = MappingProxyType(
    {
        "--decoder_layers=3": "--decoder_layers=2",
        "--init_skip=^decoder/layer_2/": "--init_skip=^decoder/layer_1/",
        "third/checkpoints/step-1400": "third/checkpoints/step-60",
    }
)


def commands(page: str, sections: tuple[str, ...] = ()) -> list[str]:
    """Returns the commands in some sections of a page, or in all, one on each line."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    if sections:
        parts = re.split("^## ", text, flags=re.MULTILINE)
        parts = [part for part in parts if part.partition("\n")[0] in sections]
        assert len(parts) == len(sections), f"{page} has not all of {sections}"
        text = "".join(parts)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    joined = "".join(block for language, block in blocks if not language)
    joined = joined.replace("\\\n", " ").replace("|\n", "| ")
    starts = r"(?:(?:echo|printf) .*\| +)?python |head |tail |printf |cat "
    return re.findall(rf"^((?:{starts}).*)$", joined, re.MULTILINE)


@pytest.fixture
def sandbox(short_run, tmp_path, monkeypatch) -> Path:
    """Working directory with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    for name in ("configs", "data", "examples"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    for name in ("tiny", "first", "second", "third"):
        shutil.copytree(short_run.model_dir.path, tmp_path / "runs" / name)
    rng = random.Random(5)
    words = [f"{a}{b}" for a in ("ga", "bre", "clo") for b in ("nd", "rst", "mpf")]
    (tmp_path / "text").mkdir()
    files = {
        **{name: 200 for name in ("train", "text/train", "more", "back_translated")},
        **{name: 5 for name in ("dev", "test", "text/test", "text/validation")},
    }
    for name, count in files.items():
        source = [rng.choices(words, k=rng.randint(1, 6)) for _ in range(count)]
        sides = {
            "en": [" ".join(line) for line in source],
            "de": [" ".join(x[::-1].capitalize() for x in line) for line in source],
            "align": [" ".join(f"{i}-{i}" for i in range(len(x))) for x in source],
        }
        sides["fr"] = sides["de"]
        sides["tsv"] = [
            f"{a}\t{b}" for a, b in zip(sides["en"], sides["de"], strict=True)
        ]
        for ending, lines in sides.items():
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{name}.{ending}").write_text(text, encoding="utf-8")
    for name, count in (("train", 90), ("silver", 60), ("dev", 5), ("test", 5)):
        nouns = rng.choices(words, k=count)
        trees = [f"(S (NP (DT the) (NN {noun})) (VP (VBD slept)))\n" for noun in nouns]
        (tmp_path / f"{name}.mrg").write_text("".join(trees))
    lines = (tmp_path / "train.de").read_text(encoding="utf-8").splitlines()
    own = SubwordVocabulary(learn_subwords(lines, vocabulary_size=280))
    own.save(tmp_path / "mine.model")
    return tmp_path


@pytest.fixture
def fake_export(monkeypatch):
    """SavedModels take long; test_search_options.py makes and serves one."""
    monkeypatch.setattr(saved_model, "export_saved_model", lambda *_: Path("export/1"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("sandbox", "fake_export", "fake_stepper")
def test_the_commands_of_a_page_work(page):
    found = commands(page, PAGES[page])
    assert found
    with serve(answer) as (server, _):
        for command in found:
            for old, new in {**REPLACED, "localhost:8500": server}.items():
                command = command.replace(old, new)
            run_command(command)


def answer(request):
    """Translates to upper case; texts with terms become these."""
    if "terms" not in request.inputs:
        return shout(request)
    terms = [[each.replace(b"\n", b" ")] for each in read_texts(request, "terms")]
    return {
        "translations": np.array(terms, object),
        "scores": np.full([len(terms), 1], -1.0, np.float32),
        "lengths": np.full([len(terms), 1], 2, np.int32),
    }


def run_command(command: str) -> None:
    """Runs one command, programs in this process."""
    before, _, call = command.rpartition("python -m t2t_keras.")
    if not before and command == call:
        if "write_text.py" not in command:  # the sandbox has the text
            run_shell(command)
        return
    program, *flags = shlex.split(call)
    stdin = run_shell(before.rstrip("| ")) if before else b""
    done = run_program(program, *flags, *small_flags(program, flags), stdin=stdin)
    assert done.status == 0, (command, done.stderr)
    check_results(program, flags, done, stdin)


def check_results(program, flags, done, stdin) -> None:
    """Checks that a program wrote what its flags name, a line for each of its input."""
    values = dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)
    if program == "train" and "list_weights" not in values:
        steps = Path(values["model_dir"], "checkpoints").glob("step-*")
        assert len(list(steps)) >= 2
    if program == "prepare" and "output" in values:
        shards = read_manifest(Path(values["output"])).shards
        assert shards and all(x.has_text == ("keep_text" in values) for x in shards)
    if program == "prepare" and "shortlist" in values:
        assert Path(values["shortlist"]).read_text(encoding="utf-8").strip()
    if program in ("translate", "client"):
        assert done.stderr == ""
        source = Path(values["input"]).read_bytes() if "input" in values else stdin
        output = Path(values["output"]).read_bytes() if "output" in values else None
        lines = (done.output if output is None else output).count(b"\n")
        count = source.count(b"\n")
        one_each = "n_best" not in values
        assert lines == count if one_each else count <= lines
    if "alignments" in values and program != "prepare":
        links = Path(values["alignments"]).read_text().splitlines()
        assert links and all(re.fullmatch(r"(\d+-\d+ ?)*", line) for line in links)
        if "reference" in values:  # each word of a given translation has a link
            texts = Path(values["reference"]).read_text(encoding="utf-8").splitlines()
            assert [len(x.split()) for x in links] == [len(x.split()) for x in texts]
    if "gold_alignments" in values:
        assert "AER" in done.stdout


def run_shell(line: str) -> bytes:
    """Returns the standard output of a line of bash."""
    return subprocess.run(
        ["bash", "-ec", f"set -o pipefail; {line}"],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "PATH": command_path()},
    ).stdout


def small_flags(program: str, flags: list[str]) -> Iterator[str]:
    """Flags that make a command of a page short."""
    if program not in ("train", "prepare") or "--list_weights" in flags:
        return
    names = [flag.partition("=")[0] for flag in flags]
    if program == "prepare":
        yield from (flag for flag in SMALL[:2] if flag.partition("=")[0] not in names)
        return
    if "--train_source" not in names and "--records" not in names:
        yield from ("--dataset=", *TEXT)
    if "--init_from" not in names:
        yield from SMALL
    else:
        yield from ("--learning_rate_scale=1", "--max_length=40")  # of the short run
    yield f"--dev_bleu_sentences={2 if '--monitor=dev_bleu' in flags else 0}"
    yield from SHORT
