"""--filter in train and prepare: equal pairs, refusals, and the example of data.md."""

import json
import re
import shlex
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.prepared_run import prepare_run
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.runs.replace_settings import replace_settings
from tests.runs.reverse_task import reversed_pairs
from tests.runs.small_runs import assert_same_batches, prepare_records

FILTERS = ("copied", "duplicates")


@pytest.fixture
def unfiltered(config, tmp_path):
    """Settings with text of 63 pairs, of which the filters reject three."""
    different = dict.fromkeys(p for p in reversed_pairs(90, 5) if p[0] != p[1])
    pairs = list(different)[:60]
    pairs = [*pairs[:10], ("a a", "a a"), *pairs[10:], pairs[3], pairs[20]]
    path = tmp_path / "noisy.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    return replace_settings(
        config, "data", train_source=(str(path),), train_target=(), max_length=30
    )


@pytest.fixture
def filtered(unfiltered):
    return replace_settings(unfiltered, "data", filter=FILTERS)


def load(config, path, lines=None):
    log = (lines if lines is not None else []).append
    with log_to(log):
        return prepare_run(config, ModelDir(path))


def test_records_are_filtered_as_their_text_is(filtered, unfiltered, tmp_path):
    rejected = [tmp_path / f"rejected-{i}.tsv" for i in range(2)]
    lines: list[str] = []
    text = load(
        replace_settings(filtered, "data", rejected=str(rejected[0])),
        tmp_path / "text",
        lines,
    )
    assert "filters of the 63 training pairs of text files rejected" in lines[0]
    assert len(text.train) == 60
    folder = prepare_records(
        replace_settings(filtered, "data", rejected=str(rejected[1])), tmp_path / "rec"
    )
    assert rejected[0].read_text() == rejected[1].read_text()
    reasons = [row.split("\t")[:2] for row in rejected[0].read_text().splitlines()]
    assert reasons[0] == ["11", "copied"]
    assert [row[1] for row in reasons] == ["copied", "duplicates", "duplicates"]
    # The records are filtered, so --filter may be left out with them, or have another
    # order. Nothing is filtered again, and the file of `prepare` stays.
    turned = replace_settings(
        filtered, "data", filter=("duplicates", "copied"), rejected=str(rejected[1])
    )
    for config in (turned, unfiltered):
        config = replace_settings(config, "data", records=str(folder))
        model_dir = tmp_path / f"records-{bool(config.data.filter)}"
        records = load(config, model_dir)
        assert records.fingerprint == text.fingerprint
        assert records.vocabulary.sha256 == text.vocabulary.sha256
        assert_same_batches(text, records, epochs=2)
    assert rejected[0].read_text() == rejected[1].read_text()


def test_a_file_that_is_read_is_not_written(filtered, tmp_path):
    [source] = filtered.data.train_source
    part = tmp_path / "part.tsv"
    part.write_text("a b\tb a\n")
    (tmp_path / "link").symlink_to(source)
    mixed = replace_settings(filtered, "data", mixture=(f"{tmp_path}/p*.tsv:1",))
    for output, read, name in (
        (source, source, "train_source"),
        (tmp_path / "link", source, "train_source"),
        (part, part, "mixture"),
    ):
        text = Path(read).read_text()
        config = replace_settings(mixed, "data", rejected=str(output))
        with pytest.raises(UserError, match=rf"{output} is read \(--{name}\)"):
            load(config, tmp_path / "run")
        assert Path(read).read_text() == text


def test_other_filters_are_refused(filtered, unfiltered, tmp_path):
    load(filtered, tmp_path / "run")
    load(filtered, tmp_path / "run")
    with pytest.raises(UserError, match=r"--filter: \('copied', 'duplicates'\) in the"):
        load(unfiltered, tmp_path / "run")
    folder = prepare_records(filtered, tmp_path / "rec")
    prepare_records(filtered, folder)
    with pytest.raises(
        UserError, match=r"and --filter is not given now\. They were star"
    ):
        prepare_records(unfiltered, folder)
    other = replace_settings(unfiltered, "data", filter=("copied",))
    for act in (
        lambda: prepare_records(other, folder),
        lambda: load(
            replace_settings(other, "data", records=str(folder)), tmp_path / "new"
        ),
        lambda: load(
            replace_settings(
                other,
                "data",
                mixture=(f"{folder}:1",),
                vocabulary_file=str(folder / "vocabulary.model"),
            ),
            tmp_path / "new",
        ),
    ):
        with pytest.raises(UserError, match="--filter: copied,duplicates in the reco"):
            act()
    # Records of earlier releases have no filters.
    for name in ("making.json", "manifest.json"):
        file = folder / name
        fields = json.loads(file.read_text())
        del fields.get("making", fields)["settings"]["filter"]
        file.write_text(json.dumps(fields))
    with pytest.raises(UserError, match="--filter:  in the records, copied now"):
        prepare_records(other, folder)


def test_each_text_of_a_mixture_is_filtered_by_itself(filtered, tmp_path):
    part = tmp_path / "part.tsv"
    part.write_text("b a\ta b\nb\tb\nb a\ta b\n")
    rejected = tmp_path / "rejected.tsv"
    mixed = replace_settings(
        filtered, "data", mixture=(f"{part}:1",), rejected=str(rejected)
    )
    data = load(mixed, tmp_path / "run")
    assert [each["pairs"] for each in data.mixture] == [1]
    rows = rejected.read_text().splitlines()
    assert rows[-2:] == [f"{part}:2\tcopied\tb\tb", f"{part}:3\tduplicates\tb a\ta b"]
    # Another worker of the run writes no file.
    rejected.unlink()
    prepare_run(mixed, ModelDir(tmp_path / "run"), writes=False)
    assert not rejected.exists()


def test_nothing_left_is_refused_with_the_counts(filtered, tmp_path):
    rejected = tmp_path / "rejected.tsv"
    all_copied = tmp_path / "copied.tsv"
    all_copied.write_text("a\ta\n" * 3)
    config = replace_settings(
        filtered, "data", train_source=(str(all_copied),), rejected=str(rejected)
    )
    with pytest.raises(
        UserError, match=r"(?s)No sentence pair is left.* copied .* 3\n"
    ):
        load(config, tmp_path / "run")
    assert len(rejected.read_text().splitlines()) == 3
    assert not (tmp_path / "run").exists()


def test_the_example_of_the_page(tmp_path, monkeypatch):
    page = (REPOSITORY / "docs/data.md").read_text(encoding="utf-8")
    section = page.split("## Filters")[1].split("\n## ")[0]
    text, command, table, rejected = re.findall(
        r"^```\n(.*?)^```", section, re.M | re.S
    )
    monkeypatch.chdir(tmp_path)
    for name, block in (("crawled.tsv", text), ("expected.tsv", rejected)):
        rows = [re.split(r" {2,}", row) for row in block.splitlines()]
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in rows))
    program, *flags = shlex.split(command.replace("\\\n", ""))[2:]
    done = run_program(program.rpartition(".")[2], "--workers=1", *flags)
    assert done.status == 0, done.stderr
    assert table in done.stderr
    written = (tmp_path / "rejected.tsv").read_text()
    assert written == (tmp_path / "expected.tsv").read_text()
