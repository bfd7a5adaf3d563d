"""Encoding of lines: what becomes of each, against deciding them one by one."""

import functools
import pickle
import random
from fractions import Fraction

import numpy as np
import pytest

from t2t_keras.input_pipeline.corpora.filters import (
    IsDuplicate,
    copied,
    exceeds_length_ratio,
)
from t2t_keras.input_pipeline.corpora.fingerprints import hash_pairs
from t2t_keras.input_pipeline.corpora.line_reader import RawLines
from t2t_keras.input_pipeline.records.line_encoder import (
    LineEncoding,
    candidates_of,
    report_of,
)
from t2t_keras.text.normalization import normalize

MAX_LENGTH = 9
FILTERS = (
    ("copied", copied),
    ("duplicates", IsDuplicate),
    ("ratio", functools.partial(exceeds_length_ratio, Fraction(3), "words")),
)
WORDS = "the a old green über Haus alt , \u2581 \xa0 läuft".split(" ")


def random_lines(seed, count=300):
    generator = random.Random(seed)

    def line():
        words = generator.choices(WORDS, k=generator.choice((0, 1, 1, 2, 3, 12)))
        return generator.choice((" ", "  ", "\t ")).join(words).encode()

    lines = [(line(), line()) for _ in range(count)]
    lines += generator.choices(lines, k=count // 3)
    lines += [(one, one) for one, _ in lines[:20]] + [(b"\xff the", b"Haus\r")]
    generator.shuffle(lines)
    return lines


def raw(lines):
    sides = (
        b"".join(line + b"\n" for line in side) for side in zip(*lines, strict=True)
    )
    return RawLines(17, len(lines), tuple(sides))


def encoder(vocabulary, **settings):
    encoding = LineEncoding(vocabulary.to_bytes(), MAX_LENGTH, **settings)
    return pickle.loads(pickle.dumps(encoding))()  # as another process gets it


@pytest.mark.parametrize("seed", range(3))
def test_each_line_is_kept_or_has_a_reason(vocabulary, seed):
    lines = random_lines(seed)
    encoded = encoder(vocabulary, filters=FILTERS, keep_text=True)(raw(lines))
    repaired = [
        tuple(
            side.decode(errors="replace").removesuffix("\r").encode() for side in line
        )
        for line in lines
    ]
    kept, decisions, candidates = [], [], []
    for pair in repaired:
        source, target = map(normalize, pair)
        ids = vocabulary.encode(pair[0]), vocabulary.encode(pair[1])
        longer, shorter = sorted((len(source.split()), len(target.split())))[::-1]
        if not (source and target):
            decisions.append("blank")
            continue
        if source == target:
            decisions.append("copied")
            continue
        candidates.append((source, target))
        if longer > 3 * shorter:
            decisions.append("ratio")
        elif max(map(len, ids)) > MAX_LENGTH:
            decisions.append("long")
        else:
            decisions.append("kept")
            kept.append((pair, ids))
    codes = {"kept": 0, "blank": 1, "long": 3, "copied": 4, "ratio": 6}
    assert set(decisions) == set(codes)
    assert encoded.decisions.tolist() == [codes[each] for each in decisions]
    for side in (0, 1):
        flat = [token for _, ids in kept for token in ids[side]]
        assert encoded.chunk.tokens[side].tolist() == flat
        assert encoded.chunk.lengths[:, side].tolist() == [
            len(ids[side]) for _, ids in kept
        ]
        assert encoded.text[side] == b"".join(pair[side] + b"\n" for pair, _ in kept)
    pairs = [p for p, why in zip(repaired, decisions, strict=True) if why != "blank"]
    np.testing.assert_array_equal(encoded.hashes, hash_pairs(*zip(*pairs, strict=True)))
    sources, targets = zip(*candidates, strict=True)
    expected = IsDuplicate.hash_pairs(sources, targets)
    np.testing.assert_array_equal(encoded.candidates, expected)
    is_candidate = candidates_of(encoded.decisions, [name for name, _ in FILTERS])
    assert is_candidate.sum() == len(candidates)
    # Also once the duplicates are known.
    found = np.where(is_candidate, 5, encoded.decisions)
    np.testing.assert_array_equal(
        candidates_of(found, ["copied", "duplicates"]), is_candidate
    )
    tokens = map(len, encoded.chunk.tokens)
    report = report_of(encoded.decisions, *tokens)
    assert report.pairs_kept + report.pairs_dropped == len(lines)
    assert report.dropped_by_filters == decisions.count("copied") + decisions.count(
        "ratio"
    )
    assert report.dropped_empty == decisions.count("blank")


def test_without_filters_and_with_columns(vocabulary):
    lines = [(b"the Haus", b"a"), (b"", b"a"), (b"a \r b", b"old")]
    table = b"the Haus\ta\n\ta\na \r b\told\n"
    for part in (raw(lines), RawLines(0, 3, (table,))):
        encoded = encoder(vocabulary)(part)
        assert encoded.decisions.tolist() == [0, 1, 0]
        assert (len(encoded.hashes), len(encoded.candidates)) == (2, 0)
        assert encoded.text == ()


def test_blank_pairs_of_datasets_pass_through_the_filters(vocabulary):
    lines = [(b"", b""), (b" ", b"a"), (b"the", b"a")]
    settings = {"filters": FILTERS[:1], "drops_blank": False}
    encoded = encoder(vocabulary, **settings)(raw(lines))
    assert encoded.decisions.tolist() == [4, 2, 0]  # copied, empty, kept
    assert len(encoded.hashes) == 3
