"""Records: equal to the same corpus in memory; damage is reported."""

import dataclasses
import hashlib
import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.input_pipeline.records.manifest import (
    Manifest,
    RecordSpec,
    open_records,
    open_vocabulary,
    read_manifest,
    read_spec,
    text_files,
    verify_records,
    write_length_counts,
)
from t2t_keras.input_pipeline.records.mapped import MappedPairs, MappedSide
from t2t_keras.input_pipeline.records.shards import (
    ShardArrays,
    ShardContent,
    open_shard,
    write_shard,
)
from tests.input_pipeline.made_up import random_corpus

# Uneven shards, including one of a single pair and an empty one.
CUTS = (0, 31, 32, 32, 80, 130)


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(130, longest=24, seed=21)


@pytest.fixture
def folder(corpus, vocabulary, tmp_path):
    """Finished records of the corpus."""
    shards = []
    for number, (begin, end) in enumerate(itertools.pairwise(CUTS)):
        indices = np.arange(begin, end)
        source, target = (
            side.gather(indices)[0] for side in (corpus.source, corpus.target)
        )
        decisions = np.zeros(end - begin, np.uint8)
        content = ShardContent((source, target), corpus.lengths[begin:end], decisions)
        shards.append(write_shard(tmp_path, number, content, "d" * 64))
    vocabulary.save(tmp_path / "vocabulary.model")
    (tmp_path / "dev.source").write_text("a\nb\n")
    (tmp_path / "dev.target").write_text("A\nB\n")
    source, target = text_files(tmp_path, "dev")
    spec = RecordSpec(
        settings={"max_length": 24, "train_source": ["a", "b"], "dataset": None},
        corpus="made up",
        text_lines=len(corpus),
        text_sha256="f" * 64,
        vocabulary_size=vocabulary.size,
        vocabulary_sha256=vocabulary.sha256,
        pairs_per_shard=31,
        max_length=24,
    )
    texts = {"dev": open_parallel_text([source], [target]).sha256()}
    lengths_sha256 = write_length_counts(
        tmp_path, LengthCounts.from_lengths(corpus.lengths)
    )
    known = "2-" + "e" * 64, 130, corpus.report, {}, tuple(shards), texts
    manifest = Manifest(spec, *known, lengths_sha256)
    (tmp_path / "making.json").write_text(spec.to_json())
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    return tmp_path


def test_gathering_equals_that_of_the_corpus_in_memory(folder, corpus):
    records = open_records(folder, read_manifest(folder))
    assert len(records) == len(corpus)
    np.testing.assert_array_equal(records.lengths, corpus.lengths)
    random = np.random.default_rng(5)
    for indices in (
        *(random.integers(0, 130, count) for count in (0, 1, 9, 300)),
        np.arange(130),
        np.array([31, 31]),
    ):
        for side in ("source", "target"):
            gathered = getattr(records, side).gather(indices)
            expected = getattr(corpus, side).gather(indices)
            for one, other in zip(gathered, expected, strict=True):
                np.testing.assert_array_equal(one, other)
            assert gathered[0].dtype == np.uint16


def test_any_pairs_of_any_shards_are_found():
    """Against adding up all lengths, also in a shard of more than four gigatokens."""
    random = np.random.default_rng(7)
    shards, rows = [], []
    for size in (0, 1, 15, 16, 17, 300, 0, 129):
        lengths = random.integers(1, 9, [size, 2]).astype(np.uint16)
        ends = np.cumsum(lengths, axis=0, dtype=np.int64).reshape(-1, 2)
        tokens = [
            random.integers(1, 60_000, n).astype(np.uint16) for n in ends[-1:].sum(0)
        ]
        starts = (ends - lengths)[::16].astype(np.uint64)
        shards.append(ShardArrays((tokens[0], tokens[1]), lengths, starts))
        for end, own in zip(ends, lengths, strict=True):
            rows.append(
                [t[e - n : e] for t, e, n in zip(tokens, end, own, strict=True)]
            )
    pairs = MappedPairs([len(s.lengths) for s in shards], shards.__getitem__)
    assert len(pairs) == len(rows) == 478
    for count in (0, 1, 40, 900):
        indices = random.integers(0, len(rows), count)
        expected = [[len(side) for side in rows[i]] for i in indices]
        assert pairs.gather(indices).tolist() == expected
        for side in (0, 1):
            tokens, lengths = MappedSide(pairs, side).gather(indices)
            flat = [token for i in indices for token in rows[i][side].tolist()]
            assert tokens.tolist() == flat and tokens.dtype == np.uint16
            assert lengths.tolist() == [pair[side] for pair in expected]
    for begin, end in ((0, 478), (0, 0), (5, 6), (60, 140), (340, 478)):
        expected = [[len(side) for side in pair] for pair in rows[begin:end]]
        assert pairs.read(begin, end).tolist() == expected
    assert MappedSide(pairs, 1).lengths.tolist() == [len(pair[1]) for pair in rows]
    lengths = np.array([[1 << 31, 1], [(1 << 31) - 1, 1], [2, 1]])
    huge = np.broadcast_to(np.uint16(7), [(1 << 32) + 1])
    shard = ShardArrays((huge, huge), lengths, np.zeros([1, 2], np.uint64))
    side = MappedSide(MappedPairs([3], [shard].__getitem__), 0)
    assert side.gather(np.array([2]))[0].tolist() == [7, 7]


