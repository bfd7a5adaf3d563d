"""Rules that stop training.

Non-finite updates: the batch is saved; the run skips a limited number or stops. Early
stopping: a pure function of the recorded scores.
"""

import json
import math

import keras
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.losses import LossSums
from t2t_keras.training.meter import Update
from t2t_keras.training.nonfinite import (
    MAX_CONSECUTIVE_SKIPS,
    NonFiniteGuard,
    norms_by_name,
    weight_norm,
)
from t2t_keras.training.stopping import find_early_stop, monitored_loss
from t2t_keras.training.update import StepSums
from t2t_keras.typing import BatchShape, BatchSize


def batch_of(step: int) -> dict[str, np.ndarray]:
    return {
        "encoder_input_tokens": np.array([[step, 1]]),
        "decoder_loss_weights": np.array([[1.0, 0.5, 0.0]], "float32"),
    }


def batches_of(step: int) -> list[dict[str, np.ndarray]]:
    """Batches of an update: one, and two of every update from 200 on."""
    return [batch_of(step), batch_of(-step)][: 1 + step // 200]


def update(step: int, finite: bool) -> Update:
    sizes = (BatchSize(BatchShape(1, 2, 3), 2, 2),)
    if finite:
        return Update(step, sizes, StepSums(LossSums(3.0, 2.0, 1.0), 0.5))
    losses = LossSums(math.nan, math.inf, 1.0)
    return Update(step, sizes, StepSums(losses, math.inf, 1.0))


def guard(folder, skip: bool) -> NonFiniteGuard:
    metadata = {"learning_rate": 0.25, "weight_norms": {"a/b": math.nan, "c": 2.0}}
    return NonFiniteGuard(
        folder,
        skip=skip,
        load_batches=batches_of,
        load_metadata=lambda step: {"asked": step, **metadata},
    )


def test_the_first_stops_the_run_and_is_kept_whole(tmp_path) -> None:
    watch = guard(tmp_path / "nonfinite", skip=False)
    watch.check(update(7, finite=True))
    with pytest.raises(
        UserError,
        match=r"At step 8 .*loss sum nan, gradient norm inf.*nonfinite/step-8.*"
        r"--on_nonfinite=skip.*--learning_rate_scale.*--warmup_steps",
    ):
        watch.check(update(8, finite=False))
    folder = tmp_path / "nonfinite" / "step-8"
    with np.load(folder / "batch.npz") as kept:
        assert set(kept) == {"encoder_input_tokens", "decoder_loss_weights"}
        for name, value in batch_of(8).items():
            np.testing.assert_array_equal(kept[name], value)
            assert kept[name].dtype == value.dtype
    text = (folder / "statistics.json").read_text()
    # JSON has no NaN.
    assert json.loads(text, parse_constant=pytest.fail) == {
        "step": 8,
        "loss_sum": "nan",
        "log_loss_sum": "inf",
        "token_count": 1.0,
        "gradient_norm": "inf",
        "shapes": {"encoder_input_tokens": [1, 2], "decoder_loss_weights": [1, 3]},
        "asked": 8,
        "learning_rate": 0.25,
        "weight_norms": {"a/b": "nan", "c": 2.0},
    }


def test_too_many_in_a_row_are_not_passed_over(tmp_path) -> None:
    watch = guard(tmp_path, skip=True)
    for step in range(1, MAX_CONSECUTIVE_SKIPS):
        watch.check(update(step, finite=False))
    # An applied update restarts the count.
    watch.check(update(MAX_CONSECUTIVE_SKIPS, finite=True))
    for step in range(201, 200 + MAX_CONSECUTIVE_SKIPS):
        watch.check(update(step, finite=False))
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"From step 201 on, 100 updates in a row"):
        watch.check(update(200 + MAX_CONSECUTIVE_SKIPS, finite=False))
    # The first skipped update shows the cause.
    for name, number in (("batch.npz", 201), ("batch-2.npz", -201)):
        with np.load(tmp_path / "step-201" / name) as kept:
            assert kept["encoder_input_tokens"].tolist() == [[number, 1]]
    statistics = json.loads((tmp_path / "step-201/statistics.json").read_text())
    shapes = {"encoder_input_tokens": [1, 2], "decoder_loss_weights": [1, 3]}
    assert statistics["shapes"] == [shapes, shapes]


