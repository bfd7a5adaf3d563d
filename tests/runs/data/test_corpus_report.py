"""What is counted for `prepare --report`, against plain loops over the text."""

import collections
import dataclasses
import gzip
import json
import math
import random
import statistics
import unicodedata
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.line_reader import RawLines
from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.reports.corpus_page import corpus_page, write_corpus_report
from t2t_keras.reports.plain_text import render_text
from t2t_keras.runs.data import corpus_report, preparation, training_lines
from t2t_keras.runs.data.corpus_report import RATIOS, read_corpus
from t2t_keras.runs.data.line_samples import LineSample, RandomLines, read_pairs

MAX_LENGTH = 14
FILTERS = ("copied", "length_ratio:4", "duplicates")
HOW = {"pairs_per_shard": 60, "workers": 1}


def noisy_pairs():
    """Pairs of several scripts, with duplicates and every kind of fault."""
    generator = random.Random(7)
    words = [f"{a}{b}" for a in "bdfgk" for b in ("a", "eno", "ilt", "or", "ust")]
    others = ["дом,", "Ж", "हिन्दी", "字", "カー", "17", "٣½", "x+y", "«é»", "ﬁ\u0301"]

    def line():
        chosen = generator.choices(words, k=generator.randint(1, 5))
        return " ".join(
            [*chosen, *generator.choices(others, k=generator.randint(0, 1))]
        )

    pairs = [(line(), line()) for _ in range(200)]
    pairs += generator.choices(pairs[:30], k=60) + [pairs[0]] * 9
    pairs += [(p[0], p[0]) for p in pairs[:14]]
    pairs += [("", "a"), ("a", " "), *[("a", "b a b a b a b a")] * 12]
    pairs += [(" ".join(words[:13]), " ".join(words[3:16]))] * 2
    pairs += [("  two\t spaces", f"b{i} \u00a0a ") for i in range(5)]
    generator.shuffle(pairs)
    return pairs


@pytest.fixture
def pairs():
    return noisy_pairs()


@pytest.fixture
def data(config, tmp_path, pairs):
    """Settings with these pairs in two files."""
    paths = [tmp_path / "text.source", tmp_path / "text.target"]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    return dataclasses.replace(
        config.data,
        train_source=(str(paths[0]),),
        train_target=(str(paths[1]),),
        filter=FILTERS,
        max_length=MAX_LENGTH,
        vocabulary_size=320,
    )


def prepared(data, folder, **how):
    preparation.prepare(data, folder, **HOW | how)
    return read_corpus(data, folder)


@dataclasses.dataclass
class Decided:
    """A line, decided by a plain loop."""

    number: int
    source: str
    target: str
    decision: str
    lengths: tuple[int, int]


def decide(pairs, folder, filters=FILTERS):
    """Returns all lines; lengths are those of SentencePiece itself."""
    model = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "vocabulary.model")
    )
    seen = set()
    decided = []
    for number, pair in enumerate(pairs, start=1):
        source, target = (" ".join(text.split()) for text in pair)
        words = [len(text.split()) for text in (source, target)]
        lengths = tuple(len(model.encode(text)) + 1 for text in (source, target))
        if not (source and target):
            decision = "no text on a side"
        elif "copied" in filters and source == target:
            decision = "copied"
        elif "length_ratio:4" in filters and max(words) > 4 * min(words):
            decision = "length_ratio:4"
        elif "duplicates" in filters and (source, target) in seen:
            decision = "duplicates"
        elif max(lengths) > MAX_LENGTH:
            decision = f"longer than {MAX_LENGTH} tokens"
        else:
            decision = "kept"
        if decision not in ("no text on a side", "copied", "length_ratio:4"):
            seen.add((source, target))
        decided.append(Decided(number, source, target, decision, lengths))
    return decided


@pytest.fixture
def report(data, tmp_path):
    return prepared(data, tmp_path / "records")


@pytest.fixture
def lines(report, pairs, tmp_path):
    return decide(pairs, tmp_path / "records")


@pytest.fixture
def kept(lines):
    return [line for line in lines if line.decision == "kept"]


