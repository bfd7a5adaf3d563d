"""prepare --report: what is written, when, and the example of data.md."""

import errno
import json
import re
import shlex
import sys

import pytest

from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.runs.small_runs import read_files

REPORTS = {"report.txt", "report.html"}


@pytest.fixture
def flags(config, tmp_path):
    """Flags of the small corpus."""
    data = config.data
    return [
        f"--train_source={data.train_source[0]}",
        f"--train_target={data.train_target[0]}",
        f"--source_language={data.source_language}",
        f"--target_language={data.target_language}",
        f"--vocabulary_size={data.vocabulary_size}",
        "--workers=1",
        f"--output={tmp_path / 'records'}",
    ]


def test_a_report_is_written_with_records_or_later(flags, tmp_path):
    folder = tmp_path / "records"
    done = run_program("prepare", *flags, "--report")
    assert done.status == 0, done.stderr
    text = (folder / "report.txt").read_text("utf-8")
    # After what is printed without it.
    assert done.stdout.endswith(text)
    assert done.stdout.splitlines()[2] == text.splitlines()[0]
    assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
    first = read_files(folder)
    assert {path for path in folder.iterdir() if path.name in REPORTS}
    # Of finished records it is all that is written, even if a file is another one.
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text())))
    changed = read_files(folder)
    for name in REPORTS:
        (folder / name).unlink()
    done = run_program("prepare", *flags, "--report")
    assert (done.status, done.stderr, done.stdout) == (0, "", text)
    assert read_files(folder) == changed != first
    # Without the flag none is written.
    for name in REPORTS:
        (folder / name).unlink()
    assert run_program("prepare", *flags).status == 0
    assert not REPORTS & {path.name for path in folder.iterdir()}


def test_a_report_is_written_when_parts_are_joined(flags, tmp_path):
    for step in ("--vocabulary_only", "--part=1/2", "--part=2/2"):
        assert run_program("prepare", *flags, step).status == 0
        assert not (tmp_path / "records" / "report.txt").exists()
    done = run_program("prepare", *flags, "--join", "--report")
    assert done.status == 0, done.stderr
    text = (tmp_path / "records" / "report.txt").read_text("utf-8")
    assert done.stdout.endswith(text)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            ["--part=1/2"],
            "--report is about finished records, and --part finishes none",
        ),
        (
            ["--vocabulary_only"],
            "and --vocabulary_only finishes none. Give it with --jo",
        ),
        (["--verify"], "and --verify finishes none. Give it with --join, or alone."),
        (
            ["--verify", "--join"],
            "--join and --verify are different steps. Give one of",
        ),
        (
            ["--train_source=", "--train_target="],
            "--report shows pairs of the training ",
        ),
        (["--shortlist=x"], "--report is for records. Leave out --shortlist."),
        (["--temperature=2"], "--report is not for --temperature, which only prints"),
    ],
)
def test_flags_that_do_not_go_together_are_refused_before_any_work(
    flags, tmp_path, others, message, monkeypatch
):
    # TensorFlow would be imported then.
    monkeypatch.setattr("t2t_keras.settings.program.check_backend", None)
    if others[0].startswith(("--shortlist", "--temp")):
        flags = flags[:2]
    done = run_program("prepare", *flags, "--report", *others)
    assert (done.status, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (tmp_path / "records").exists()


def test_without_jinja_the_text_is_written_and_the_package_named(
    flags, tmp_path, monkeypatch
):
    folder = tmp_path / "records"
    done = run_program("prepare", *flags, "--report")
    text = (folder / "report.txt").read_text("utf-8")
    (folder / "report.txt").unlink()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = run_program("prepare", *flags, "--report")
    assert (done.status, done.stdout) == (0, text)
    assert done.stderr == (
        "warning: only report.txt will be written: report.html needs packages that are "
        'not installed (jinja2): pip install "t2t_keras[report]"\n'
    )
    assert (folder / "report.txt").read_text("utf-8") == text
    assert not (folder / "report.html").exists()


def test_a_dataset_is_reported_on(tmp_path):
    flags = [
        "--dataset=copy_task",
        f"--data_dir={tmp_path}",
        f"--output={tmp_path / 'records'}",
        "--workers=1",
    ]
    sides = ["--source_language=source", "--target_language=target"]
    done = run_program(
        "prepare", *flags, *sides, "--vocabulary_size=290", "--report", "--download"
    )
    assert done.status == 0, done.stderr
    assert "Corpus: copy_task" in done.stdout


def test_the_example_of_the_page(tmp_path, monkeypatch):
    page = (REPOSITORY / "docs/data.md").read_text(encoding="utf-8")
    text, command = blocks_of(page, "Filters")[:2]
    shown, printed = blocks_of(page, "Look at a corpus")[:2]
    monkeypatch.chdir(tmp_path)
    rows = [re.split(r" {2,}", row) for row in text.splitlines()]
    (tmp_path / "crawled.tsv").write_text("".join("\t".join(r) + "\n" for r in rows))
    assert run(command).status == 0
    done = run(shown)
    assert done.status == 0, done.stderr
    # "…" stands for lines that the page leaves out.
    parts = [part.strip("\n") for part in re.split(r"^…$", printed, flags=re.M)]
    assert len(parts) > 3
    places = [done.stdout.find(f"{part}\n") for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


def blocks_of(page, title):
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^```\n(.*?)^```", section, re.M | re.S)


def run(command):
    program, *flags = shlex.split(command.replace("\\\n", ""))[2:]
    return run_program(program.rpartition(".")[2], "--workers=1", *flags)


def test_a_full_disk_leaves_the_records(flags, tmp_path, monkeypatch):
    assert run_program("prepare", *flags).status == 0
    before = read_files(tmp_path / "records")

    def write(path, _):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("t2t_keras.reports.corpus_page.write_text", write)
    done = run_program("prepare", *flags, "--report")
    assert (done.status, done.stdout) == (2, "")
    assert "report.txt cannot be written: No space left" in done.stderr
    assert read_files(tmp_path / "records") == before
