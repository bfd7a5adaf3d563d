"""Records prepared in parts: equal to those of one process in every byte."""

import dataclasses
import gzip
import hashlib
import json
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.locks import reserve_folder
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records import unfinished
from t2t_keras.input_pipeline.records.manifest import read_manifest, verify_records
from t2t_keras.runs.data import preparation, training_lines
from t2t_keras.runs.data.run_data import open_data
from t2t_keras.runs.data.training_lines import sampled_ranges
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.prepared_run import prepare_run
from tests.runs.replace_settings import replace_settings
from tests.runs.small_runs import assert_same_batches, read_files

PER_SHARD = 6


@pytest.fixture
def data(config, tmp_path):
    """Settings of data with noise, in several files, which many filters reject."""
    generator = random.Random(4)
    words = [f"{a}{b}" for a in "bdfgk" for b in ("a", "eno", "ilt", "or", "ust")]

    def line(low=1):
        return " ".join(generator.choices(words, k=generator.randint(low, 7)))

    pairs = [(line(), line()) for _ in range(70)]
    pairs += generator.choices(pairs, k=20) + [(p[0], p[0]) for p in pairs[:6]]
    pairs += [("", "a"), ("a", " "), ("<b>a</b>", "a"), *[("a", "b a b a b a b")] * 4]
    generator.shuffle(pairs)
    paths = ([], [])
    for number, (begin, end) in enumerate(((0, 33), (33, 34), (34, len(pairs)))):
        for side, name in enumerate(("source", "target")):
            path = tmp_path / f"text{number}.{name}"
            text = "".join(f"{pair[side]}\n" for pair in pairs[begin:end]).encode()
            path.write_bytes(gzip.compress(text) if number == 2 else text)
            paths[side].append(str(path))
    return dataclasses.replace(
        config.data,
        train_source=tuple(paths[0]),
        train_target=tuple(paths[1]),
        filter=("copied", "length_ratio:4", "duplicates", "markup"),
        rejected=str(tmp_path / "rejected.tsv"),
    )


HOW = {"pairs_per_shard": PER_SHARD, "workers": 1}


def in_one(data, folder, **how):
    preparation.prepare(data, folder, **HOW | how)
    return read_files(folder)


def in_parts(data, folder, parts, order=None, **how):
    how = HOW | how
    preparation.begin(data, folder, **how)
    for number in order or range(1, parts + 1):
        preparation.write_part(data, folder, (number, parts), **how)
    preparation.join(data, folder)
    return read_files(folder)


@pytest.mark.parametrize(
    ("parts", "order", "keep_text"),
    [
        (1, None, False),
        (4, (3, 1, 2, 4), True),
        (16, random.Random(2).sample(range(1, 17), 16), False),
        (40, None, True),  # more than shards
    ],
)
def test_any_number_of_parts_gives_the_same_bytes(
    data, tmp_path, parts, order, keep_text
):
    whole = in_one(data, tmp_path / "whole", keep_text=keep_text)
    rejected = (tmp_path / "rejected.tsv").read_bytes()
    (tmp_path / "rejected.tsv").unlink()
    found = in_parts(data, tmp_path / "parts", parts, order, keep_text=keep_text)
    assert found == whole
    assert (tmp_path / "rejected.tsv").read_bytes() == rejected
    manifest = verify_records(tmp_path / "parts")
    assert len(manifest.shards) == 18
    assert min(manifest.filters.values()) > 0
    # What was needed meanwhile is gone.
    left = {path.name for path in (tmp_path / "parts").iterdir()}
    assert not left & {unfinished.PREPARING, "prepare.lock"}


def test_they_are_the_records_that_training_on_the_text_gives(config, data, tmp_path):
    in_parts(data, tmp_path / "parts", 3)
    config = dataclasses.replace(config, data=data)
    lines = []
    with log_to(lines.append):
        text = prepare_run(config, ModelDir(tmp_path / "text"))
        on_records = replace_settings(config, "data", records=str(tmp_path / "parts"))
        records = prepare_run(on_records, ModelDir(tmp_path / "on_records"))
    assert records.fingerprint == text.fingerprint
    assert records.vocabulary.sha256 == text.vocabulary.sha256
    assert records.summary == text.summary
    assert records.train.report == text.train.report
    assert_same_batches(text, records, epochs=2)