def test_lines_are_counted_by_decision(report, lines):
    counted = collections.Counter(line.decision for line in lines)
    assert {name: n for name, n in report.decisions.items() if n} == counted
    assert min(counted.values()) > 1
    assert list(report.decisions)[4:] == list(FILTERS)


def test_lengths_and_ratios_are_those_of_the_kept_pairs(report, kept):
    for side in (0, 1):
        counted = collections.Counter(line.lengths[side] for line in kept)
        found = {
            length: count
            for length, count in enumerate(report.lengths[side].tolist())
            if count
        }
        assert found == counted
    rows = [0] * (len(RATIOS) + 1)
    for line in kept:
        ratio = Fraction(line.lengths[1] - 1, line.lengths[0] - 1)
        rows[sum(bound <= ratio for bound in RATIOS)] += 1
    assert list(report.ratios) == rows
    assert sum(count > 0 for count in rows) > 6
    # Some are exactly a bound.
    ratios = {Fraction(x.lengths[1] - 1, x.lengths[0] - 1) for x in kept}
    assert len(ratios & {*RATIOS}) > 4


def test_the_page_has_their_mean_and_quantiles(report, kept):
    text = render_text(corpus_page(report))
    for side, name in enumerate(("source", "target")):
        lengths = sorted(line.lengths[side] for line in kept)
        quantiles = [
            lengths[math.ceil(q * len(lengths)) - 1] for q in (0.5, 0.95, 0.99)
        ]
        row = [name, f"{statistics.mean(lengths):.1f}", *map(str, quantiles)]
        rows = [line.split() for line in text.splitlines()]
        assert [*row, str(lengths[-1])] in rows


def test_characters_are_counted_by_script(report, kept):
    for side, found in (
        ("source", report.scripts.source),
        ("target", report.scripts.target),
    ):
        expected = collections.Counter()
        for line in kept:
            for character in getattr(line, side):
                expected[kind(character)] += 1
        assert found == expected
    assert report.scripts.pairs == len(kept)
    kinds = {"LATIN", "CYRILLIC", "DEVANAGARI", "CJK", "KATAKANA", "COMBINING"}
    assert kinds <= {*report.scripts.source, *report.scripts.target}


def kind(character):
    if character == " ":
        return "spaces"
    if unicodedata.category(character)[0] in ("L", "M"):
        # No character of the test has a width or a hyphen in its name, save one.
        return unicodedata.name(character).split()[0].partition("-")[0]
    if unicodedata.numeric(character, None) is not None:
        return "digits"
    return "symbols" if character in "+" else "punctuation"


def test_the_most_frequent_pairs_are_exact_where_all_are_counted(report, lines):
    seen = collections.Counter(
        (line.source, line.target)
        for line in lines
        if line.decision not in ("no text on a side", "copied", "length_ratio:4")
    )
    found = report.duplicates
    assert [times for times, _ in found.pairs] == [n for _, n in seen.most_common(10)]
    for times, example in found.pairs:
        assert seen[example.source, example.target] == times > 1
    number = sum(line.decision == "duplicates" for line in lines)
    assert (found.lines, found.counted, found.repeats) == (number,) * 3
    assert found.are_decided
    assert f"counted in all {number} duplicates." in render_text(corpus_page(report))


def test_without_the_filter_they_are_counted_among_the_kept_pairs(
    data, pairs, tmp_path, monkeypatch
):
    data = dataclasses.replace(data, filter=())
    report = prepared(data, tmp_path / "plain")
    kept = [
        (line.source, line.target)
        for line in decide(pairs, tmp_path / "plain", filters=())
        if line.decision == "kept"
    ]
    seen = collections.Counter(kept)
    found = report.duplicates
    assert [times for times, _ in found.pairs] == [n for _, n in seen.most_common(10)]
    assert (found.counted, found.repeats) == (len(kept), len(kept) - len(seen))
    text = " ".join(render_text(corpus_page(report)).split())
    assert f"{found.repeats} of them have occurred before in these; --filter=d" in text
    # A text whose pairs are all different.
    once = [pair for pair, times in seen.items() if times == 1]
    for side, name in enumerate(("train_source", "train_target")):
        Path(getattr(data, name)[0]).write_text(
            "".join(f"{pair[side]}\n" for pair in once), "utf-8"
        )
    page = render_text(corpus_page(prepared(data, tmp_path / "once")))
    assert f"No pair occurs twice in all {len(once)} kept pairs." in page


