"""Text and records on an object store: the same pairs, bytes and batches as on disk."""

import dataclasses
import errno
import functools
import gzip
import hashlib
import importlib.util
import io
import itertools
import json
import os
import random
import shutil
import threading
import zipfile
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.files import remote
from t2t_keras.files.logs import log_to
from t2t_keras.files.remote import as_path
from t2t_keras.files.signals import Interrupted
from t2t_keras.input_pipeline.corpora import line_index, line_reader
from t2t_keras.input_pipeline.corpora.line_index import IndexedText, index_text
from t2t_keras.input_pipeline.corpora.line_reader import FileReader
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records import remote_records
from t2t_keras.input_pipeline.records.manifest import read_manifest, read_spec
from t2t_keras.input_pipeline.records.shards import DamagedShardError
from t2t_keras.runs.data import from_settings, remote_preparation
from t2t_keras.runs.data.run_data import open_data
from t2t_keras.runs.data.training_lines import open_training_lines
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings import program
from t2t_keras.settings.config import make_paths_absolute
from t2t_keras.settings.training_text import make_names_absolute, parse_mixture_item
from tests import object_store
from tests.object_store import HttpError
from tests.runs.data.test_parts import HOW, data, in_one  # noqa: F401
from tests.runs.replace_settings import replace_settings
from tests.runs.small_runs import assert_same_batches

OUTPUT = "memory://bucket/records/x"
BUCKET = "memory://bucket"


