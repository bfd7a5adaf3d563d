"""Benchmark of decoding parts: equal results of all variants, counts of rows."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.decoding import measured, parts, shortlists, write
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.settings.config import ExperimentConfig, ModelConfig

TINY = ModelConfig(num_layers=1, d_model=12, d_ff=20, num_heads=3)
WORDS = 23


@pytest.fixture
def found(monkeypatch):
    """List of the results of all variants, each run once instead of being timed."""
    found = []

    def run(ways, _rounds):
        found.extend(way() for way in ways)
        return [0.0 for _ in ways]

    monkeypatch.setattr(parts, "measure_milliseconds", run)
    return found


def test_rounds_go_in_turn(monkeypatch):
    # Read before the first way and after each.
    clock = iter([0, 100, 200, 200, 203, 204, 204, 205, 211])
    monkeypatch.setattr(parts.time, "process_time", lambda: next(clock))
    asked = []
    ways = [lambda: asked.append("one"), lambda: asked.append("other")]
    # 100, 3, 1 and 100, 1, 6: the median ignores the slow first round.
    assert parts.measure_milliseconds(ways, rounds=3) == [3000.0, 6000.0]
    assert asked == ["one", "other"] * 3


def test_a_copy_for_each_hypothesis_changes_nothing_but_its_size(found):
    *_, once, each = parts.attention_costs(batch=3, rounds=1)
    one_memory, own_copies = found
    assert len(one_memory) == measured.LAYERS
    for shared, own in zip(one_memory, own_copies, strict=True):
        assert shared.shape == (3, measured.BEAM, 1)
        np.testing.assert_allclose(tf.reshape(own, shared.shape), shared, atol=1e-5)
    # Keys and values of 6 layers, 3 sentences of 25 tokens, 512 numbers of 4 bytes.
    assert once == pytest.approx(2 * 6 * 3 * 25 * 512 * 4 / 1e6)
    assert each == pytest.approx(4 * once)


def test_logits_are_the_same_of_a_turned_embedding(found, monkeypatch):
    monkeypatch.setattr(measured, "VOCABULARY", 67)
    parts.logits_times(rows=5, rounds=1)
    standing, turned, kernel = found
    assert kernel.shape == (measured.WIDTH, 67)
    assert turned.shape == (1, 5, 67)
    np.testing.assert_allclose(standing, turned, atol=1e-5)


def test_batches_are_sorted_and_those_that_stay_have_the_longest_length(monkeypatch):
    monkeypatch.setattr(parts, "BATCH", 2)
    lengths = [3, 9, 4, 8, 5]
    assert parts.make_batches(lengths, False, True) == [[3, 9], [4, 8], [5]]
    assert parts.make_batches(lengths, False, False) == [[9, 9], [8, 8], [5]]
    assert parts.make_batches(lengths, True, True) == [[9, 8], [5, 4], [3]]
    assert parts.make_batches(lengths, True, False) == [[9, 9], [5, 5], [3]]


@pytest.mark.slow
def test_rows_are_counted_by_hand():
    # One hypothesis each at first, then four; finished sentences leave at position 8.
    three_leave = 3 + 7 * 3 * 4 + 1 * 4
    two_stay = 2 + 2 * 2 * 4
    assert parts.count_computed_rows([[[5, 1, 9]], [[3, 3], [5, 1, 9]]]) == [
        three_leave,
        two_stay + three_leave,
    ]
    assert parts.count_needed_rows([5, 1, 9]) == (1 + 4 * 4) + 1 + (1 + 8 * 4)


@pytest.mark.slow
@pytest.mark.parametrize("leave", [True, False])
def test_rows_are_those_that_the_model_is_asked_for(leave, monkeypatch):
    lengths = [4, 19, 10, 2]
    model = write.build_model(ExperimentConfig(model=TINY), WORDS)
    asked, decode_step = [], model.decode_step

    def count_rows(tokens, *inputs, **settings):
        asked.append(int(tf.size(tokens)))
        return decode_step(tokens, *inputs, **settings)

    monkeypatch.setattr(model, "decode_step", count_rows)
    source = tf.constant(measured.pad_batch([[3] * (length - 1) for length in lengths]))
    result = search_translations(model, source, parts.SETTINGS, 0, growing=leave)
    assert result.lengths[:, 0].numpy().tolist() == lengths
    assert parts.count_computed_rows([parts.make_batches(lengths, False, leave)]) == [
        sum(asked)
    ]


@pytest.mark.release
def test_outputs_are_as_long_as_they_are_to_be(found, monkeypatch):
    monkeypatch.setattr(parts, "SMALL", TINY)
    monkeypatch.setattr(parts, "SMALL_VOCABULARY", WORDS)
    arranged = [[[9, 3], [4]], [[9, 9], [4]]]
    parts.search_times(arranged, rounds=1)
    for expected, lengths in zip(arranged, found, strict=True):
        assert [batch.tolist() for batch in lengths] == expected


def test_the_table_shows_needless_computation(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["parts", "--sentences=33"])
    for name in (
        "set_intra_op_parallelism_threads",
        "set_inter_op_parallelism_threads",
    ):
        monkeypatch.setattr(tf.config.threading, name, lambda _: None)
    monkeypatch.setattr(parts, "attention_costs", lambda *_: [1.0, 2.0, 3.0, 4.0])
    monkeypatch.setattr(parts, "logits_times", lambda *_: [1.5, 2.5, 3.5])
    monkeypatch.setattr(parts, "search_times", lambda *_: [1234.5] * 4)
    monkeypatch.setattr(parts, "count_needed_rows", len)
    monkeypatch.setattr(
        parts, "count_computed_rows", lambda all_: [33 + sum(map(len, x)) for x in all_]
    )
    parts.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "| 8 | 1.00 | 2.00 | 3.00 | 4.00 |"
    assert lines[5] == "| 4 | 1.50 | 2.50 | 3.50 |"
    assert lines[-1] == "| sorted, the finished leave | 66 | 33 | 1,234.50 |"


@pytest.mark.slow
def test_searches_with_shortlists_do_the_same_work(monkeypatch, capsys):
    def build(_config, vocabulary_size):
        return write.build_model(ExperimentConfig(model=TINY), vocabulary_size)

    monkeypatch.setattr(measured, "VOCABULARY", WORDS)
    monkeypatch.setattr(shortlists, "build_model", build)
    monkeypatch.setattr(shortlists, "CANDIDATES", 5)
    arguments = ["shortlists", "--rounds=3", "--sentences=2", f"--sizes=7,{WORDS}"]
    monkeypatch.setattr("sys.argv", arguments)
    shortlists.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [name for name, *_ in rows] == [
        *("whole vocabulary", "7 words", f"{WORDS} words")
    ]
    assert rows[0][2:] == ["1.000, 1.000, 1.000", "1.000"]
    for _, rate, ratios, median in rows[1:]:
        assert float(rate) > 0
        assert median == sorted(ratios.split(", "), key=float)[1]