def test_examples_are_lines_of_the_text_with_that_decision(report, lines):
    for name, examples in report.examples.items():
        own = [line for line in lines if line.decision == name]
        assert len(examples) == min(10, len(own)), name
        numbers = [example.line for example in examples]
        assert numbers == sorted({*numbers})
        for example in examples:
            line = lines[example.line - 1]
            assert dataclasses.astuple(example) == (
                line.number,
                line.source,
                line.target,
            )
            assert line.decision == name
    assert sum(map(len, report.examples.values())) > 40


# --- Samples


@pytest.mark.parametrize("filters", [FILTERS, ()])
def test_a_sample_says_so_and_holds_no_more_lines(
    data, pairs, tmp_path, monkeypatch, filters
):
    data = dataclasses.replace(data, filter=filters)
    whole = prepared(data, tmp_path / "records")
    monkeypatch.setattr(corpus_report, "MOST_PAIRS", 24)
    monkeypatch.setattr(corpus_report, "MOST_DUPLICATES", 32)
    monkeypatch.setattr(training_lines, "_LINES_PER_RUN", 4)
    read = []

    def counted(reader, lines):
        read.append(len(lines))
        return read_pairs(reader, lines)

    monkeypatch.setattr("t2t_keras.runs.data.sampled_text.read_pairs", counted)
    report = read_corpus(data, tmp_path / "records")
    chosen = sum(map(len, whole.examples.values()))
    assert sum(read) <= chosen + 24 + 32 + 10
    assert report.decisions == whole.decisions
    assert report.examples == whole.examples
    assert report.scripts.pairs == 24
    assert 0 < sum(report.scripts.source.values()) < sum(whole.scripts.source.values())
    found = report.duplicates
    assert (found.counted, found.lines) == (32, whole.duplicates.lines)
    texts = [tuple(" ".join(text.split()) for text in pair) for pair in pairs]
    occurrences = collections.Counter(texts)
    assert found.pairs
    for times, example in found.pairs:
        assert 2 <= times <= occurrences[example.source, example.target]
    text = " ".join(render_text(corpus_page(report)).split())
    kept = report.decisions["kept"]
    assert f"Share of the characters in 24 of the {kept} kept pairs" in text
    what = "duplicates" if filters else "kept pairs"
    assert f"counted in 32 of the {found.lines} {what}." in text
    assert "lower bounds" in text
    assert f"about {found.lines / 32:.2f} times as often" in text
    assert f"at least {found.pairs[0][0]} " in text


def test_random_lines_depend_on_the_numbers_of_lines_alone():
    generator = random.Random(3)
    decisions = np.array(generator.choices([0, 1, 7], [90, 9, 1], k=5_001), np.uint8)
    whole = RandomLines(50)
    whole.add(decisions, 0)
    for step in (1, 7, 1000):
        parts = RandomLines(50)
        for first in range(0, len(decisions), step):
            parts.add(decisions[first : first + step], first)
            # Memory does not grow with the text.
            assert all(taken.shape[1] <= 50 for taken in parts._taken.values())
        for decision in (0, 1, 7):
            assert (parts.of(decision) == whole.of(decision)).all()
        assert (parts.all() == whole.all()).all()
    for decision in (0, 1, 7):
        own = np.flatnonzero(decisions == decision)
        assert {*whole.of(decision).tolist()} <= {*own.tolist()}
        assert len(whole.of(decision)) == min(50, len(own))
    assert len(whole.of(3)) == 0


def test_random_lines_are_from_all_over_the_text():
    lines = RandomLines(2_000)
    for first in range(0, 1_000_000, 250_000):
        lines.add(np.zeros(250_000, np.uint8), first)
    counts, _ = np.histogram(lines.of(0), bins=10, range=(0, 1_000_000))
    # 200 each, and a standard deviation of 13.
    assert counts.min() > 140 and counts.max() < 260
    gaps = np.diff(lines.of(0))
    assert abs(np.median(gaps) - 500 * math.log(2)) < 40


