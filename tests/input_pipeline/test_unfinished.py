"""Shards of unfinished records: what is written, what is missing, and joining them."""

import collections
import functools
import itertools
import os
import random
import shutil
import threading
from fractions import Fraction

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.corpora.filters import (
    IsDuplicate,
    copied,
    exceeds_length_ratio,
)
from t2t_keras.input_pipeline.corpora.fingerprints import (
    derived_fingerprint,
    fingerprint_of,
    hash_pairs,
)
from t2t_keras.input_pipeline.corpora.line_reader import ChunkReader
from t2t_keras.input_pipeline.records import joining, unfinished
from t2t_keras.input_pipeline.records.joining import join_shards
from t2t_keras.input_pipeline.records.line_encoder import LineEncoding
from t2t_keras.input_pipeline.records.manifest import RecordSpec
from t2t_keras.input_pipeline.records.shards import (
    check_shard,
    open_shard,
    read_decisions,
    read_lines,
)
from t2t_keras.input_pipeline.records.unfinished import find_complete, write_shards
from t2t_keras.text.normalization import normalize
from tests.input_pipeline.made_up import made_up_pairs

MAX_LENGTH = 20
FILTERS = (
    ("ratio", functools.partial(exceeds_length_ratio, Fraction(6), "words")),
    ("duplicates", IsDuplicate),
    ("copied", copied),
)
NAMES = [name for name, _ in FILTERS]


@functools.cache
def make_pairs():
    """Returns pairs of which many are equal, some in the same shard, some blank."""
    generator = random.Random(8)
    pairs = made_up_pairs(90, seed=8)
    pairs += generator.choices(pairs, k=40) + [(s, s) for s, _ in pairs[:6]] * 2
    pairs += [("", "a"), ("  ", ""), *pairs[:3]]
    generator.shuffle(pairs)
    return [(s.encode(), t.encode()) for s, t in pairs]


def open_chunks(size=7):
    for part in (
        itertools.batched(make_pairs(), size)
        if hasattr(itertools, "batched")
        else (make_pairs()[i : i + size] for i in range(0, len(make_pairs()), size))
    ):
        source, target = zip(*part, strict=True)
        yield list(source), list(target)


@pytest.fixture(scope="module")
def spec(vocabulary):
    return RecordSpec(
        settings={"filter": NAMES},
        corpus="made up",
        text_lines=len(make_pairs()),
        text_sha256="f",
        vocabulary_size=vocabulary.size,
        vocabulary_sha256=vocabulary.sha256,
        pairs_per_shard=25,
        max_length=MAX_LENGTH,
    )


@pytest.fixture(scope="module")
def encoding(vocabulary):
    return LineEncoding(vocabulary.to_bytes(), MAX_LENGTH, FILTERS, keep_text=True)


def write(folder, spec, encoding, shards=None, reports=None):
    reader = ChunkReader(open_chunks, spec.text_lines)
    shards = range(spec.num_shards) if shards is None else shards
    lines = (
        raw
        for number in shards
        for raw in reader.read(spec.lines_of(number).start, spec.lines_of(number).stop)
    )

    def on_progress(metadata):
        if reports is not None:
            reports.append(metadata.name)

    write_shards(folder, spec, lines, encoding, 0, on_progress)


@pytest.fixture(scope="module")
def written(spec, encoding, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    write(folder, spec, encoding)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "records")


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.suffix != ".npz"  # which has the time
    }


def decide_one_by_one(vocabulary):
    """Returns each line's decision, as a program with a set and a loop finds it."""
    decisions, seen = [], set()
    for pair in make_pairs():
        source, target = normalize(pair[0]), normalize(pair[1])
        counts = sorted((len(source.split()), len(target.split())))
        if not counts[0]:
            decisions.append("blank")
        elif counts[1] > 6 * counts[0]:
            decisions.append("ratio")
        elif (source, target) in seen:
            decisions.append("duplicates")
        else:
            seen.add((source, target))
            lengths = [len(vocabulary.encode(side)) for side in pair]
            if source == target:
                decisions.append("copied")
            else:
                decisions.append("long" if max(lengths) > MAX_LENGTH else "kept")
    return decisions