@pytest.fixture
def store(monkeypatch, tmp_path):
    store = object_store.use(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    yield store
    # What was only needed meanwhile is gone, also after errors.
    assert list((tmp_path / "temporary").iterdir()) == []


def on_store(store, data):  # noqa: F811
    """Returns settings with all text on the store."""
    moved = {}
    for name in ("train", "dev", "test"):
        for side in ("source", "target"):
            paths = getattr(data, f"{name}_{side}")
            urls = tuple(f"{BUCKET}/text/{Path(path).name}" for path in paths)
            for path, url in zip(paths, urls, strict=True):
                store.pipe_file(url, Path(path).read_bytes())
            moved[f"{name}_{side}"] = urls
    return dataclasses.replace(data, **moved)


def remote_parts(data, url, parts, **how):  # noqa: F811
    folder = as_path(url)
    remote_preparation.begin(data, folder, **HOW, **how)
    for number in range(parts, 0, -1):
        remote_preparation.write_part(data, folder, (number, parts), **HOW, **how)
    return remote_preparation.join(data, folder)


# --- Text


@pytest.mark.parametrize("compressed", [False, True])
def test_lines_are_found_on_a_store(store, monkeypatch, compressed):
    """Index and reading from any line, by ranges much shorter than the file."""
    monkeypatch.setattr(line_index, "RANGE_BYTES", 64)
    monkeypatch.setattr(line_reader, "RANGE_BYTES", 64)
    monkeypatch.setattr(line_index, "_RANGES_PER_PIECE", 3)
    monkeypatch.setattr(remote, "_BLOCK", 50)
    draw = random.Random(8)
    lines = [b"x" * draw.choice((0, 3, 30, 200)) + b"%d" % n for n in range(300)]
    lines = [line.ljust(3, b"y") for line in lines]
    text = b"".join(line + b"\n" for line in lines)
    store.pipe_file(f"{BUCKET}/a", gzip.compress(text) if compressed else text)
    group = [as_path(f"{BUCKET}/a")]
    store.fail("cat_file", HttpError(429), times=3)
    indexed = index_text([group], 3, lambda *_: None)
    assert indexed.lines == 300 and bool(indexed.files[0][0].begun) != compressed
    again = IndexedText.from_json(indexed.to_json(), [group])
    assert again == indexed
    reader = FileReader(again)
    for _ in range(40):
        begin = draw.randrange(300)
        end = draw.randint(begin, 300)
        store.fail("cat_file", cut=draw.randrange(10))
        found = [line for raw in reader.read(begin, end) for line in raw.sides]
        assert b"".join(found) == b"".join(each + b"\n" for each in lines[begin:end])
    reader.close()
    # A part reads its own lines and few others of a plain file.
    if not compressed:
        store.requests.clear()
        reader = FileReader(again)
        list(reader.read(290, 300))
        reader.close()
        assert sum(name == "cat_file" for name, _ in store.requests) < 30
    store.pipe_file(f"{BUCKET}/a", store.cat_file(f"{BUCKET}/a") + b"z\n")
    with pytest.raises(UserError, match=rf"^{BUCKET}/a has .* bytes, and had .* Give"):
        IndexedText.from_json(indexed.to_json(), [group])


def test_a_text_that_becomes_shorter_is_told(store):
    url = f"{BUCKET}/a"
    store.pipe_file(url, b"one\ntwo\n" * 100)
    indexed = index_text([[as_path(url)]], 1, lambda *_: None)
    store.pipe_file(url, b"one\n")
    with pytest.raises(UserError, match=r"had 200 lines .* and has fewer now"):
        list(FileReader(indexed).read(0, 200))


def test_training_on_text_of_a_store_is_that_on_files(config, data, store, tmp_path):  # noqa: F811
    config = dataclasses.replace(config, data=data)
    moved = on_store(store, data)
    pattern = dataclasses.replace(
        moved,
        train_source=(f"{BUCKET}/text/text*.source",),
        train_target=(f"{BUCKET}/text/text?.target",),
        mixture=(f"{moved.train_source[0]}:{moved.train_target[0]}:1/2",),
    )
    local = dataclasses.replace(
        data, mixture=(f"{data.train_source[0]}:{data.train_target[0]}:1/2",)
    )
    opened = []
    for number, own in enumerate((local, pattern)):
        settings = make_paths_absolute(dataclasses.replace(config, data=own))
        with log_to([].append):
            opened.append(open_data(settings, ModelDir(tmp_path / f"run{number}")))
    assert opened[0].fingerprint == opened[1].fingerprint
    assert opened[0].vocabulary.sha256 == opened[1].vocabulary.sha256
    assert_same_batches(*opened, epochs=2)
    assert opened[0].dev_sha256 == opened[1].dev_sha256


def test_other_formats_and_names_of_a_store(config, data, store, tmp_path):  # noqa: F811
    """A table; and a part of a mixture that can be nothing but records."""
    store.pipe_file(f"{BUCKET}/a.tsv", b"a b\tc d\n" * 9)
    own = dataclasses.replace(
        data,
        train_source=(f"{BUCKET}/a.tsv",),
        train_target=(),
        filter=(),
        rejected=None,
    )
    settings = make_paths_absolute(dataclasses.replace(config, data=own))
    assert settings.data.train_source == (f"{BUCKET}/a.tsv",)
    corpus = from_settings.build_corpus(settings.data, ("train",))
    with open_training_lines(settings.data, corpus) as lines:
        assert lines.reader.num_lines == 9
    missing = dataclasses.replace(own, mixture=(f"{BUCKET}/no-records:2",))
    message = rf"can be learned from the records in {BUCKET}/no-records, which"
    with pytest.raises(UserError, match=message):
        open_data(dataclasses.replace(config, data=missing), ModelDir(tmp_path / "run"))
    with pytest.raises(UserError, match=rf"There are no records in {BUCKET}/no-recor"):
        read_manifest(as_path(f"{BUCKET}/no-records"))


def test_items_of_a_mixture_may_be_urls():
    for text, names, is_records in (
        ("s3://b/more.tsv:2", ("s3://b/more.tsv",), False),
        ("s3://b/a.en:gs://c/a.de:1/3:<bt>", ("s3://b/a.en", "gs://c/a.de"), False),
        ("s3://b/a.en:local.de:0.5", ("s3://b/a.en", "local.de"), False),
        ("gs://b/records/x:3", ("gs://b/records/x",), True),
    ):
        item = parse_mixture_item(text)
        assert item.names == names
        assert (item.is_records, item.is_text) == (is_records, not is_records)
        absolute = parse_mixture_item(make_names_absolute(text))
        assert absolute.names == tuple(
            name if "://" in name else str(Path(name).absolute()) for name in names
        )
        assert absolute[1:] == item[1:]


@pytest.mark.parametrize(
    "settings",
    [
        {"train_target": ("/a", "gs://b/a.de")},
        {"dev_source": ("gs://b/dev.tsv",)},
        {"mixture": ("a.en:gs://b/a.de:1",)},
        {"records": "gs://b/records"},
        {"vocabulary_file": "gs://b/vocabulary.model"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_missing_package_is_told_before_any_work(config, monkeypatch, settings):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "gcsfs" else real(name),
    )
    config = replace_settings(config, "data", **settings)
    with pytest.raises(MissingPackage, match=r"^gs://b/.* needs .*\(gcsfs\)"):
        program.check_extras(config)


@pytest.mark.parametrize("ending", ["parquet", "zip", "jsonl", "tmx"])
def test_every_format_is_read(store, ending):
    pairs = [(f"a {number}", f"b {number}") for number in range(50)]
    file = io.BytesIO()
    if ending == "parquet":
        columns = {"en": [p[0] for p in pairs], "de": [p[1] for p in pairs]}
        parquet.write_table(pyarrow.table(columns), file)
    elif ending == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            for side, code in enumerate(("en", "de")):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                archive.writestr(f"x.de-en.{code}", text)
    elif ending == "jsonl":
        for one, other in pairs:
            file.write(json.dumps({"en": one, "de": other}).encode() + b"\n")
    else:
        units = "".join(
            f'<tu><tuv xml:lang="en"><seg>{one}</seg></tuv>'
            f'<tuv xml:lang="de"><seg>{other}</seg></tuv></tu>'
            for one, other in pairs
        )
        file.write(f'<tmx version="1.4"><header/><body>{units}</body></tmx>'.encode())
    url = f"{BUCKET}/text.{ending}"
    store.pipe_file(url, file.getvalue())
    store.fail("cat_file", HttpError(429))
    store.fail("cat_file", cut=9)
    text = open_parallel_text([url], (), None, ("en", "de"))
    assert [*text.pairs()] == [(a.encode(), b.encode()) for a, b in pairs]


# --- Records written


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "keep_text"), [(None, False), (1, True), (4, False)])
def test_the_bytes_are_those_of_a_folder(data, store, tmp_path, parts, keep_text):  # noqa: F811
    moved = on_store(store, data)
    expected = in_one(moved, tmp_path / "folder", keep_text=keep_text)
    rejected = (tmp_path / "rejected.tsv").read_bytes()
    (tmp_path / "rejected.tsv").unlink()
    if parts is None:
        remote_preparation.prepare(moved, as_path(OUTPUT), **HOW, keep_text=keep_text)
    else:
        remote_parts(moved, OUTPUT, parts, keep_text=keep_text)
    assert store.contents(OUTPUT) == expected
    assert (tmp_path / "rejected.tsv").read_bytes() == rejected
    assert remote_preparation.verify(as_path(OUTPUT)) == read_manifest(as_path(OUTPUT))


def test_what_is_complete_comes_last(data, store, monkeypatch):  # noqa: F811
    """After each request, a shard that is complete is whole, and so are the records."""
    lock, complete = threading.Lock(), []

    def check():
        objects = store.contents(OUTPUT)
        shards = [name for name in objects if name.endswith("/shard.json")]
        for name in shards:
            for file, sha256 in json.loads(objects[name])["sha256"].items():
                content = objects[f"{Path(name).parent}/{file}"]
                assert hashlib.sha256(content).hexdigest() == sha256, name
        if shards:
            assert "making.json" in objects
        if "making.json" in objects:
            assert {"vocabulary.model", "dev.source", "dev.target"} <= {*objects}
        if "manifest.json" in objects:
            for shard in json.loads(objects["manifest.json"])["shards"]:
                assert json.loads(objects[f"{shard['name']}/shard.json"]) == shard
        complete.append(len(shards))

    for method in ("put_file", "rm_file"):

        def checked(real, *arguments):
            with lock:
                real(*arguments)
                check()

        real = getattr(store, method)
        monkeypatch.setattr(store, method, functools.partial(checked, real))
    remote_preparation.prepare(data, as_path(OUTPUT), **HOW)
    # Shards with duplicates are replaced.
    assert complete[-1] == 18 and sorted(complete) != complete


@pytest.mark.slow
def test_a_preparation_that_ends_anywhere_goes_on(data, store, tmp_path):  # noqa: F811
    """It is cut off at each upload and each removal in turn."""
    expected = in_one(data, tmp_path / "folder")
    for method in ("put_file", "rm_file"):
        store.store.clear()
        store.faults.clear()
        store.requests.clear()
        remote_parts(data, OUTPUT, 2)
        count = sum(name == method for name, _ in store.requests)
        places = sorted(random.Random(count).sample(range(count), min(count, 9)))
        assert count > 5
        for place in places:
            store.store.clear()
            store.faults.clear()
            store.fail(method, times=place, cut=10**9)  # these are not cut
            store.fail(method, PermissionError("expired"), cut=20)
            with pytest.raises(UserError, match="expired"):
                remote_parts(data, OUTPUT, 2)
            remote_parts(data, OUTPUT, 3)
            assert store.contents(OUTPUT) == expected


@pytest.mark.slow
def test_a_stop_keeps_complete_shards(data, store, tmp_path, monkeypatch):  # noqa: F811
    expected = in_one(data, tmp_path / "folder")
    folder = as_path(OUTPUT)
    real = remote_preparation._Copy.upload_shard
    uploaded = []

    def stop_after_three(self, shard):
        real(self, shard)
        uploaded.append(shard.name)
        if len(uploaded) == 3:
            raise Interrupted(15)

    monkeypatch.setattr(remote_preparation._Copy, "upload_shard", stop_after_three)
    with pytest.raises(Interrupted):
        remote_preparation.prepare(data, folder, **HOW)
    lines = []
    with log_to(lines.append):
        remote_preparation.prepare(data, folder, **HOW)
    assert any("3 of 18 shards are complete already" in line for line in lines)
    assert store.contents(OUTPUT) == expected


@pytest.mark.slow
def test_damage_is_found_and_made_good(data, store, tmp_path):  # noqa: F811
    folder = as_path(OUTPUT)
    expected = in_one(data, tmp_path / "folder")
    remote_preparation.prepare(data, folder, **HOW)
    lengths = f"{OUTPUT}/train-00004/lengths.npy"
    content = bytearray(store.cat_file(lengths))
    content[-1] ^= 1
    store.pipe_file(lengths, bytes(content))
    with pytest.raises(DamagedShardError, match=rf"{lengths}: its SHA-256 is .*, not"):
        remote_preparation.verify(folder)
    store.rm_file(f"{OUTPUT}/train-00002/source.npy")
    remote_preparation.prepare(data, folder, **HOW)
    assert store.contents(OUTPUT) == expected
    store.rm_file(f"{OUTPUT}/train-00007/shard.json")
    store.rm_file(f"{OUTPUT}/train-00009/target.npy")
    with pytest.raises(DamagedShardError, match=r"train-00009/target\.npy: No such fi"):
        remote_preparation.verify(folder)
    remote_preparation.prepare(data, folder, **HOW)
    assert store.contents(OUTPUT) == expected


@pytest.mark.slow
def test_two_writers_of_a_part_do_not_disturb_each_other(data, store, tmp_path):  # noqa: F811
    expected = in_one(data, tmp_path / "folder")
    folder = as_path(OUTPUT)
    remote_preparation.begin(data, folder, **HOW)
    real = remote_preparation._Copy.upload_shard
    begun = []

    def other_writer_first(self, shard):
        if not begun:
            begun.append(shard)
            remote_preparation.write_part(data, folder, (1, 1), **HOW)
        real(self, shard)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_preparation._Copy, "upload_shard", other_writer_first)
        remote_preparation.write_part(data, folder, (1, 1), **HOW)
    remote_preparation.join(data, folder)
    remote_preparation.join(data, folder)
    assert store.contents(OUTPUT) == expected