def test_a_part_writes_what_is_missing_and_nothing_else(data, tmp_path):
    folder = tmp_path / "parts"
    whole = in_one(data, tmp_path / "whole")
    preparation.begin(data, folder, **HOW)
    assert preparation.write_part(data, folder, (2, 3), **HOW) == range(6, 12)
    assert sorted(p.name for p in folder.glob("train-*")) == [
        f"train-{n:05d}" for n in range(6, 12)
    ]
    (folder / "train-00007" / "source.npy").write_bytes(b"")
    lines = []
    with log_to(lines.append):
        preparation.write_part(data, folder, (2, 3), **HOW)
    written = [line.split()[0] for line in lines if line.startswith("train-")]
    assert written == ["train-00007"]
    assert "5 of 6 shards are complete already" in lines
    with pytest.raises(UserError, match=r"12 of 18 shards in .* --part=i/n"):
        preparation.join(data, folder)
    # Another number of parts, or none, may write the rest.
    preparation.write_part(data, folder, (1, 2), **HOW)
    preparation.prepare(data, folder, **HOW)
    assert read_files(folder) == whole
    # Afterwards parts and another joining change nothing.
    preparation.write_part(data, folder, (1, 2), **HOW)
    assert preparation.join(data, folder) == read_manifest(folder)
    assert read_files(folder) == whole


def test_one_process_joins_at_a_time(data, tmp_path):
    folder = tmp_path / "parts"
    preparation.begin(data, folder, **HOW)
    preparation.write_part(data, folder, (1, 1), **HOW)
    with reserve_folder(folder, "prepare.lock", refusal=""):
        for step in (preparation.join, preparation.begin, preparation.prepare):
            with pytest.raises(UserError, match="Another process is preparing"):
                step(data, folder)
        preparation.write_part(data, folder, (1, 1), **HOW)
    preparation.join(data, folder)
    assert read_files(folder) == in_one(data, tmp_path / "whole")


def test_parts_on_hosts_that_share_no_folder(data, tmp_path):
    """Each has a copy of what was begun, and of the text in another place."""
    whole = in_one(data, tmp_path / "whole")
    begun = tmp_path / "begun"
    preparation.begin(data, begun, **HOW)
    for number in (1, 2):
        host = tmp_path / f"host{number}"
        shutil.copytree(begun, host / "records")
        moved = {}
        for side in ("train_source", "train_target"):
            paths = [shutil.copy(p, host) for p in getattr(data, side)]
            moved[side] = tuple(map(str, paths))
        own = dataclasses.replace(data, **moved, dev_source=(), dev_target=())
        preparation.write_part(own, host / "records", (number, 2), **HOW)
    for number in (1, 2):
        shutil.copytree(tmp_path / f"host{number}/records", begun, dirs_exist_ok=True)
    preparation.join(data, begun)
    assert read_files(begun) == whole


def test_what_does_not_belong_to_what_was_begun_is_refused(data, tmp_path):
    folder = tmp_path / "parts"
    for step in (
        lambda: preparation.write_part(data, folder, (1, 2), **HOW),
        lambda: preparation.join(data, folder),
    ):
        with pytest.raises(UserError, match=r"No records have been begun .*_only, onc"):
            step()
    preparation.begin(data, folder, **HOW)
    for settings, how, message in (
        ({"max_length": 7}, {}, r"--max_length: 8 in the records, 7 now"),
        ({"filter": ("copied",)}, {}, r"--filter: copied,length_ratio:4,.*copied now"),
        ({"filter": (), "rejected": None}, {}, r"--filter is not given now"),
        ({}, {"pairs_per_shard": 9}, r"6 pairs a shard, not 9"),
        ({}, {"keep_text": True}, r"without text, and --keep_text is given"),
        ({"train_source": data.train_source[::-1]}, {}, r"has .* bytes, and had"),
    ):
        changed = dataclasses.replace(data, **settings)
        with pytest.raises(UserError, match=message):
            preparation.write_part(changed, folder, (1, 2), **HOW | how)
        if not how and "train_source" not in settings:
            with pytest.raises(UserError, match=message):
                preparation.join(changed, folder)
    # Shards of records that were begun elsewhere, with another vocabulary.
    other = dataclasses.replace(data, vocabulary_size=278)
    in_parts(other, tmp_path / "other", 2)
    preparation.write_part(data, folder, (2, 2), **HOW)
    shutil.copytree(tmp_path / "other" / "train-00000", folder / "train-00000")
    lines = []
    with log_to(lines.append):
        preparation.write_part(data, folder, (1, 2), **HOW)
    assert "train-00000 is a shard of other records, and made again" in lines[0]
    preparation.join(data, folder)
    assert read_files(folder) == in_one(data, tmp_path / "whole")