def test_of_several_workers_only_one_keeps_the_batch(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = NonFiniteGuard(
        None, skip=False, load_batches=pytest.fail, load_metadata=pytest.fail
    )
    with pytest.raises(UserError, match=r"At step 3 .*The first worker keeps its bat"):
        other.check(update(3, finite=False))
    assert not list(tmp_path.iterdir())


def test_a_batch_that_cannot_be_kept_does_not_hide_what_happened(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    watch = guard(tmp_path / "file", skip=False)
    with pytest.raises(UserError, match=r"At step 3 .*could not be kept: .*file"):
        watch.check(update(3, finite=False))

    def unreadable(step: int):
        raise OSError(f"no shard for {step}")

    watch = NonFiniteGuard(
        tmp_path, skip=False, load_batches=unreadable, load_metadata=dict
    )
    with pytest.raises(UserError, match=r"At step 3 .*not be kept: no shard for 3"):
        watch.check(update(3, finite=False))


def test_norms_are_numpys() -> None:
    rng = np.random.default_rng(5)
    values = [rng.normal(size=shape) for shape in ((3, 4), (5,))]
    layer = keras.layers.Layer(name="layer")
    for name, value in zip("ab", values, strict=True):
        weight = layer.add_weight(shape=value.shape, name=name)
        weight.assign(value)
    whole = np.sqrt(sum((value**2).sum() for value in values))
    assert weight_norm(layer.weights) == pytest.approx(whole, rel=1e-6)
    each = norms_by_name(layer.weights)
    assert list(each) == ["layer/a", "layer/b"]
    assert list(each.values()) == pytest.approx(
        [np.linalg.norm(value) for value in values], rel=1e-6
    )
    # Of a run that diverges, squares overflow float32.
    layer.weights[1].assign(4e27 * values[1])
    huge = norms_by_name(layer.weights)["layer/b"]
    assert huge == pytest.approx(4e27 * each["layer/b"], rel=1e-6)


def records(losses, first: int = 2) -> list[dict]:
    """Records of evaluations at every second step, with lines of training between."""
    lines = []
    for index, loss in enumerate(losses):
        step = first + 2 * index
        lines += [{"step": step - 1, "loss": 9.0}, {"step": step, "dev_loss": loss}]
    return lines


def test_it_stops_after_so_many_evaluations_without_a_better_one() -> None:
    for losses, patience, best in (
        ([3.0, 2.0, 2.5, 2.25], 2, (4, 2.0, 2)),
        ([3.0, 2.0, 2.5, 2.25], 3, None),
        ([3.0, 2.0, 2.5, 1.5], 2, None),
        # An equal score is not a better one.
        ([3.0, 2.0, 2.0, 2.0], 2, (4, 2.0, 2)),
        ([3.0, 2.0, 2.0, 2.0], 0, None),
        ([3.0], 1, None),
        ([3.0, 4.0], 1, (2, 3.0, 1)),
        ([], 1, None),
    ):
        stop = find_early_stop(records(losses), "dev_loss", patience)
        found = stop and (stop.best_step, stop.best, stop.patience)
        assert found == best, losses
        assert stop is None or stop.step == 2 * len(losses)


def test_every_prefix_of_a_run_decides_as_the_run_did() -> None:
    """An interrupted run has the records up to some step, and decides the same."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        losses = rng.integers(0, 6, size=12).tolist()
        patience = int(rng.integers(1, 5))
        stops = [
            find_early_stop(records(losses[:count]), "dev_loss", patience) is not None
            for count in range(13)
        ]
        # By definition, one count at a time.
        best, since, expected = math.inf, 0, [False]
        for loss in losses:
            best, since = (loss, 0) if loss < best else (best, since + 1)
            expected.append(since >= patience)
        assert stops == expected, losses


def test_bleu_is_better_when_it_is_higher() -> None:
    lines = [
        {"step": step, "dev_loss": 1.0 / step, "dev_bleu_greedy": bleu}
        for step, bleu in ((1, 20.0), (2, 31.5), (3, 30.0))
    ]
    stop = find_early_stop(lines, "dev_bleu", 1)
    assert stop is not None
    assert stop.describe() == (
        "stopped early at step 3: no better dev_bleu in 1 evaluations; the best is "
        "31.5 at step 2"
    )
    # By loss, the last is the best.
    assert find_early_stop(lines, "dev_loss", 1) is None


def test_a_parser_is_monitored_by_its_f1() -> None:
    assert monitored_loss({"dev_loss": 1.0, "dev_f1_greedy": 80.0}, "dev_bleu") == -80
    assert monitored_loss({"dev_loss": 1.5}, "dev_loss") == 1.5
    for monitor in ("dev_loss", "dev_bleu"):
        assert monitored_loss({"loss": 1.0}, monitor) == math.inf