def test_errors_name_the_store_and_not_a_folder(data, store, tmp_path):  # noqa: F811
    folder = as_path(OUTPUT)
    with pytest.raises(UserError, match=rf"No records have been begun in {OUTPUT}\."):
        remote_preparation.write_part(data, folder, (1, 2), **HOW)
    remote_preparation.begin(data, folder, **HOW)
    with pytest.raises(UserError, match=rf"18 of 18 shards in {OUTPUT} are missing"):
        remote_preparation.join(data, folder)
    with pytest.raises(UserError, match=rf"The records in {OUTPUT} are not finished"):
        remote_preparation.verify(folder)
    changed = dataclasses.replace(data, max_length=7)
    with pytest.raises(UserError, match=rf"{OUTPUT} holds records of other settings"):
        remote_preparation.prepare(changed, folder, **HOW)
    store.fail("put_file", PermissionError("Access Denied"), ending="probe")
    store.requests.clear()
    with pytest.raises(UserError, match=r"cannot be written: Access Denied\. Check"):
        remote_preparation.prepare(data, folder, **HOW)
    assert len(store.requests) == 1  # before any work
    store.fail("cat_file", HttpError(500), ending="making.json", times=5)
    with pytest.raises(UserError, match=rf"^{OUTPUT}/making\.json cannot be read: st"):
        read_spec(folder)  # an error of the moment is no damage