def test_an_unfinished_preparation_resumes_only_with_the_same_text(data, tmp_path):
    folder = tmp_path / "records"
    preparation.begin(data, folder, **HOW)
    preparation.write_part(data, folder, (1, 2), **HOW)
    plain = tmp_path / "plain.source"
    plain.write_bytes(gzip.decompress(Path(data.train_source[2]).read_bytes()))
    moved = dataclasses.replace(data, train_source=(*data.train_source[:2], str(plain)))
    preparation.begin(moved, folder, **HOW)  # another name and compression
    plain.write_bytes(plain.read_bytes().replace(b"b", b"d", 1))
    with pytest.raises(UserError, match=r"is not the training text .* begun with: its"):
        preparation.begin(moved, folder, **HOW)
    preparation.prepare(data, folder, **HOW)
    assert read_files(folder) == in_one(data, tmp_path / "whole")
    # Finished ones are compared by their pairs, however they are divided into files.
    joined = [
        open_parallel_text([source], [target]).lines()
        for source, target in zip(data.train_source, data.train_target, strict=True)
    ]
    table = tmp_path / "all.tsv"
    table.write_bytes(b"".join(b"%b\t%b\n" % p for part in joined for p in part))
    one = dataclasses.replace(data, train_source=(str(table),), train_target=())
    preparation.prepare(one, folder, **HOW)
    table.write_bytes(table.read_bytes().replace(b"b", b"d", 1))
    with pytest.raises(UserError, match=r"is not the training text that the records"):
        preparation.prepare(one, folder, **HOW)


@pytest.mark.parametrize("filters", [("copied",), ("copied", "duplicates")])
def test_a_damaged_shard_of_finished_records_is_made_again(data, tmp_path, filters):
    data = dataclasses.replace(data, filter=filters)
    folder = tmp_path / "records"
    whole = in_one(data, folder)
    (folder / "train-00009" / "decisions.npy").write_bytes(b"")
    (folder / "train-00003" / "shard.json").unlink()
    assert in_one(data, folder) == whole


# --- The vocabulary is learned from a sample


def test_samples_are_runs_all_over_the_text(monkeypatch):
    assert sampled_ranges(0) == [range(0)]
    assert sampled_ranges(2_000_000) == [range(2_000_000)]
    for lines in (2_000_001, 2_999_999, 10**9):
        runs = sampled_ranges(lines)
        assert len(runs) == 2000 and all(len(run) == 1000 for run in runs)
        starts = [run.start for run in runs]
        part = lines / 2000
        for number, start in enumerate(starts):
            assert number * part - 1 <= start <= (number + 1) * part - 999
        places = (np.array(starts) % part) / max(part - 1000, 1)
        if lines == 10**9:
            assert abs(places.mean() - 0.5) < 0.03
            assert np.ptp(np.histogram(places, bins=5, range=(0, 1))[0]) < 120
        assert sampled_ranges(lines) == runs


def test_the_sample_depends_neither_on_parts_nor_on_records(
    config, data, tmp_path, monkeypatch
):
    monkeypatch.setattr(training_lines, "MOST_SAMPLED", 60)
    monkeypatch.setattr("t2t_keras.runs.data.from_settings.MOST_SAMPLED", 60)
    monkeypatch.setattr(training_lines, "_LINES_PER_RUN", 5)
    mixed = dataclasses.replace(
        data, mixture=(f"{data.train_source[0]}:{data.train_target[0]}:1/2",)
    )
    vocabularies = []
    for settings in (data, mixed):
        config = dataclasses.replace(config, data=settings)
        name = f"{bool(settings.mixture)}"
        assert in_parts(settings, tmp_path / f"parts{name}", 5) == in_one(
            settings, tmp_path / f"one{name}"
        )
        text = open_data(config, ModelDir(tmp_path / f"text{name}"))
        manifest = read_manifest(tmp_path / f"parts{name}")
        assert text.vocabulary.sha256 == manifest.spec.vocabulary_sha256
        vocabularies.append(text.vocabulary.sha256)
    monkeypatch.undo()
    whole = open_data(config, ModelDir(tmp_path / "whole"))
    assert len({*vocabularies, whole.vocabulary.sha256}) == 3


