"""Progress output: log lines, TensorBoard, and the metrics file."""

import json
import math
import resource

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training import progress as progress_module
from t2t_keras.training.progress import MetricsFile, Progress, as_duration, as_flops

DURATIONS = (
    (0, "0s"),
    (59.4, "59s"),
    (59.6, "1m00s"),
    (605, "10m05s"),
    (3_599.7, "1h00m"),
    (7_500, "2h05m"),
    (86_399.9, "1d00h"),
    (200_000, "2d07h"),
    (float("nan"), "?"),
)
FLOPS = (
    (0.0, "0 GFLOP"),
    (96e9, "96 GFLOP"),
    (153.4e9, "153 GFLOP"),
    (999.9e9, "1000 GFLOP"),
    (1e12, "1 TFLOP"),
    (32.27e12, "32.3 TFLOP"),
    (2.9e18, "2900 PFLOP"),
)


def test_durations_are_written_as_a_person_writes_them() -> None:
    for seconds, text in DURATIONS:
        assert as_duration(seconds) == text, seconds


def test_flops_are_written_with_three_digits() -> None:
    for flops, text in FLOPS:
        assert as_flops(flops) == text, flops


def test_a_callback_gets_the_finite_numbers_of_each_record() -> None:
    records: list[tuple[int, dict[str, float]]] = []
    progress = Progress(
        None, on_record=lambda step, values: records.append((step, values))
    )
    progress.record(4, {"loss": 2.5, "norm": math.nan})
    progress.record(5, {})
    assert records == [(4, {"loss": 2.5})]


def test_the_time_left_is_at_the_pace_since_the_first_step(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    progress = Progress(None)
    now[0] = 100.0  # spent compiling, which does not count
    progress.start(19, 50)
    now[0] = 104.0
    # One step in 4 seconds; 30 are left.
    assert progress.seconds_left(20) == pytest.approx(120.0)
    now[0] = 110.0
    # 3 steps in 6 seconds, the slow first one left out; 27 are left.
    assert progress.seconds_left(23) == pytest.approx(54.0)


def test_the_silence_is_since_the_last_line_or_from_the_start(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    progress = Progress(None)
    progress.log("compiled")
    now[0] = 3.0
    assert progress.silent_seconds() == 3.0
    progress.start(0, 5)
    assert progress.silent_seconds() == math.inf


def events_in(directory) -> dict[tuple[str, int], np.ndarray]:
    found = {}
    for path in directory.iterdir():
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found[value.tag, event.step] = tf.make_ndarray(value.tensor)
    return found


def test_numbers_reach_tensorboard_and_the_metrics_file(tmp_path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    progress = Progress(str(tmp_path / "curves"), metrics)
    progress.record(4, {"loss": 2.5, "learning_rate": 0.25})
    progress.record(8, {"loss": 1.5, "perplexity": math.inf, "norm": math.nan})
    progress.record(9, {"loss": math.nan})
    assert events_in(tmp_path / "curves") == {
        ("loss", 4): 2.5,
        ("learning_rate", 4): 0.25,
        ("loss", 8): 1.5,
    }
    text = (tmp_path / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [set(line) for line in lines] == [
        {"step", "time", "loss", "learning_rate"},
        {"step", "time", "loss"},
    ]
    assert [(line["step"], line["loss"]) for line in lines] == [(4, 2.5), (8, 1.5)]
    assert len(lines[0]["time"]) == len("2017-06-12T00:00:00Z")


def test_texts_and_images_reach_tensorboard(tmp_path) -> None:
    progress = Progress(str(tmp_path))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 1), np.uint8)
    progress.text(4, "translations", "the **dog**")
    progress.image(4, "attention", pixels)
    found = events_in(tmp_path)
    assert found["translations", 4].tolist() == b"the **dog**"
    width, height, *images = found["attention", 4].tolist()
    assert (width, height) == (b"5", b"3")
    np.testing.assert_array_equal(tf.io.decode_png(images[0]), pixels)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    progress = Progress(None)
    progress.record(4, {"loss": 2.5})
    progress.text(4, "a", "b")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_curves_and_not_the_run(
    tmp_path, monkeypatch, logged
) -> None:
    def full(*_, **__):
        raise tf.errors.OutOfRangeError(None, None, "File too large")

    progress = Progress(str(tmp_path / "curves"))
    monkeypatch.setattr(tf.summary, "scalar", full)
    progress.record(1, {"loss": 1.0})
    progress.record(2, {"loss": 1.0})
    [line] = logged
    assert "File too large" in line
    assert "Training continues without TensorBoard" in line


def test_a_metrics_file_that_cannot_be_written_is_a_warning_once(
    tmp_path, logged
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.mkdir()
    progress = Progress(None, MetricsFile(path))
    progress.record(1, {"loss": 1.0})
    progress.record(2, {"loss": 1.0})
    [line] = logged
    assert line.startswith("warning: metrics.jsonl lacks step 1: ")
    # It continues when the file can be written again, and warns of the next failure.
    path.rmdir()
    progress.record(3, {"loss": 1.0})
    assert json.loads(path.read_text())["step"] == 3
    path.unlink()
    path.mkdir()
    progress.record(4, {"loss": 1.0})
    assert len(logged) == 2


def steps(path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


@pytest.mark.parametrize(("step", "left"), [(0, []), (10, [5, 10]), (99, [5, 10, 15])])
def test_later_steps_are_cut_off(path, step, left) -> None:
    metrics = MetricsFile(path)
    for number in (5, 10, 15):
        metrics.add({"step": number})
    metrics.cut_after(step)
    assert steps(path) == left
    metrics.add({"step": step + 1})
    assert steps(path) == [*left, step + 1]


def test_an_incomplete_line_of_a_killed_process_is_removed(path) -> None:
    for torn in ('{"step": 1', '{"step": 10}', "[7]\n", "\x00\x00\n"):
        path.unlink(missing_ok=True)
        metrics = MetricsFile(path)
        metrics.add({"step": 5})
        with open(path, "a") as file:
            file.write(torn)
        metrics.cut_after(20)
        assert steps(path) == [5], torn


def test_a_line_that_does_not_fit_leaves_no_part_of_itself(path) -> None:
    metrics = MetricsFile(path)
    metrics.add({"step": 5})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 4, hard))
    try:
        with pytest.raises(OSError, match="No space left"):
            metrics.add({"step": 10, "loss": 1.5})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before


def test_what_is_no_json_is_refused(path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        MetricsFile(path).add({"step": 5, "loss": math.nan})
    assert not path.exists() or path.read_bytes() == b""


def test_lines_that_were_written_whole_are_read_back(tmp_path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    assert metrics.read() == []
    metrics.add({"step": 3, "dev_loss": 2.5})
    metrics.add({"step": 4})
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 5, "dev')
    assert metrics.read() == [{"step": 3, "dev_loss": 2.5}, {"step": 4}]


def test_a_step_is_completed_in_its_line(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    progress = Progress(None, MetricsFile(path))
    progress.record(4, {"loss": 2.5})
    progress.record(5, {"loss": 1.5})
    progress.record(5, {"dev_loss": 3.5}, again=True)
    progress.record(6, {"dev_loss": 3.0}, again=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line.pop("time") for line in lines)
    assert lines == [
        {"step": 4, "loss": 2.5},
        {"step": 5, "loss": 1.5, "dev_loss": 3.5},
        {"step": 6, "dev_loss": 3.0},
    ]