@pytest.mark.slow
def test_stores_that_fail_now_and_then_lose_nothing(data, store, tmp_path):  # noqa: F811
    moved = on_store(store, data)
    expected = in_one(moved, tmp_path / "folder")
    store.drawn = random.Random(6)
    remote_parts(moved, OUTPUT, 3)
    store.drawn = None
    assert store.contents(OUTPUT) == expected


# --- Training on records


@pytest.fixture
def prepared(config, data, store):  # noqa: F811
    """Settings of a run on records of the store."""
    with log_to([].append):
        remote_preparation.prepare(data, as_path(OUTPUT), **HOW, keep_text=True)
    store.requests.clear()
    config = dataclasses.replace(config, data=data)
    return make_paths_absolute(replace_settings(config, "data", records=OUTPUT))


def fetched(store):
    """Names of the objects that have been read, of shards."""
    return [
        path.removeprefix(f"{OUTPUT}/")
        for name, path in store.requests
        if name == "cat_file" and "/train-" in path
    ]


@pytest.mark.slow
def test_batches_are_those_of_a_folder(config, data, store, prepared, tmp_path):  # noqa: F811
    assert prepared.data.records == OUTPUT
    in_one(data, tmp_path / "folder", keep_text=True)
    local = replace_settings(prepared, "data", records=str(tmp_path / "folder"))
    for sampling in (0.0, 0.2):
        opened = []
        for number, each in enumerate((prepared, local)):
            own = replace_settings(each, "data", subword_sampling=sampling)
            with log_to([].append):
                run = ModelDir(tmp_path / f"run{number}-{sampling}")
                opened.append(open_data(own, run))
        assert opened[0].fingerprint == opened[1].fingerprint
        assert_same_batches(*opened, epochs=2)
    part = dataclasses.replace(
        prepared.data, records=None, mixture=(f"{OUTPUT}:2",), vocabulary_file=None
    )
    part = dataclasses.replace(part, vocabulary_file=f"{OUTPUT}/vocabulary.model")
    with log_to([].append):
        mixed = open_data(
            dataclasses.replace(prepared, data=part), ModelDir(tmp_path / "mixed")
        )
    assert len(mixed.train) == 2 * len(opened[1].train)


