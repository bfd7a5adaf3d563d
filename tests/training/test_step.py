"""Training step against NumPy; equal on all devices, with XLA, and accumulated."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.step import micro_batch_count, shard_batch
from t2t_keras.training.update import ROW_NUMBERS
from t2t_keras.typing import Batch, BatchShape, BatchSize
from tests.reference import adam_np
from tests.reference.transformer_np import (
    label_smoothed_cross_entropy,
    learning_rate,
    softmax,
)
from tests.training.steppers import (
    D_MODEL,
    SHAPES,
    WARMUP,
    V,
    assert_same_run,
    batches,
    build_stepper,
    plain_run,
    run_updates,
    toy,
    transformer,
    values,
)
from tests.training.toy_models import Bigram, ToyTranslator, random_batch

# --- One update against NumPy


def bigram_sums(table: np.ndarray, batch: Batch) -> tuple[float, np.ndarray]:
    """Loss sum of a bigram table [V, V] and its gradient, token by token."""
    loss_sum, gradient = 0.0, np.zeros_like(table)
    for b, t in zip(*np.nonzero(batch["decoder_loss_weights"]), strict=True):
        before = batch["decoder_input_tokens"][b, t]
        after = batch["decoder_target_tokens"][b, t]
        row_V = table[before]
        loss_sum += label_smoothed_cross_entropy(row_V[None], [after], 0.1)[0]
        wanted_V = np.full(V, 0.1 / (V - 1))
        wanted_V[after] = 0.9
        gradient[before] += softmax(row_V) - wanted_V
    return loss_sum, gradient


@pytest.mark.parametrize(
    ("devices", "clip_norm", "updates"),
    [
        (1, None, [(0,), (1,), (2,)]),
        (2, 0.26, [(0,), (1,), (2,)]),
        (2, 0.2, [(0, 1, 2), (1,), (2, 0)]),
    ],
)
def test_an_update_is_adam_on_the_gradient_of_the_mean_over_tokens(
    devices, clip_norm, updates
) -> None:
    model, optimizer, stepper = build_stepper(
        lambda: Bigram(V), devices, clip_norm=clip_norm
    )
    norms = []
    state = adam_np.start(values([model.table])[0].astype("float64"))
    for step, numbers in enumerate(updates, start=1):
        parts = [batches()[number] for number in numbers]
        sums = stepper.train(*parts)
        loss_sums, gradients = zip(
            *(bigram_sums(state.parameter, batch) for batch in parts), strict=True
        )
        loss_sum, gradient = sum(loss_sums), sum(gradients)
        tokens = sum(batch["decoder_loss_weights"].sum() for batch in parts)
        norm = np.linalg.norm(gradient / tokens)
        norms.append(norm)
        clipped = min(1.0, (clip_norm or np.inf) / norm)
        state = adam_np.reordered(
            state,
            clipped * gradient / tokens,
            learning_rate(step, D_MODEL, WARMUP),
            adam_np.Adam(),
        )
        assert float(sums.losses.loss_sum) == pytest.approx(loss_sum, rel=1e-5)
        assert float(sums.losses.token_count) == tokens
        # The norm before clipping.
        assert float(sums.gradient_norm) == pytest.approx(norm, rel=1e-5)
        np.testing.assert_allclose(values([model.table])[0], state.parameter, atol=3e-6)
    momentum, velocity = values(
        variable
        for variable in optimizer.variables
        if variable.path.endswith(("momentum", "velocity"))
    )
    np.testing.assert_allclose(momentum, state.first_moment, atol=1e-7)
    np.testing.assert_allclose(velocity, state.second_moment, atol=1e-8)
    # Each replica applies the update once: two do not count two steps.
    assert values([optimizer.iterations])[0] == len(SHAPES)
    # Some are clipped and some are not.
    assert min(norms) < (clip_norm or 0.26) < max(norms), norms


@pytest.mark.parametrize(
    ("devices", "jit_compile"),
    [(1, False), pytest.param(2, True, marks=pytest.mark.slow)],
)
def test_an_evaluation_has_no_dropout_no_smoothing_and_no_update(
    devices, jit_compile
) -> None:
    model, optimizer, stepper = build_stepper(toy, devices, jit_compile)
    before = values([*model.weights, *optimizer.variables])
    batch = batches(11)[0]
    sums = stepper.evaluate(batch)
    logits = model(batch).numpy().astype("float64")
    expected = sum(
        label_smoothed_cross_entropy(row, target, 0.0) @ weight
        for row, target, weight in zip(
            logits,
            batch["decoder_target_tokens"],
            batch["decoder_loss_weights"],
            strict=True,
        )
    )
    assert float(sums.losses.loss_sum) == pytest.approx(expected, rel=1e-5)
    assert float(sums.losses.log_loss_sum) == pytest.approx(expected, rel=1e-5)
    after = values([*model.weights, *optimizer.variables])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


# --- Devices, XLA and micro-batches


@pytest.mark.slow
def test_devices_and_xla_do_not_matter() -> None:
    assert_same_run(plain_run(), run_updates(toy, batches(11), 2, jit_compile=True))


@pytest.mark.parametrize(
    ("devices", "max_tokens", "parts", "jit_compile"),
    [
        (1, 6, 5, False),
        (2, 8, 3, False),
        pytest.param(1, 18, 2, True, marks=pytest.mark.slow),
    ],
)
def test_micro_batches_do_not_matter(devices, max_tokens, parts, jit_compile) -> None:
    """Even if they have rows of padding: 5 rows in 2 micro-batches of 3."""
    rows = -(-SHAPES[0][0] // devices)
    assert micro_batch_count(rows, SHAPES[0][1], max_tokens) == parts
    run = run_updates(toy, batches(11), devices, jit_compile, max_tokens=max_tokens)
    assert_same_run(plain_run(), run)


def test_an_update_on_several_batches_is_that_on_a_larger_one() -> None:
    """Rows of the second are numbered from 2^20, or they had the masks of the first."""
    first, second = random_batch(5, 6, 11, seed=0), random_batch(3, 6, 11, seed=1)
    both = {name: np.concatenate([first[name], second[name]]) for name in first}
    both[ROW_NUMBERS] = np.array([*range(5), *range(2**20, 2**20 + 3)], np.int32)
    _, _, stepper = build_stepper(toy, 1)
    whole = stepper.train_replica(tf.nest.map_structure(tf.constant, both))
    for devices, settings in [(1, {}), (2, {}), (2, {"max_tokens": 8})]:
        _, _, stepper = build_stepper(toy, devices, **settings)
        sums = stepper.train(first, second)
        for one, other in zip(
            tf.nest.flatten(whole)[:5], tf.nest.flatten(sums)[:5], strict=True
        ):
            np.testing.assert_allclose(other, one, rtol=2e-6)


@pytest.mark.parametrize(
    ("devices", "max_tokens", "jit_compile"),
    [(2, 8, False), pytest.param(2, 18, True, marks=pytest.mark.slow)],
)
def test_how_several_batches_are_computed_does_not_matter(
    devices, max_tokens, jit_compile
) -> None:
    a, b, c = batches(11)
    updates = [(a, b), c, (c, a, b), (b, a)]
    plain = run_updates(toy, updates, 1, jit_compile=False)
    run = run_updates(toy, updates, devices, jit_compile, max_tokens=max_tokens)
    assert_same_run(plain, run)


@pytest.mark.parametrize(
    ("devices", "max_tokens", "rows"),
    [(1, None, 5), (2, None, 6), (1, 18, 6), (2, 8, 6)],
)
def test_the_size_computed_has_the_rows_that_even_out_shards(
    devices, max_tokens, rows
) -> None:
    """3 rows on each of two devices, or two micro-batches of 3 on one."""
    _, _, stepper = build_stepper(toy, devices, max_tokens=max_tokens)
    size = BatchSize(BatchShape(5, 4, 6), source_tokens=9, target_tokens=7)
    expected = size._replace(shape=BatchShape(rows, 4, 6))
    assert stepper.computed_size(size) == expected


def test_an_evaluation_in_parts_is_the_same() -> None:
    _, _, whole = build_stepper(toy, 1)
    _, _, parts = build_stepper(toy, 2, max_tokens=7)
    for batch in batches(11):
        one, other = (
            [*map(float, stepper.evaluate(batch).losses)] for stepper in (whole, parts)
        )
        assert one == pytest.approx(other, rel=1e-5)
        assert one[2] > 0


@pytest.mark.slow
def test_an_update_can_be_one_program() -> None:
    """The program includes Adam, as on one device."""
    model, optimizer, stepper = build_stepper(toy, devices=1, jit_compile=True)
    program = tf.function(stepper.train_replica, jit_compile=True, autograph=False)
    sums = [program(shard_batch(batch, 0, 1)) for batch in batches(11)]
    run = {
        "sums": np.array(
            [[*map(float, s.losses), float(s.gradient_norm)] for s in sums]
        ),
        "variables": values([*model.weights, *optimizer.variables]),
    }
    assert_same_run(plain_run(), run)


@pytest.mark.slow
def test_neither_matters_to_the_transformer() -> None:
    # One shape and no evaluation, because tracing and compiling are slow.
    batch_list = [random_batch(5, 6, 13, seed) for seed in range(3)]
    compiled = run_updates(transformer, batch_list, devices=1, jit_compile=True)
    parts = run_updates(transformer, batch_list, 2, jit_compile=False, max_tokens=8)
    assert_same_run(compiled, parts)


def test_every_training_step_has_a_new_dropout_mask() -> None:
    # Otherwise the comparison above would not test dropout.
    first = plain_run()["sums"][0, 0]
    _, _, dropless = build_stepper(lambda: ToyTranslator(11, 6, dropout_rate=0.0), 1)
    batch = batches(11)[0]
    without = float(dropless.train(batch).losses.loss_sum)
    assert abs(first / without - 1) > 1e-2
    _, optimizer, again = build_stepper(toy, 1)
    optimizer.iterations.assign(1)
    assert float(again.train(batch).losses.loss_sum) != first


@pytest.mark.slow
def test_which_batch_came_first_does_not_matter() -> None:
    # A resumed run begins with another batch. A trace for one shape rounds differently
    # from the trace for all shapes; here every bit must agree. The toy model is too
    # simple to show a difference.
    first, second = (random_batch(rows, 6, 13, 0) for rows in (5, 9))
    model, optimizer, stepper = build_stepper(transformer, 1)
    stepper.train(first)
    variables = [*model.weights, *optimizer.variables]
    middle = values(variables)
    for batch in (second, first):
        stepper.train(batch)
    model, optimizer, stepper = build_stepper(transformer, 1)
    again = [*model.weights, *optimizer.variables]
    for variable, value in zip(again, middle, strict=True):
        variable.assign(value)
    for batch in (second, first):
        stepper.train(batch)
    for one, other in zip(values(variables), values(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_traces_serve_all_shapes(monkeypatch) -> None:
    model, optimizer, stepper = build_stepper(toy, 2)
    updates = []
    apply = optimizer.apply_summed

    def count_updates(*arguments, **keywords):
        updates.append(arguments)
        return apply(*arguments, **keywords)

    monkeypatch.setattr(optimizer, "apply_summed", count_updates)
    for rows, length in [(9, 3), (6, 4), (5, 5), (4, 6), (3, 8), (2, 12), (1, 2)]:
        stepper.train(random_batch(rows, length, 11, 0))
        stepper.evaluate(random_batch(rows, length, 11, 0))
        # On each device, one trace for training with one update, one for evaluation.
        assert (len(updates), model.traces) == (2, 4)
