"""Benchmark of Table 1: fits, counts and path lengths against closed forms."""

import itertools
import json
import math
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks.layer_types import memory, run
from benchmarks.layer_types.fitting import fit_exponent
from benchmarks.layer_types.graphs import (
    count_flops,
    count_sequential_products,
    trace_graph,
)
from benchmarks.layer_types.layers import (
    KERNEL,
    NEIGHBORHOOD,
    AttentionAlone,
    LayerType,
    RestrictedAlone,
    layer_types,
)
from benchmarks.layer_types.path_length import (
    dependencies,
    path_lengths,
    recurrence,
    steps_to_reach,
)
from benchmarks.layer_types.results import (
    Measurements,
    along,
    as_json,
    markdown,
    sizes_table,
)
from benchmarks.layer_types.timing import Point, Seconds

MEASURED = Path(memory.__file__).parent / "measured"
ALONE, WITH = "self-attention", "self-attention with projections"


def test_an_exponent_is_recovered() -> None:
    sizes = [64, 128, 300, 4096]
    for power in (0.0, 1.0, 2.0, 1.37):
        exact = fit_exponent(sizes, [5e-7 * size**power for size in sizes])
        assert exact.value == pytest.approx(power, abs=1e-12), power
        assert exact.error == pytest.approx(0, abs=1e-12), power
        assert (exact.smallest, exact.largest) == (64, 4096), power
        # A constant cost per call makes the exponent look smaller.
        over = fit_exponent(sizes, [5e-7 * size**power + 1e-3 for size in sizes])
        assert over.value <= exact.value + 1e-12, power


def test_the_standard_error_is_that_of_the_slope() -> None:
    # Over many lines with 5 % noise, errors are as large as expected.
    rng = np.random.default_rng(7)
    sizes = [64, 128, 256, 512, 1024, 2048]
    fits = [
        fit_exponent(sizes, [n**1.5 * np.exp(0.05 * rng.normal()) for n in sizes])
        for _ in range(400)
    ]
    spread = np.std([fit.value for fit in fits])
    assert np.sqrt(np.mean([fit.error**2 for fit in fits])) == pytest.approx(
        spread, rel=0.15
    )
    assert np.mean([fit.value for fit in fits]) == pytest.approx(1.5, abs=0.01)


def test_two_points_have_a_slope_and_no_error_and_one_has_none() -> None:
    assert fit_exponent([2, 8], [3.0, 12.0]).value == pytest.approx(1)
    assert math.isnan(fit_exponent([2, 8], [3.0, 12.0]).error)
    for sizes, costs in (([4], [1.0]), ([4, 4], [1.0, 2.0]), ([4, 8], [1.0, 0.0])):
        with pytest.raises(ValueError, match="two sizes or more"):
            fit_exponent(sizes, costs)


def by_name(name: str, unrolled: bool = False) -> LayerType:
    (layer,) = (one for one in layer_types(unrolled) if one.name == name)
    return layer


@pytest.mark.parametrize("layer", layer_types(unrolled=True), ids=lambda one: one.name)
def test_flops_are_those_of_the_graph(layer: LayerType) -> None:
    # Lengths: multiples of the dilation, to which TensorFlow pads, but not of blocks.
    for length, width in ((9, 64), (72, 128), (27, 24)):
        if layer.name in ("LSTM", "GRU"):
            length = 9  # a graph without a loop has a node for each step
        graph = trace_graph(layer.build(width), length, width)
        assert layer.flops(length, width) == count_flops(graph), (length, width)


def test_flops_worked_out_by_hand() -> None:
    # n = 10, d = 128: scores and sums 2 x 2 x 100 x 128; four projections 8 x 10 x d^2.
    assert by_name(ALONE).flops(10, 128) == 51_200
    assert by_name(WITH).flops(10, 128) == 51_200 + 1_310_720
    # Two blocks of 32 queries, each with a window of 64 keys.
    restricted = by_name(f"restricted, r = {NEIGHBORHOOD}")
    assert restricted.flops(64, 128) == 4 * 64 * 64 * 128
    assert restricted.flops(6400, 128) == 100 * restricted.flops(64, 128)
    # Four gates, each of input and state; three; one product for each tap.
    assert by_name("LSTM").flops(1, 100) == 160_000
    assert by_name("GRU").flops(1, 100) == 120_000
    assert by_name(f"convolution, k = {KERNEL}").flops(1, 100) == 60_000


