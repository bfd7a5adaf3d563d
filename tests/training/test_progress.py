"""What a person sees, and what TensorBoard gets."""

import io

import pytest
import tensorflow as tf

from t2t_keras.training import progress as progress_module
from t2t_keras.training.progress import Progress, as_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (605, "10m05s"),
        (3_599.7, "1h00m"),
        (7_500, "2h05m"),
        (86_399.9, "1d00h"),
        (200_000, "2d07h"),
        (float("nan"), "?"),
    ],
)
def test_durations_are_written_as_a_person_writes_them(seconds, text) -> None:
    assert as_duration(seconds) == text


def test_lines_go_to_standard_error(capsys) -> None:
    Progress(None, train_steps=3).say("step 1")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "step 1\n")


def test_lines_go_where_they_are_sent() -> None:
    stream = io.StringIO()
    Progress(None, 3, stream).say("step 1")
    assert stream.getvalue() == "step 1\n"


def test_the_time_left_is_at_the_pace_since_the_first_step(monkeypatch) -> None:
    clock = iter([0.0, 100.0, 106.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    progress = Progress(None, train_steps=50)
    # The 100 seconds before step 20 were spent compiling and do not count.
    assert as_duration(progress.seconds_left(20)) == "?"
    # 3 steps in 6 seconds; 27 are left.
    assert progress.seconds_left(23) == pytest.approx(54.0)


def scalars_in(directory) -> dict[tuple[str, int], float]:
    found = {}
    for path in directory.iterdir():
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                found[value.tag, event.step] = number
    return found


def test_scalars_reach_tensorboards_files(tmp_path) -> None:
    progress = Progress(str(tmp_path), train_steps=9)
    progress.scalars(4, {"loss": 2.5, "learning_rate": 0.25})
    progress.scalars(8, {"loss": 1.5})
    expected = {("loss", 4): 2.5, ("learning_rate", 4): 0.25, ("loss", 8): 1.5}
    assert scalars_in(tmp_path) == expected


def test_without_a_folder_there_are_no_scalars(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Progress(None, train_steps=9).scalars(4, {"loss": 2.5})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_curves_and_not_the_run(tmp_path, monkeypatch) -> None:
    def full(*_, **__):
        raise tf.errors.OutOfRangeError(None, None, "File too large")

    stream = io.StringIO()
    progress = Progress(str(tmp_path / "curves"), 9, stream)
    monkeypatch.setattr(tf.summary, "scalar", full)
    progress.scalars(1, {"loss": 1.0})
    progress.scalars(2, {"loss": 1.0})
    said = stream.getvalue()
    assert said.count("File too large") == 1
    assert "Training goes on without TensorBoard" in said
