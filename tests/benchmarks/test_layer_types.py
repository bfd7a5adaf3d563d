"""Benchmark of Table 1: counts and path lengths against closed forms; a small run."""

import itertools
import json
import math

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
    LayerType,
    layer_types,
)
from benchmarks.layer_types.path_length import path_lengths
from benchmarks.layer_types.results import markdown

ALONE = "self-attention"


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


@pytest.mark.slow
@pytest.mark.parametrize("layer", layer_types(unrolled=True), ids=lambda one: one.name)
def test_flops_are_those_of_the_graph(layer: LayerType) -> None:
    # Lengths: multiples of the dilation, to which TensorFlow pads, but not of blocks.
    for length, width in ((9, 64), (72, 128), (27, 24)):
        if layer.name in ("LSTM", "GRU"):
            length = 9  # a graph without a loop has a node for each step
        graph = trace_graph(layer.build(width), length, width)
        assert layer.flops(length, width) == count_flops(graph), (length, width)


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
@pytest.mark.parametrize("length", [2, 28])
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
