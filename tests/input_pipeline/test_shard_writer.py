"""Shard writer: pairs of each shard, rewriting of damaged shards, warnings."""

import dataclasses
import itertools
import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.records import encoders
from t2t_keras.input_pipeline.records.encoders import Pace
from t2t_keras.input_pipeline.records.manifest import RecordSpec
from t2t_keras.input_pipeline.records.shard_writer import (
    cut_into_pieces,
    find_intact_shards,
    write_shards,
)
from t2t_keras.input_pipeline.records.shards import check_shard, open_shard
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport
from tests.input_pipeline.made_up import made_up_pairs

PAIRS = made_up_pairs(103, seed=8)
MAX_LENGTH = 20


def cut_into_chunks(size, pairs=PAIRS):
    texts = [(s.encode(), t.encode()) for s, t in pairs]
    for start in range(0, len(texts), size):
        source, target = zip(*texts[start : start + size], strict=True)
        yield list(source), list(target)


@pytest.fixture(scope="module")
def spec(vocabulary):
    return RecordSpec(
        settings={},
        corpus="made up",
        fingerprint="f",
        text_pairs=len(PAIRS),
        vocabulary_size=vocabulary.size,
        vocabulary_sha256=vocabulary.sha256,
        pairs_per_shard=25,
        max_length=MAX_LENGTH,
    )


@pytest.fixture(scope="module")
def complete(spec, vocabulary, tmp_path_factory):
    """Folder of finished shards, and their metadata."""
    folder = tmp_path_factory.mktemp("made")
    return folder, make(folder, spec, vocabulary)


def make(folder, spec, vocabulary, present=(), chunks=None, reports=None):
    def on_progress(shard, _):
        if reports is not None:
            reports.append(shard)

    return write_shards(
        folder,
        spec,
        cut_into_chunks(7) if chunks is None else chunks,
        vocabulary,
        present=dict(present),
        workers=1,
        on_progress=on_progress,
    )


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_piece_is_in_one_shard_and_none_is_lost():
    for sizes in ((7, 25), (25, 7), (1, 1), (200, 103)):
        size, per_shard = sizes
        pieces = list(cut_into_pieces(cut_into_chunks(size), per_shard))
        texts = [
            (piece.shard, pair)
            for piece in pieces
            for pair in zip(piece.source, piece.target, strict=True)
        ]
        expected = [(n // per_shard, pair) for n, pair in enumerate(PAIRS)]
        decoded = [(n, (s.decode(), t.decode())) for n, (s, t) in texts]
        assert decoded == expected, sizes
        assert all(len(piece.source) <= min(sizes) for piece in pieces), sizes


def test_shards_hold_the_pairs_as_the_vocabulary_encodes_them(complete, vocabulary):
    folder, shards = complete
    assert [each.text_pairs for each in shards] == [25, 25, 25, 25, 3]
    assert sorted(os.listdir(folder)) == [each.name for each in shards]
    rows = []
    for each in shards:
        check_shard(folder / each.name, each)
        shard = open_shard(folder / each.name, each)
        sides = [iter(tokens.tolist()) for tokens in shard.tokens]
        rows += [
            tuple(list(itertools.islice(s, n)) for s, n in zip(sides, ns, strict=True))
            for ns in shard.lengths.tolist()
        ]
    encoded = [(vocabulary.encode(s), vocabulary.encode(t)) for s, t in PAIRS]
    kept = [pair for pair in encoded if max(map(len, pair)) <= MAX_LENGTH]
    assert rows == kept
    assert 0 < len(kept) < len(PAIRS)
    total = sum((e.report for e in shards), TokenizationReport())
    assert (total.pairs_kept, total.dropped_over_long) == (
        len(kept),
        len(PAIRS) - len(kept),
    )


def test_only_what_is_missing_is_made(complete, spec, vocabulary, tmp_path):
    folder, shards = complete
    for number in (0, 3):
        os.rename(folder / shards[number].name, tmp_path / shards[number].name)
    warnings, reports = [], []
    with log_to(warnings.append):
        present = find_intact_shards(folder, spec.num_shards)
    assert (sorted(present), warnings) == ([1, 2, 4], [])
    before = {n: (folder / shards[n].name).stat().st_mtime_ns for n in present}
    again = make(folder, spec, vocabulary, present, reports=reports)
    assert again == shards
    assert reports == ["train-00000", "train-00003"]
    assert before == {n: (folder / shards[n].name).stat().st_mtime_ns for n in present}
    for number in (0, 3):
        name = shards[number].name
        assert contents(folder / name) == contents(tmp_path / name)


def test_nothing_is_read_where_nothing_is_missing(complete, spec, vocabulary):
    folder, shards = complete
    present = find_intact_shards(folder, spec.num_shards)

    def never():
        raise AssertionError("the text was read")
        yield

    assert make(folder, spec, vocabulary, present, chunks=never()) == shards


def test_a_damaged_shard_is_logged_and_written_again(complete, spec, vocabulary):
    folder, shards = complete
    before = contents(folder)
    file = folder / shards[2].name / "target.npy"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    (folder / shards[4].name / "shard.json").unlink()
    for left in (".train-00001.tmp", ".making-train-00001-x"):
        (folder / left).mkdir()
    warnings = []
    with log_to(warnings.append):
        present = find_intact_shards(folder, spec.num_shards)
    assert sorted(present) == [0, 1, 3]
    assert warnings[0].startswith(
        f"warning: damaged, and made again: {file}: its SHA-256"
    )
    assert warnings[1].endswith("train-00004/shard.json: No such file or directory")
    assert make(folder, spec, vocabulary, present) == shards
    assert contents(folder) == before


@pytest.mark.parametrize("pairs", [PAIRS[:-1], [*PAIRS, ("the", "Haus")]])
def test_text_that_changes_meanwhile_is_refused(spec, vocabulary, tmp_path, pairs):
    with pytest.raises(UserError, match=rf"103 pairs when .* {len(pairs)} when it was"):
        make(tmp_path, spec, vocabulary, chunks=cut_into_chunks(9, pairs))


def test_the_pace_is_of_what_was_made_since_the_start(spec, complete, monkeypatch):
    _, shards = complete
    now = [100.0]
    monkeypatch.setattr(encoders.time, "monotonic", lambda: now[0])
    pace = Pace(spec.text_pairs, pairs_present=50)
    now[0] = 105.0
    pace.add(shards[3].text_pairs)
    assert (pace.pairs_done, pace.seconds, pace.pairs_per_second) == (75, 5.0, 5.0)
    assert pace.describe() == "75/103 pairs  5 pairs/s"
    assert pace.seconds_left == pytest.approx((103 - 75) / 5.0)


def test_the_number_of_shards(spec):
    counts = [
        dataclasses.replace(spec, text_pairs=n).num_shards for n in (0, 1, 25, 26)
    ]
    assert counts == [0, 1, 1, 2]
