"""Index of lines: any lines of any files, read from it, against splitting all."""

import bz2
import gzip
import lzma
import random

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files import text_checks
from t2t_keras.input_pipeline.corpora import line_index, line_reader
from t2t_keras.input_pipeline.corpora.line_index import IndexedText, index_text
from t2t_keras.input_pipeline.corpora.line_reader import ChunkReader, FileReader
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text

COMPRESSED = {"": bytes, "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """Ranges and pieces so small that lines cross them, and take many."""
    for module in (line_index, line_reader):
        monkeypatch.setattr(module, "RANGE_BYTES", 16)
    monkeypatch.setattr(line_index, "_RANGES_PER_PIECE", 3)
    monkeypatch.setattr(line_reader, "_MOST_LINES", 7)
    monkeypatch.setattr(line_reader, "_MOST_BYTES", 60)


def hostile_side(generator, count):
    """Returns lines with every length, many of them around that of a range."""
    lines = []
    for _ in range(count):
        size = generator.choice((0, 1, 5, 14, 15, 16, 17, 40, 100))
        line = bytes(generator.choices(b"ab \xc3\xa4\r\x0b", k=size))
        lines.append(line.replace(b"\xc3", b"\xc3\xa4").replace(b"\xa4\xa4", b"\xa4"))
    return b"".join(line + b"\n" for line in lines)


def write_groups(folder, seed, suffixes):
    """Writes files of random lines; returns groups of a source and a target."""
    generator = random.Random(seed)
    groups = []
    for number, suffix in enumerate(suffixes):
        count = generator.choice((0, 1, 2, 30, 90))
        group = []
        for side in ("source", "target"):
            path = folder / f"{number}.{side}.{suffix}"
            text = hostile_side(generator, count)
            if generator.random() < 0.5 and text[-2:-1] not in (b"", b"\n", b"\r"):
                text = text.removesuffix(b"\n")  # the last line has no end
            if text and generator.random() < 0.5:
                text = b"\xef\xbb\xbf" + text
            path.write_bytes(COMPRESSED[suffix](text))
            group.append(path)
        groups.append(group)
    return groups


def count(groups, workers=1, progress=lambda *_: None):
    # What is no UTF-8 is refused elsewhere.
    return index_text(groups, workers, progress)


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.setattr(text_checks, "_MOST_BAD", 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_any_lines_are_those_that_reading_all_gives(tmp_path, lenient, seed):
    generator = random.Random(seed)
    groups = write_groups(tmp_path, seed, generator.choices([*COMPRESSED], k=3))
    text = open_parallel_text(
        *([str(p) for p in side] for side in zip(*groups, strict=True))
    )
    expected = list(text.lines())
    index = count(groups, workers=generator.choice((1, 3)))
    assert index.lines == len(expected) == text.report.lines
    reader = FileReader(index)
    for _ in range(25):
        begin = generator.randrange(index.lines + 1)
        end = generator.randrange(begin, index.lines + 1)
        parts = list(reader.read(begin, end))
        pairs = [pair for part in parts for pair in zip(*part.split(), strict=True)]
        assert pairs == expected[begin:end]
        assert [part.first for part in parts] == [
            begin + sum(part.count for part in parts[:n]) for n in range(len(parts))
        ]
    reader.close()


def test_columns_are_read_alike(tmp_path):
    rows = [f"a{i % 7}\tb{'b' * (i % 40)}" for i in range(60)]
    rows[5:5] = ["", "  "]
    path = tmp_path / "x.tsv"
    path.write_text("\r\n".join(rows))
    index = count([[path]])
    expected = list(open_parallel_text([path]).lines())
    reader = FileReader(index)
    for begin, end in ((0, 62), (3, 9), (40, 41)):
        pairs = [
            pair
            for part in reader.read(begin, end)
            for pair in zip(*part.split(), strict=True)
        ]
        assert pairs == expected[begin:end]
    reader.close()


@pytest.mark.parametrize("bad", ["a", "a\tb\tc"])
@pytest.mark.parametrize("line", [0, 33, 59])
def test_a_row_without_two_columns_is_named(tmp_path, bad, line):
    rows = ["a\tb"] * 60
    rows[line] = bad
    path = tmp_path / "x.tsv"
    path.write_text("\n".join(rows))
    with pytest.raises(UserError, match=rf"x\.tsv, line {line + 1}: a line must have"):
        count([[path]])


def test_the_hash_is_of_the_contents_and_not_of_the_compression(tmp_path, lenient):
    text = hostile_side(random.Random(3), 90)
    indices = []
    for suffix, compress in COMPRESSED.items():
        path = tmp_path / f"x.{suffix}"
        path.write_bytes(compress(text))
        indices.append(count([[path, path]]))
    assert len({index.sha256 for index in indices}) == 1
    path = tmp_path / "x."
    changed = text.replace(b"b", b"a", 1), text + b"a\n", text[:-2] + b"\n"
    for other in changed:
        path.write_bytes(other)
        assert count([[path, path]]).sha256 != indices[0].sha256


def test_faults_of_whole_files_are_those_of_reading_all(tmp_path):
    good, bad, short = (tmp_path / name for name in ("good", "bad", "short"))
    good.write_bytes(b"a\n" * 40)
    bad.write_bytes(b"a\n" * 30 + b"\xe4\n" * 4 + b"b\0\n" * 6)
    short.write_bytes(b"a\n" * 39)
    for other, message in (
        (bad, r"bad is not text in UTF-8: 4 of 40 .* 6 others have NUL"),
        (short, r"good has 40 lines, but .*short has 39\."),
    ):
        for check in (
            lambda p: count([[good, p]]),
            lambda p: open_parallel_text([good], [p]),
        ):
            with pytest.raises(UserError, match=message):
                check(other)
    (tmp_path / "few").write_bytes(b"a\n" * 39 + b"\xe4\n")
    warnings = count([[good, tmp_path / "few"]]).warnings()
    assert warnings[0].startswith("1 of 40 lines are not valid UTF-8")
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(b"a\n" * 5000)[:-9])
    with pytest.raises(UserError, match=r"damaged\.gz is a damaged or incomplete gzip"):
        count([[damaged, damaged]])


def test_progress_ends_with_all_bytes_and_may_stop_the_counting(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"a\n" * 500)
    calls = []
    count([[path]], workers=2, progress=lambda *call: calls.append(call))
    assert calls[-1] == (1000, 1000)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count([[path]], progress=stop)


def test_an_index_is_of_the_files_that_were_counted(tmp_path, lenient):
    groups = write_groups(tmp_path, 5, ["", "gz"])
    index = count(groups)
    fields = index.to_json()
    assert IndexedText.from_json(fields, groups) == index
    moved = [[path.rename(tmp_path / f"m{path.name}") for path in g] for g in groups]
    assert IndexedText.from_json(fields, moved).sha256 == index.sha256
    with pytest.raises(UserError, match="The text has other files than when it was"):
        IndexedText.from_json(fields, moved[:1])
    with open(moved[1][0], "ab") as file:
        file.write(b"more")
    with pytest.raises(UserError, match=r"m1\.source\.gz has .* bytes, and had"):
        IndexedText.from_json(fields, moved)


def test_a_file_that_becomes_shorter_is_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc\n" * 50)
    reader = FileReader(count([[path, path]]))
    path.write_bytes(b"abc\n" * 45)
    with pytest.raises(UserError, match=r"had 50 lines when .* has fewer now"):
        list(reader.read(44, 50))
    reader.close()


def test_chunks_that_can_only_be_read_from_the_beginning():
    pairs = [(b"s%d" % i, b"t\n%d" % i) for i in range(50)]
    opened = []

    def open_chunks():
        opened.append(1)
        for begin in range(0, 50, 8):
            source, target = zip(*pairs[begin : begin + 8], strict=True)
            yield list(source), list(target)

    reader = ChunkReader(open_chunks, 50)
    for begin, end in ((0, 3), (3, 20), (30, 31), (30, 50), (7, 9), (50, 50)):
        read = [
            pair
            for part in reader.read(begin, end)
            for pair in zip(*part.split(), strict=True)
        ]
        # A line break within a sentence is a space.
        assert read == [(s, t.replace(b"\n", b" ")) for s, t in pairs[begin:end]]
    assert len(opened) == 2  # forwards it goes on
    with pytest.raises(UserError, match=r"had 50 pairs when .* 50 when it was encoded"):
        list(reader.read(40, 60))