def test_lines_far_apart_are_read_by_themselves(data, pairs, tmp_path, monkeypatch):
    whole = prepared(data, tmp_path / "records")
    ranges = []

    class Reader:
        """Reads these pairs, and notes which."""

        num_lines = len(pairs)

        def read(self, begin, end):
            ranges.append((begin, end))
            for first in range(begin, end, 3):
                part = pairs[first : min(first + 3, end)]
                sides = zip(*part, strict=True)
                text = ("".join(f"{x}\n" for x in side).encode() for side in sides)
                yield RawLines(first, len(part), tuple(text))

        def close(self):
            pass

    monkeypatch.setattr("t2t_keras.runs.data.line_samples._LARGEST_GAP", 5)
    lines = np.array([0, 5, 6, 12, 13, 200])
    found = [
        (line, source, target)
        for numbers, *sides in read_pairs(Reader(), lines)
        for line, source, target in zip(numbers.tolist(), *sides, strict=True)
    ]
    normal = [tuple(" ".join(text.split()) for text in pair) for pair in pairs]
    assert found == [(line, *normal[line]) for line in lines.tolist()]
    assert ranges == [(0, 7), (12, 14), (200, 201)]
    assert list(read_pairs(Reader(), lines[:0])) == []
    # A report does not depend on it.
    again = read_corpus(data, tmp_path / "records")
    assert render_text(corpus_page(again)) == render_text(corpus_page(whole))


def test_a_sample_of_lines_has_those_of_one_kind(monkeypatch):
    monkeypatch.setattr(training_lines, "_LINES_PER_RUN", 5)
    decisions = np.array(random.Random(5).choices([0, 6], [3, 1], k=900), np.uint8)
    own = np.flatnonzero(decisions == 6)
    for most in (20, len(own), 10**6):
        taken = []
        for step in (1, 31, 900):
            sample = LineSample(6, len(own), most)
            parts = [
                sample.take(decisions[first : first + step], first)
                for first in range(0, 900, step)
            ]
            taken.append(np.concatenate(parts).tolist())
            assert len(taken[-1]) == sample.size == min(most, len(own))
        assert taken[0] == taken[1] == taken[2]
        assert {*taken[0]} <= {*own.tolist()}
        assert taken[0] == sorted({*taken[0]})


# --- The same bytes


def test_the_report_has_the_same_bytes_however_records_are_made(data, pairs, tmp_path):
    def files(folder, settings=data):
        write_corpus_report(read_corpus(settings, folder), folder, html=True)
        return [(folder / f"report.{end}").read_bytes() for end in ("txt", "html")]

    preparation.prepare(data, tmp_path / "whole", **HOW)
    whole = files(tmp_path / "whole")
    assert files(tmp_path / "whole") == whole
    preparation.begin(data, tmp_path / "parts", **HOW)
    for number in (2, 3, 1):
        preparation.write_part(data, tmp_path / "parts", (number, 3), **HOW)
    preparation.join(data, tmp_path / "parts")
    assert files(tmp_path / "parts") == whole
    preparation.prepare(data, tmp_path / "shards", **HOW | {"pairs_per_shard": 17})
    assert files(tmp_path / "shards") == whole
    # Text that has been moved and compressed, and settings of the records.
    moved = tmp_path / "moved.gz"
    moved.write_bytes(gzip.compress(Path(data.train_source[0]).read_bytes()))
    own = dataclasses.replace(data, train_source=(str(moved),))
    other = dataclasses.replace(own, source_language="fr", max_length=99, filter=())
    assert files(tmp_path / "whole", own) == files(tmp_path / "whole", other) == whole


# --- What is refused