@pytest.mark.slow
def test_a_shard_is_fetched_once_and_again_if_it_is_damaged(store, prepared, tmp_path):
    cache = tmp_path / "own" / "cache"
    settings = replace_settings(prepared, "data", records_cache=str(cache))
    runs = itertools.count()

    def open_again():
        store.requests.clear()
        lines = []
        with log_to(lines.append):
            open_data(settings, ModelDir(tmp_path / f"run{next(runs)}"))
        return {name[:11] for name in fetched(store)}, lines

    assert len(open_again()[0]) == 18
    assert open_again()[0] == set()
    (copy,) = cache.iterdir()
    file = copy / "train-00005" / "source.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # only its hash tells
    file.write_bytes(content)
    shutil.rmtree(copy / "train-00011")
    shards, lines = open_again()
    assert shards == {"train-00005", "train-00011"}
    assert any("damaged, and copied again" in line for line in lines)
    assert not (tmp_path / "cache").exists()
    # Other records at the same place are not those of before.
    store.rm("memory://bucket/records", recursive=True)
    other = dataclasses.replace(settings.data, records=None, vocabulary_size=278)
    remote_preparation.prepare(other, as_path(OUTPUT), **HOW, keep_text=True)
    settings = replace_settings(settings, "data", vocabulary_size=278)
    assert len(open_again()[0]) == 18
    assert len(list(cache.iterdir())) == 2