@pytest.mark.parametrize("sorted_bytes", [1 << 20, 300])
def test_joined_shards_are_what_a_loop_over_all_lines_gives(
    folder, spec, vocabulary, monkeypatch, sorted_bytes
):
    monkeypatch.setattr(joining, "_SORTED_BYTES", sorted_bytes)
    joined = join_shards(folder, spec, NAMES, None)
    decisions = decide_one_by_one(vocabulary)
    counts = collections.Counter(decisions)
    assert min(counts.values()) > 1 and len(counts) == 6
    assert joined.filters == {name: counts[name] for name in NAMES}
    assert joined.text_pairs == counts["kept"] + counts["long"]
    codes = {"kept": 0, "blank": 1, "long": 3, "ratio": 4, "duplicates": 5, "copied": 6}
    found = [
        decision
        for shard in joined.shards
        for decision in read_decisions(folder / shard.name, shard).tolist()
    ]
    assert found == [codes[each] for each in decisions]
    kept = [p for p, why in zip(make_pairs(), decisions, strict=True) if why == "kept"]
    text, rows = [], []
    for shard in joined.shards:
        check_shard(folder / shard.name, shard)
        arrays = open_shard(folder / shard.name, shard)
        assert arrays.lengths.dtype == np.uint16
        starts = np.load(folder / shard.name / "starts.npy")
        ends = np.cumsum(arrays.lengths, axis=0)
        assert starts.tolist() == (ends - arrays.lengths)[::16].tolist()
        sides = [iter(tokens.tolist()) for tokens in arrays.tokens]
        rows += [
            tuple(list(itertools.islice(s, n)) for s, n in zip(sides, ns, strict=True))
            for ns in arrays.lengths.tolist()
        ]
        for source, target in read_lines(folder / shard.name, shard):
            text += zip(source, target, strict=True)
    assert text == kept
    assert rows == [tuple(map(vocabulary.encode, pair)) for pair in kept]
    total = sum((s.report for s in joined.shards[1:]), joined.shards[0].report)
    assert total.pairs_kept == len(kept)
    assert total.dropped_empty == counts["blank"]
    assert total.dropped_by_filters == sum(counts[name] for name in NAMES)
    # The fingerprint is that of training on the text.
    pairs = [
        p for p, why in zip(make_pairs(), decisions, strict=True) if why != "blank"
    ]
    is_kept = np.array([d in ("kept", "long") for d in decisions if d != "blank"])
    whole = fingerprint_of([hash_pairs(*zip(*pairs, strict=True))])
    assert joined.fingerprint == derived_fingerprint(whole, [is_kept])


def test_joining_can_be_repeated_after_a_kill(folder, spec, monkeypatch):
    class Killed(BaseException):
        pass

    whole = shutil.copytree(folder, folder.with_name("whole"))
    expected = join_shards(whole, spec, NAMES, None)
    write_shard = joining.write_shard
    for rewritten in range(3):
        left = [rewritten]

        def write_some(*arguments, left=left, **settings):
            if not left[0]:
                raise Killed
            left[0] -= 1
            return write_shard(*arguments, **settings)

        monkeypatch.setattr(joining, "write_shard", write_some)
        with pytest.raises(Killed):
            join_shards(folder, spec, NAMES, None)
    monkeypatch.undo()
    assert join_shards(folder, spec, NAMES, None) == expected
    assert join_shards(folder, spec, NAMES, None) == expected
    assert contents(folder) == contents(whole)


def test_what_cannot_be_joined_is_named(folder, spec, encoding):
    for number in (1, 3):
        shutil.rmtree(folder / f"train-0000{number}")
    unfinished.hash_file(folder, 4).unlink()
    with pytest.raises(UserError, match=r"3 of 6 shards in .*: train-00001, train-000"):
        join_shards(folder, spec, NAMES, None)
    write(folder, spec, encoding, (1, 3, 4))
    damaged = unfinished.hash_file(folder, 2)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-9])
    with pytest.raises(UserError, match=r"train-00002\.npz is missing or damaged"):
        join_shards(folder, spec, NAMES, None)
    damaged.write_bytes(content)
    other = RecordSpec(**{**vars(spec), "vocabulary_sha256": "0"})
    with pytest.raises(UserError, match=r"train-00000 is a shard of other records: "):
        join_shards(folder, other, NAMES, None)
    (folder / "train-00005" / "decisions.npy").unlink()
    with pytest.raises(UserError, match=r"train-00005/decisions\.npy: No such file"):
        join_shards(folder, spec, NAMES, None)


def test_only_what_is_missing_is_written(folder, written, spec, encoding):
    shutil.rmtree(folder / "train-00000")
    file = folder / "train-00002" / "target.npy"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    (folder / "train-00004" / "shard.json").unlink()
    (folder / ".train-00001.host.7.tmp").mkdir()
    unfinished.hash_file(folder, 5).unlink()
    warnings = []
    shards = range(spec.num_shards)
    with log_to(warnings.append):
        complete = find_complete(folder, spec, shards)
    assert complete == {1, 3}
    assert find_complete(folder, spec, shards, needs_hashes=False) == {1, 3, 5}
    assert warnings[0].startswith(
        f"warning: damaged, and made again: {file}: its SHA-256"
    )
    assert warnings[1].endswith("train-00004/shard.json: No such file or directory")
    before = {n: os.stat(folder / f"train-0000{n}").st_ino for n in (1, 3, 5)}
    reports = []
    write(folder, spec, encoding, [0, 2, 4, 5], reports)
    assert reports == [f"train-0000{n}" for n in (0, 2, 4, 5)]
    assert contents(folder) == contents(written)
    # Also the one that was written again for its hashes.
    assert before == {n: os.stat(folder / f"train-0000{n}").st_ino for n in (1, 3, 5)}


def test_two_that_write_at_once_leave_one_result(written, spec, encoding, tmp_path):
    threads = [
        threading.Thread(target=write, args=(tmp_path, spec, encoding, order))
        for order in (range(6), range(6))
    ]
    names = iter("ab")
    with pytest.MonkeyPatch.context() as patch:
        hosts = collections.defaultdict(lambda: next(names))
        patch.setattr("socket.gethostname", lambda: hosts[threading.get_ident()])
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert contents(tmp_path) == contents(written)
    assert not list(tmp_path.glob(".*"))


def test_the_lines_of_shards(spec):
    lines = [line for number in range(6) for line in spec.lines_of(number)]
    assert lines == list(range(spec.text_lines))
    counts = [RecordSpec(**{**vars(spec), "text_lines": n}) for n in (0, 1, 25, 26)]
    assert [each.num_shards for each in counts] == [0, 1, 1, 2]
