"""The profiler runs from one update to another, and never on."""

import tensorflow as tf

from t2t_keras.training.profiling import StepProfiler


class Recorded:
    def __init__(self, monkeypatch):
        self.calls: list[object] = []
        names = {"start": self.calls.append, "stop": lambda: self.calls.append("stop")}
        for name, function in names.items():
            monkeypatch.setattr(tf.profiler.experimental, name, function)

    def run(self, profiler: StepProfiler, steps: range) -> None:
        with profiler:
            for step in steps:
                profiler.before(step)
                self.calls.append(step)
                profiler.after(step, (tf.constant(1.0), 2.0))


def test_the_steps_asked_for_are_inside(monkeypatch) -> None:
    recorded = Recorded(monkeypatch)
    recorded.run(StepProfiler(range(3, 5), "there"), range(1, 7))
    assert recorded.calls == [1, 2, "there", 3, 4, "stop", 5, 6]


def test_a_run_may_begin_and_end_in_between(monkeypatch) -> None:
    recorded = Recorded(monkeypatch)
    recorded.run(StepProfiler(range(3, 10), "there"), range(4, 6))
    assert recorded.calls == ["there", 4, 5, "stop"]


def test_nothing_is_recorded_unasked(monkeypatch) -> None:
    recorded = Recorded(monkeypatch)
    recorded.run(StepProfiler(range(0), "there"), range(1, 3))
    assert recorded.calls == [1, 2]


def test_a_profile_is_written_where_tensorboard_looks(tmp_path) -> None:
    with StepProfiler(range(1, 2), str(tmp_path)) as profiler:
        profiler.before(1)
        product = tf.linalg.matmul(tf.ones([8, 8]), tf.ones([8, 8]))
        profiler.after(1, tf.reduce_sum(product))
    files = list((tmp_path / "plugins" / "profile").glob("*/*.xplane.pb"))
    assert len(files) == 1
    assert b"MatMul" in files[0].read_bytes()
