"""Lines of JSON, whole, and each step once."""

import json
import math
import resource

import pytest

from t2t_keras.training.metrics import MetricsFile


def steps(path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_a_line_is_what_was_added(path) -> None:
    metrics = MetricsFile(path)
    metrics.add({"step": 5, "time": "now", "loss": 2.5})
    metrics.add({"step": 10, "loss": 1.5})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"step": 5, "time": "now", "loss": 2.5},
        {"step": 10, "loss": 1.5},
    ]


@pytest.mark.parametrize(("step", "left"), [(0, []), (10, [5, 10]), (99, [5, 10, 15])])
def test_later_steps_are_cut_off(path, step, left) -> None:
    metrics = MetricsFile(path)
    for number in (5, 10, 15):
        metrics.add({"step": number})
    metrics.cut_after(step)
    assert steps(path) == left
    metrics.add({"step": step + 1})
    assert steps(path) == [*left, step + 1]


def test_what_a_killed_process_left_of_a_line_goes(path) -> None:
    for torn in ('{"step": 1', '{"step": 10}', "[7]\n", "\x00\x00\n"):
        path.unlink(missing_ok=True)
        metrics = MetricsFile(path)
        metrics.add({"step": 5})
        with open(path, "a") as file:
            file.write(torn)
        metrics.cut_after(20)
        assert steps(path) == [5], torn


def test_no_file_is_nothing_to_cut(path) -> None:
    MetricsFile(path).cut_after(3)
    assert not path.exists()


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