def test_a_shard_that_is_not_that_of_the_manifest_is_refused(store, prepared, tmp_path):
    run = ModelDir(tmp_path / "run")
    name = f"{OUTPUT}/train-00003/target.npy"
    content = store.cat_file(name)
    store.pipe_file(name, content[:-1] + b"\xff")
    with pytest.raises(DamagedShardError, match=rf"{name}: its SHA-256 is"):
        open_data(prepared, run)
    store.rm_file(name)
    with pytest.raises(DamagedShardError, match=rf"{name}: No such file"):
        open_data(prepared, run)
    assert not list((tmp_path / "cache").rglob("train-00003"))
    store.pipe_file(name, content)
    store.requests.clear()
    open_data(prepared, run)
    assert "train-00002/target.npy" not in fetched(store)
    assert "train-00003/target.npy" in fetched(store)


def test_a_full_disk_is_told(store, prepared, tmp_path, monkeypatch):
    def full(source, target, *_):
        target.write(source.read(10))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("t2t_keras.files.remote.shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        open_data(prepared, ModelDir(tmp_path / "run"))
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value.filename).startswith(str(tmp_path / "cache"))
    assert not list((tmp_path / "cache").rglob("*train*"))


def test_processes_of_a_host_share_the_cache(store, prepared, tmp_path):
    """Two fetch at the same time, one of them slowly; each file comes once."""
    manifest = read_manifest(as_path(OUTPUT))
    errors, folders = [], []

    def fetch():
        try:
            folders.append(remote_records.local_shards(as_path(OUTPUT), manifest, None))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(set(folders)) == 1
    names = fetched(store)
    assert len(names) == len(set(names)) > 18
    assert {path.name for path in folders[0].iterdir()} == {
        "length_counts.npy",
        *(shard.name for shard in manifest.shards),
    }


def test_reading_again_after_errors_of_the_moment(store, prepared, tmp_path):
    store.fail("cat_file", HttpError(503), ending=".npy", times=2)
    store.fail("cat_file", cut=5, ending="target.npy", times=2)
    store.fail("cat_file", ConnectionResetError(), ending="manifest.json")
    lines = []
    with log_to(lines.append):
        open_data(prepared, ModelDir(tmp_path / "run"))
    assert sum("could not be read" in line for line in lines) == 5
    shutil.rmtree(tmp_path / "cache")
    store.fail("cat_file", HttpError(429), ending="lengths.npy", times=5)
    with pytest.raises(UserError, match=r"lengths\.npy cannot be read: status 429"):
        open_data(prepared, ModelDir(tmp_path / "run"))
    open_data(prepared, ModelDir(tmp_path / "run"))


def test_model_directories_are_refused(store):
    for url in ("s3://b/run", "gs://b/run", OUTPUT):
        with pytest.raises(UserError, match=rf"{url} is on an object store\. Checkpoi"):
            ModelDir(url)