def test_records_that_do_not_tell_or_are_damaged_are_refused(data, tmp_path):
    folder = tmp_path / "records"
    with pytest.raises(UserError, match=r"There are no records in .*/records"):
        read_corpus(data, folder)
    preparation.begin(data, folder, **HOW)
    with pytest.raises(UserError, match=r"The records in .* are not finished\. Run"):
        read_corpus(data, folder)
    preparation.prepare(data, folder, **HOW)
    file = folder / "train-00001" / "decisions.npy"
    content = file.read_bytes()
    advice = "same flags and without --report: it writes damaged shards again"
    file.write_bytes(content[:-1] + bytes([200]))
    with pytest.raises(UserError, match=rf"train-00001: a decision .* {advice}"):
        read_corpus(data, folder)
    file.write_bytes(b"")
    with pytest.raises(UserError, match=rf"train-00001/decisions\.npy: .* {advice}"):
        read_corpus(data, folder)
    file.write_bytes(content)
    read_corpus(data, folder)
    lengths = folder / "train-00001" / "lengths.npy"
    content = lengths.read_bytes()
    for wrong in (b"\xff\xff", b"\1\0"):
        lengths.write_bytes(content[:-2] + wrong)
        with pytest.raises(UserError, match=r"or a length is impossible"):
            read_corpus(data, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["making"]["format"] = 1
    manifest["making"] |= {"text_pairs": 1, "fingerprint": ""}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        UserError, match=r"are of a release up to 0\.9, and do not tell"
    ):
        read_corpus(data, folder)


def test_another_text_is_refused(data, pairs, tmp_path):
    folder = tmp_path / "records"
    preparation.prepare(data, folder, **HOW)
    none = dataclasses.replace(data, train_source=(), train_target=(), dataset=None)
    with pytest.raises(UserError, match=r"There is nothing to train on\. Give --da"):
        read_corpus(none, folder)
    table = tmp_path / "all.tsv"
    rows = [tuple(" ".join(text.split()) for text in pair) for pair in pairs]
    table.write_text("".join(f"{s}\t{t}\n" for s, t in rows), "utf-8")
    one = dataclasses.replace(data, train_source=(str(table),), train_target=())
    with pytest.raises(UserError, match=r"all\.tsv is not the training text that the "):
        read_corpus(one, folder)
    # The same pairs, and blank lines at another place.
    paths = []
    for side, name in enumerate(("train_source", "train_target")):
        lines = [pair[side] for pair in pairs if all(map(str.strip, pair))]
        path = tmp_path / f"moved.{side}"
        path.write_text("".join(f"{x}\n" for x in ["", "", *lines]), "utf-8")
        paths.append((name, (str(path),)))
    moved = dataclasses.replace(data, **dict(paths))
    with pytest.raises(UserError, match=r"is in other files now, with blank lines at "):
        read_corpus(moved, folder)


def test_the_same_pairs_in_another_format_are_the_same_lines(data, pairs, tmp_path):
    full = [pair for pair in pairs if all(map(str.strip, pair))]
    for side, name in enumerate(("train_source", "train_target")):
        Path(getattr(data, name)[0]).write_text(
            "".join(f"{pair[side].replace(chr(9), ' ')}\n" for pair in full), "utf-8"
        )
    table = tmp_path / "all.tsv"
    rows = (tuple(text.replace("\t", " ") for text in pair) for pair in full)
    table.write_text("".join(f"{s}\t{t}\n" for s, t in rows), "utf-8")
    folder = tmp_path / "records"
    report = prepared(data, folder)
    assert read_manifest(folder).report.dropped_empty == 0
    one = dataclasses.replace(data, train_source=(str(table),), train_target=())
    other = read_corpus(one, folder)
    assert render_text(corpus_page(other)) == render_text(corpus_page(report))


def test_columns_are_those_of_the_languages_of_the_records(data, pairs, tmp_path):
    sides = "fr", "it"
    table = tmp_path / "all.jsonl"
    rows = (dict(zip(sides, pair, strict=True)) for pair in pairs)
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    data = dataclasses.replace(data, train_source=(str(table),), train_target=())
    own = dataclasses.replace(data, source_language="fr", target_language="it")
    report = prepared(own, tmp_path / "records")
    other = dataclasses.replace(data, source_language="en", target_language="de")
    again = read_corpus(other, tmp_path / "records")
    assert render_text(corpus_page(again)) == render_text(corpus_page(report))
