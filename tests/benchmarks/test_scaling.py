"""Benchmark of scaling: the arithmetic of its table, and a small run."""

import pytest

from benchmarks import scaling
from benchmarks.product_step import load_config, make_synthetic_batch
from benchmarks.scaling import Cost, Point
from t2t_keras.errors import UserError


def test_a_row_divides_by_tokens_and_by_flops() -> None:
    point = Point(rows=50, length=20, width=128)
    row = scaling.row("width", point, Cost(flops=4e9, seconds=0.5))
    assert row == "| width | 128 | 1,000 | 4.0 | 500 | 125.00 |"


def test_the_size_of_a_batch_is_its_tokens() -> None:
    assert scaling.axis_size("batch tokens", Point(rows=3, length=7)) == 21
    assert scaling.axis_size("length", Point(rows=3, length=7)) == 7


def test_a_sentence_parts_what_is_counted_from_what_is_not() -> None:
    first, last = Point(rows=10, layers=1), Point(rows=20, layers=6)
    costs = {first: Cost(1e9, 1.0), last: Cost(8e9, 10.0)}
    text = scaling.sentence("layers", first, last, costs, "why")
    # 2 times the tokens: 8 / 2 and 10 / 2.
    assert "From 1 to 6 (layers)" in text
    assert "grow 4.00-fold and its time 5.00-fold" in text
    assert text.endswith("1.25 times as long. Not in the count: why.")


def test_all_axes_pass_through_one_model_and_vary_one_size() -> None:
    for name, points, _ in scaling.AXES:
        sizes = [scaling.axis_size(name, point) for point in points]
        assert sizes == sorted(set(sizes))
        assert Point() in points, name
        for field in {"layers", "width"} - {name}:
            assert {getattr(point, field) for point in points} == {
                getattr(Point(), field)
            }


@pytest.mark.release
def test_it_measures(monkeypatch, capsys) -> None:
    small = tuple(Point(rows=2, length=3, layers=n, width=64) for n in (1, 2))
    monkeypatch.setattr(scaling, "AXES", (("layers", small, "the rest"),))
    scaling.main(["--rounds=1"])
    lines = capsys.readouterr().out.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines[2:4]]
    assert [row[:3] for row in cells] == [["layers", "1", "6"], ["layers", "2", "6"]]
    # 3 times the forward pass: 56 D^2 + 12 L D per pair of layers, and 2 D V.
    d, length = 64, 3
    for row, layers in zip(cells, (1, 2), strict=True):
        layer = 3 * (56 * d * d + 12 * length * d)
        flops = layers * layer + 6 * d * scaling.VOCABULARY
        assert float(row[3]) == pytest.approx(flops / 1e6, abs=0.05)
        assert float(row[4]) > 0
    assert lines[5].endswith("the rest.")


def test_a_made_up_batch_shifts_its_targets() -> None:
    batch = make_synthetic_batch(
        vocabulary_size=30, rows=4, source_length=3, target_length=6
    )
    target, shifted = batch["decoder_target_tokens"], batch["decoder_input_tokens"]
    assert batch["encoder_input_tokens"].shape == (4, 3)
    assert (shifted[:, 0] == 0).all()
    assert (shifted[:, 1:] == target[:, :-1]).all()
    assert 3 <= target.min() < target.max() < 30


def test_a_named_config_is_a_flagfile_with_other_training() -> None:
    config = load_config("big", precision="bfloat16")
    assert (config.model.d_model, config.training.precision) == (1024, "bfloat16")
    with pytest.raises(UserError, match="nosuch"):
        load_config("nosuch")