# --- Runs and records of earlier releases


def as_started_by_an_earlier_release(model_dir, data):
    """Gives a run the fingerprint of release 0.9, as its sources define it."""
    digest = hashlib.sha256()
    text = open_parallel_text(data.train_source, data.train_target)
    for pair in text.pairs():
        digest.update(b"%b\n%b\n" % pair)
    card = json.loads(model_dir.run_card_file.read_text())
    assert card["corpus"]["fingerprint"].startswith("2-")
    card["corpus"]["fingerprint"] = digest.hexdigest()
    model_dir.run_card_file.write_text(json.dumps(card))


def test_runs_of_earlier_releases_resume(config, data, tmp_path):
    data = dataclasses.replace(data, filter=(), rejected=None)
    config = dataclasses.replace(config, data=data)
    model_dir = ModelDir(tmp_path / "run")
    in_one(data, tmp_path / "records")
    records = replace_settings(config, "data", records=str(tmp_path / "records"))
    with log_to([].append):
        prepare_run(config, model_dir)
        as_started_by_an_earlier_release(model_dir, data)
        prepare_run(config, model_dir)
        # Records have no such fingerprint, but the text that it can be compared with.
        prepare_run(records, model_dir)
        moved = replace_settings(records, "data", train_source=(), train_target=())
        with pytest.raises(UserError, match="is not the training text that the run in"):
            prepare_run(moved, model_dir)
        path = Path(data.train_source[0])
        path.write_text(path.read_text().replace("b", "d", 1))
        for settings in (config, records):
            with pytest.raises(UserError, match="is not the training text that the"):
                prepare_run(settings, model_dir)


def test_files_of_other_formats_are_read_in_parts(config, data, tmp_path):
    """Each is read from its beginning, and those before it are passed over."""
    texts = zip(data.train_source, data.train_target, strict=True)
    read = [list(open_parallel_text([s], [t]).lines()) for s, t in texts]
    pairs = [pair for part in read for pair in part]
    rows = [{"en": s.decode(), "de": t.decode()} for s, t in pairs[:20]]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.tsv").write_bytes(b"".join(b"%b\t%b\n" % p for p in pairs[20:45]))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        for side, code in enumerate(("en", "de")):
            lines = b"".join(pair[side] + b"\n" for pair in pairs[45:])
            archive.writestr(f"x.de-en.{code}", lines)
    names = tuple(str(tmp_path / name) for name in ("a.jsonl", "b.tsv", "c.zip"))
    mixed = dataclasses.replace(
        data,
        train_source=names,
        train_target=(),
        source_language="en",
        target_language="de",
    )
    one = dataclasses.replace(
        mixed, train_source=data.train_source, train_target=data.train_target
    )
    in_one(one, tmp_path / "plain")
    whole = in_one(mixed, tmp_path / "whole")
    assert in_parts(mixed, tmp_path / "parts", 7, (5, 1, 7, 2, 3, 4, 6)) == whole
    manifests = [read_manifest(tmp_path / each) for each in ("plain", "whole")]
    assert manifests[0].fingerprint == manifests[1].fingerprint
    assert manifests[0].filters == manifests[1].filters
    config = dataclasses.replace(config, data=mixed)
    assert open_data(config, ModelDir(tmp_path / "text")).fingerprint == (
        manifests[0].fingerprint
    )
    with open(names[0], "a") as file:
        file.write("\n")
    preparation.begin(one, tmp_path / "again", **HOW)
    with pytest.raises(UserError, match="is not the training text that the records in"):
        preparation.prepare(mixed, tmp_path / "again", **HOW)
