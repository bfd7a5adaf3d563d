"""FLOP counts against the matrix products in TensorFlow's graphs; step profiles."""

import itertools
import math
import time
from types import MappingProxyType

import pytest
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.profiling import (
    StepProfiler,
    forward_flops,
    matrix_product_ceiling,
    training_flops,
)
from t2t_keras.typing import BatchShape, BatchSize

BASE = MappingProxyType(
    {
        "encoder_layers": 6,
        "decoder_layers": 6,
        "d_model": 512,
        "d_ff": 2048,
        "num_heads": 8,
        "d_k": 64,
        "d_v": 64,
        "vocabulary_size": 37_000,
    }
)
BIG = MappingProxyType({**BASE, "d_model": 1024, "d_ff": 4096, "num_heads": 16})
B, S, T = 3, 7, 5


def batch(rows: int, source: int, target: int) -> BatchSize:
    # The number of real tokens must not matter.
    return BatchSize(BatchShape(rows, source, target), source_tokens=1, target_tokens=2)


@pytest.mark.parametrize(("sizes", "mega_flops"), [(BASE, 381), (BIG, 1291)])
def test_a_pair_of_the_papers_models_costs_what_was_worked_out(
    sizes, mega_flops
) -> None:
    # By hand, for S = T = 32, from the products of section 3: 8 d^2 + 4 S d + 4 d f per
    # source token and layer, 4 d^2 for its keys and values in the decoder, and so on.
    assert round(training_flops(sizes, batch(1, 32, 32)) / 32e6) == mega_flops
    assert training_flops(sizes, batch(9, 32, 32)) == pytest.approx(
        9 * training_flops(sizes, batch(1, 32, 32))
    )


def test_restricted_attention_counts_the_pairs_of_its_band() -> None:
    for length, neighborhood in itertools.product((1, 2, 5, 20), (1, 3, 7, 41, 99)):
        pairs = sum(
            abs(query - key) <= neighborhood // 2
            for query in range(length)
            for key in range(length)
        )
        whole = forward_flops(BASE, 2, length, 4)
        restricted = {**BASE, "encoder_neighborhood": neighborhood}
        saved = whole - forward_flops(restricted, 2, length, 4)
        # Scores and sums of 8 heads of 64 channels, in 6 layers, for two rows.
        expected = 2 * 6 * (length**2 - pairs) * (2 * 8 * (64 + 64))
        assert saved == expected, (length, neighborhood)
        none = {**BASE, "encoder_neighborhood": None}
        assert forward_flops(none, 2, length, 4) == whole, length


def products(graph: tf.Graph) -> float:
    """FLOPs of all matrix products in a graph."""
    total = 0.0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            shape = operation.inputs[0].shape
            transposed = any(
                operation.get_attr(name)
                for name in ("transpose_a", "adj_x")
                if name in operation.node_def.attr
            )
            inner = shape[-2] if transposed else shape[-1]
            total += 2.0 * math.prod(operation.outputs[0].shape) * inner
        elif operation.type == "Einsum":
            equation = operation.get_attr("equation").decode()
            sizes = {}
            inputs = equation.split("->")[0].split(",")
            for letters, tensor in zip(inputs, operation.inputs, strict=True):
                sizes.update(zip(letters, tensor.shape, strict=True))
            total += 2.0 * math.prod(sizes.values())
    return total


@pytest.mark.parametrize("with_gradient", [False, True], ids=["forward", "training"])
def test_the_count_is_that_of_the_graph(with_gradient) -> None:
    model = Transformer(
        37,
        d_model=8,
        d_ff=11,
        num_heads=3,
        d_k=2,
        d_v=5,
        dropout_rate=0.0,
        encoder_layers=2,
        decoder_layers=1,
        # Products are counted, and biases are none.
        attention_bias=True,
        output_bias=True,
        tie_output=False,
    )
    model.build()
    variables = [weight.value for weight in model.trainable_variables]

    def run(source, target):
        inputs = {"encoder_input_tokens": source, "decoder_input_tokens": target}
        with tf.GradientTape() as tape:
            logits = tf.reduce_sum(model(inputs))
        return tape.gradient(logits, variables) if with_gradient else logits

    specs = [tf.TensorSpec([B, length], tf.int32) for length in (S, T)]
    graph = tf.function(run, autograph=False).get_concrete_function(*specs).graph
    counted = forward_flops(model.sizes, B, S, T)
    if with_gradient:
        counted = training_flops(model.sizes, batch(B, S, T))
    assert counted == products(graph)


def test_the_ceiling_is_the_speed_of_products(monkeypatch) -> None:
    tokens, d_model, d_ff = 64, 32, 96
    calls: list[int] = []
    now = [0.0]
    times = tf.function

    def slow_function(*arguments, **settings):
        wrap = times(*arguments, **settings)

        def decorate(function):
            traced = wrap(function)

            def call(count):
                calls.append(int(count))
                now[0] += 0.5 + 0.001 * int(count)
                return traced(count)

            return call

        return decorate

    monkeypatch.setattr(tf, "function", slow_function)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    found = matrix_product_ceiling(
        tf.distribute.get_strategy(),
        tokens=tokens,
        d_model=d_model,
        d_ff=d_ff,
        dtype="float32",
        seconds=2.2,
    )
    # Doubled until one call takes a quarter of the time, then measured two more times.
    assert calls == [1, 1, 2, 4, 8, 16, 32, 64, 64, 64]
    expected = 64 * 2 * (2 * tokens * d_model * d_ff) / (0.5 + 0.064)
    assert found == pytest.approx(expected)


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