WITH_FEW_FILES = """
import pathlib, resource, sys
import numpy as np
from t2t_keras.input_pipeline.records.manifest import open_records, read_manifest
from t2t_keras.input_pipeline.records.mapped import MappedPairs, MappedSide
soft, hard = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
folder = pathlib.Path(sys.argv[1])
records = open_records(folder, read_manifest(folder))
for _ in range(2):
    for side in (records.source, records.target):
        for indices in (np.arange(len(records)), *np.arange(len(records))[:, None]):
            print(*side.gather(indices)[0])
print(records.mapped.shard.cache_info().currsize)
records.mapped.shard.cache_clear()
# A batch from more shards than can be open.
again = MappedPairs([31] * 60, lambda number: records.mapped.shard.__wrapped__(0))
print(*MappedSide(again, 0).gather(np.arange(60 * 31))[0])
"""


@pytest.mark.parametrize(("hard", "open_shards"), [(20, 2), (200, len(CUTS) - 1)])
def test_more_shards_than_files_may_be_open(folder, corpus, hard, open_shards):
    printed = subprocess.run(
        [sys.executable, "-c", WITH_FEW_FILES, folder, "20", str(hard)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    expected = [
        " ".join(map(str, side.gather(indices)[0]))
        for side in (corpus.source, corpus.target)
        for indices in (np.arange(130), *np.arange(130)[:, None])
    ]
    again = " ".join(map(str, np.tile(corpus.source.gather(np.arange(31))[0], 60)))
    assert printed == [*expected, *expected, str(open_shards), again]


def test_nothing_of_an_open_corpus_is_in_memory(folder, corpus):
    records = open_records(folder, read_manifest(folder))
    for number in range(records.mapped.num_shards):
        shard = records.mapped.shard(number)
        for array in (*shard.tokens, shard.lengths, shard.starts):
            assert isinstance(array.base, np.memmap) or not array.size
    indices = np.array([129, 0, 77])
    np.testing.assert_array_equal(
        records.pair_lengths(indices), corpus.lengths[indices]
    )
    np.testing.assert_array_equal(records.read(20, 90), corpus.lengths[20:90])
    assert "lengths" not in vars(records)
    assert records.lengths is records.lengths  # from then on they are
    np.testing.assert_array_equal(records.read(20, 90), corpus.lengths[20:90])
    for name, array in LengthCounts.from_lengths(corpus.lengths)._asdict().items():
        np.testing.assert_array_equal(getattr(records.counts, name), array)
    (folder / "length_counts.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"length_counts\.npy: its SHA-256 is not"):
        open_records(folder, read_manifest(folder))
    (folder / "length_counts.npy").unlink()
    with pytest.raises(UserError, match=r"length_counts\.npy: No such file"):
        verify_records(folder)


def test_the_manifest_comes_back_as_it_was(folder):
    manifest = read_manifest(folder)
    assert json.loads(manifest.to_json()) == json.loads(
        (folder / "manifest.json").read_text()
    )
    assert manifest.spec == read_spec(folder)
    assert manifest.report.pairs_kept == 130
    for shard in manifest.shards:
        open_shard(folder / shard.name, shard)


def test_records_that_are_not_there_or_not_finished(folder, tmp_path):
    with pytest.raises(UserError, match=r"no records in .*: it has no manifest\.json"):
        read_manifest(tmp_path / "elsewhere")
    assert read_spec(tmp_path / "elsewhere") is None
    (folder / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"not finished\. Run t2t_keras\.prepare again"):
        read_manifest(folder)


@pytest.mark.parametrize("name", ["making.json", "manifest.json"])
def test_damaged_fields_are_named(folder, name):
    file = folder / name
    read = {"making.json": read_spec, "manifest.json": read_manifest}[name]
    fields = json.loads(file.read_text())
    incomplete = [
        {key: fields[key] for key in fields if key != left} for left in fields
    ]
    for text in ("", "{", "[]", *map(json.dumps, incomplete)):
        file.write_text(text)
        with pytest.raises(UserError, match=rf"{name} is damaged: .* Put the original"):
            read(folder)


def make_old(folder):
    """Turns records into those of release 0.9, as its sources describe them."""
    for path in sorted(folder.glob("train-*")):
        lengths = np.load(path / "lengths.npy").astype(np.int32)
        np.save(path / "lengths.npy", lengths)
        for name in ("starts.npy", "decisions.npy"):
            (path / name).unlink()
        fields = json.loads((path / "shard.json").read_text())
        del fields["making"]
        fields["sha256"] = {
            name: hashlib.sha256((path / name).read_bytes()).hexdigest()
            for name in ("source.npy", "target.npy", "lengths.npy")
        }
        (path / "shard.json").write_text(json.dumps(fields))
    making = json.loads((folder / "making.json").read_text())
    making.update(fingerprint="a" * 64, text_pairs=making["text_lines"], format=1)
    del making["text_lines"], making["text_sha256"]
    (folder / "making.json").write_text(json.dumps(making))
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = [
        json.loads((folder / each["name"] / "shard.json").read_text())
        for each in manifest["shards"]
    ]
    kept = {name: manifest[name] for name in ("report", "texts")}
    manifest = {"making": making, **kept, "shards": shards}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_records_of_earlier_releases_are_read(folder, corpus):
    make_old(folder)
    manifest = verify_records(folder)
    assert manifest.fingerprint == "a" * 64
    assert (manifest.text_pairs, manifest.filters) == (130, {})
    assert read_spec(folder) == manifest.spec
    records = open_records(folder, manifest)
    np.testing.assert_array_equal(records.lengths, corpus.lengths)
    indices = np.random.default_rng(5).permutation(130)
    for side in ("source", "target"):
        gathered = getattr(records, side).gather(indices)[0]
        expected = getattr(corpus, side).gather(indices)[0]
        np.testing.assert_array_equal(gathered, expected)


def test_another_format_is_refused(folder):
    spec = dataclasses.replace(read_spec(folder), format=3)
    (folder / "making.json").write_text(spec.to_json())
    with pytest.raises(UserError, match=r"of format 3, and this release reads 1 and 2"):
        read_spec(folder)


def test_a_shard_that_is_missing_is_named(folder):
    manifest = read_manifest(folder)
    (folder / "train-00003" / "source.npy").unlink()
    with pytest.raises(UserError, match=r"damaged: .*train-00003/source\.npy: No such"):
        open_records(folder, manifest)


def test_verifying_reads_everything(folder):
    manifest = read_manifest(folder)
    assert verify_records(folder) == manifest
    for name in (
        *(f"{f.name}/{file}" for f in manifest.shards for file in f.sha256),
        "dev.target",
        "vocabulary.model",
        "length_counts.npy",
    ):
        content = (folder / name).read_bytes()
        flipped = bytes([content[-2] ^ 1])
        (folder / name).write_bytes(content[:-2] + flipped + content[-1:])
        with pytest.raises(UserError, match=name.rpartition("/")[2]):
            verify_records(folder)
        (folder / name).write_bytes(content)
    assert verify_records(folder) == manifest


def test_another_vocabulary_is_refused(folder):
    spec = read_manifest(folder).spec
    assert open_vocabulary(folder, spec).sha256 == spec.vocabulary_sha256
    other = dataclasses.replace(spec, vocabulary_sha256="0" * 64)
    with pytest.raises(UserError, match=r"\.model is not the vocabulary of these"):
        open_vocabulary(folder, other)