@pytest.mark.slow
def test_only_recurrent_layers_wait_from_step_to_step() -> None:
    for layer in layer_types(unrolled=True):
        few, more = (
            count_sequential_products(trace_graph(layer.build(64), length, 64))
            for length in (4, 7)
        )
        wider = count_sequential_products(trace_graph(layer.build(128), 4, 128))
        assert wider == few
        if layer.name in ("LSTM", "GRU"):
            # Every step multiplies the state of the previous step.
            assert (few, more) == (4, 7)
        else:
            assert few == more <= 4


@pytest.mark.slow
@pytest.mark.parametrize("length", [40])
def test_gradients_show_what_an_output_depends_on(length: int) -> None:
    place = np.arange(length)
    apart = np.abs(place[:, None] - place)
    for layer, expected in (
        (AttentionAlone(), apart >= 0),
        (RestrictedAlone(), apart <= NEIGHBORHOOD // 2),
        (keras.layers.LSTM(8, return_sequences=True), np.tri(length, dtype=bool)),
        (keras.layers.Conv1D(8, KERNEL, padding="same"), apart <= KERNEL // 2),
        (
            keras.layers.Conv1D(8, KERNEL, padding="same", dilation_rate=4),
            np.isin(apart, (0, 4)),
        ),
    ):
        np.testing.assert_array_equal(dependencies(layer, length), expected)


@pytest.mark.parametrize("length", [2, 40])
def test_paths_are_as_long_as_the_closed_forms_say(length: int) -> None:
    far, half = length - 1, NEIGHBORHOOD // 2
    assert path_lengths(length) == {
        ALONE: 1,
        f"restricted, r = {NEIGHBORHOOD}": math.ceil(far / half),
        "recurrent": length,
        f"convolution, k = {KERNEL}": math.ceil(far / (KERNEL // 2)),
        f"convolution, k = {KERNEL}, dilated by 1, 3, 9, …": layers_walked(length),
    }


def layers_walked(length: int) -> int:
    """Number of layers after which every position can reach every other one."""
    dilations = [KERNEL**i for i in range(9) if KERNEL**i < length]
    places = [{place} for place in range(length)]
    for count, dilation in enumerate(itertools.cycle(dilations), start=1):
        steps = (-dilation, 0, dilation)
        places = [
            {at + step for at in each for step in steps if 0 <= at + step < length}
            for each in places
        ]
        if all(len(each) == length for each in places):
            return count
    raise AssertionError("a walk without an end")


def test_a_path_is_the_shortest_and_a_missing_one_is_an_error() -> None:
    # The dependencies of a stack of two layers are the product of those of the layers.
    stack = keras.Sequential(
        [keras.layers.Conv1D(8, KERNEL, padding="same") for _ in range(2)]
    )
    once = dependencies(keras.layers.Conv1D(8, KERNEL, padding="same"), 9)
    np.testing.assert_array_equal(dependencies(stack, 9), (once * 1 @ once) > 0)
    with pytest.raises(ValueError, match="not enough steps"):
        steps_to_reach(iter([recurrence(5)] * 9), np.ones((5, 5), bool))


def made_up() -> Measurements:
    """Synthetic costs, exact powers: n^2 d for self-attention, n d^2 for LSTM."""
    points = [(n, 64) for n in (64, 128, 256)] + [(128, d) for d in (32, 128, 256)]
    seconds = {}
    for name, in_n, in_d in ((ALONE, 2, 1), ("LSTM", 1, 2)):
        for n, d in points:
            cost = 1e-9 * n**in_n * d**in_d
            seconds[Point(name, n, d)] = Seconds(cost, 3 * cost)
    memory = {point: round(1e12 * each.forward) for point, each in seconds.items()}
    turns = {ALONE: {(4, 8): 2, (4, 16): 2}, "LSTM": {(4, 8): 5, (4, 16): 9}}
    paths = {ALONE: {4: 1, 8: 1}, "LSTM": {4: 4, 8: 8}}
    return Measurements({"rows": 2}, seconds, memory, turns, paths)


def test_a_sweep_keeps_to_one_other_size() -> None:
    points = [point for point in made_up().seconds if point.layer == ALONE]
    assert [p.length for p in along(points, "length", 9)] == [64, 128, 256]
    assert {p.width for p in along(points, "length", 9)} == {64}
    assert [p.width for p in along(points, "width", 2)] == [128, 256]
    assert {p.length for p in along(points, "width", 9)} == {128}


def test_the_tables_have_the_exponents_of_what_was_measured() -> None:
    layers = [layer for layer in layer_types() if layer.name in (ALONE, "LSTM")]
    facts = as_json(layers, made_up(), largest=3)
    attention, lstm = facts["exponents"]
    assert attention["paper"] == "O(n² d)"
    for name in ("FLOPs", "forward", "training", "memory"):
        for row, in_n, in_d in ((attention, 2, 1), (lstm, 1, 2)):
            assert row[f"{name}, in n"] == f"{in_n:.2f} ± 0.00"
            assert row[f"{name}, in d"] == f"{in_d:.2f} ± 0.00"
    point = facts["points"]["LSTM; n = 128; d = 256"]
    assert point["training_seconds"] == pytest.approx(3e-9 * 128 * 256**2)
    assert json.loads(json.dumps(facts)) == facts
    assert markdown(facts["products_in_turn"]).splitlines() == [
        "| layer | n = 4, d = 8 | n = 4, d = 16 |",
        "| --- | --- | --- |",
        "| self-attention | 2 | 2 |",
        "| LSTM | 5 | 9 |",
    ]
    assert facts["longest_path"][1] == {"layer": "LSTM", "n = 4": 4, "n = 8": 8}


def test_the_stored_measurements_have_the_expected_counts() -> None:
    """Sequential operations: n for recurrent layers at any d, constant for others."""
    kept = json.loads((MEASURED / "layer_types.json").read_text("utf-8"))
    rows = kept["products_in_turn"]
    sizes = ["n = 8, d = 64", "n = 16, d = 64", "n = 32, d = 64"]
    sizes += ["n = 32, d = 128", "n = 32, d = 256"]
    assert [row["layer"] for row in rows] == [layer.name for layer in layer_types()]
    for row in rows:
        name, *counts = row.values()
        assert list(row)[1:] == sizes
        assert counts == [8, 16, 32, 32, 32] or counts == [counts[0]] * 5
        assert (counts[0] == 8) == (name in ("LSTM", "GRU"))
    # Counted again for layers that are quick to build.
    found = run.count_all_sequential_products("k = 3", [8, 16, 32], [64, 128, 256])
    assert sizes_table(found) == [row for row in rows if "k = 3" in row["layer"]]


@pytest.mark.slow
def test_it_measures_and_writes_all_it_found(monkeypatch, tmp_path, capsys) -> None:
    def made_up_bytes(layer: str, rows: int, sizes: list) -> list[int]:
        return [rows * n * d for n, d in sizes]

    monkeypatch.setattr(run, "measure_bytes", made_up_bytes)
    sizes = ["--lengths=8,16", "--width=16", "--widths=16,32", "--length=8"]
    few = ["--rounds=1", "--fitted=2", "--unrolled_lengths=3,4", "--path_lengths=4"]
    few.append("--unrolled_widths=8,16")
    run.main([*sizes, *few, "--only=k = 3, dilated", f"--output={tmp_path}"])
    facts = json.loads((tmp_path / "layer_types.json").read_text("utf-8"))
    assert len(facts["exponents"]) == 1
    assert len(facts["points"]) == 3
    for point in facts["points"].values():
        assert 0 < point["forward_seconds"] < 60
        assert 0 < point["training_seconds"] < 60
    assert facts["longest_path"][1] == {
        "layer": f"restricted, r = {NEIGHBORHOOD}",
        "n = 4": 1,
    }
    (turns,) = facts["products_in_turn"]
    assert list(turns)[1:] == ["n = 3, d = 8", "n = 4, d = 8", "n = 4, d = 16"]
    assert (tmp_path / "layer_types.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "layer_types.svg").read_text("utf-8")
    assert "<svg" in drawn
    assert markdown(facts["exponents"]) in capsys.readouterr().out
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.release
def test_peak_memory_is_that_of_what_attention_holds() -> None:
    rows, length = 2, 2048
    few, many = memory.measure_bytes(ALONE, rows, [(length, 64), (2 * length, 64)])
    scores = 4 * rows * length * length
    # Scores, weights and their gradients: a few copies, not those of a whole graph.
    assert 2 * scores < few < 12 * scores
    assert 3 < many / few < 5
    (restricted,) = memory.measure_bytes(
        f"restricted, r = {NEIGHBORHOOD}", rows, [(2 * length, 64)]
    )
    assert restricted < many / 5
