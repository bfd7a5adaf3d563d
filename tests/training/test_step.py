"""One update held against NumPy, and against itself however it is computed."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.models.transformer import Transformer
from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.step import Stepper, row_keys, share_of
from t2t_keras.typing import Batch
from tests.reference import adam_np
from tests.reference.transformer_np import (
    label_smoothed_cross_entropy,
    learning_rate,
    softmax,
)
from tests.training.toy_models import Bigram, ToyTranslator, random_batch

V, D_MODEL, WARMUP = 7, 64, 4
# Rows that two replicas cannot share evenly, and more tokens for the first.
SHAPES = ((5, 6), (7, 3), (5, 6))


def batches(vocabulary_size: int = V) -> list[Batch]:
    return [
        random_batch(rows, length, vocabulary_size, seed)
        for seed, (rows, length) in enumerate(SHAPES)
    ]


@functools.cache
def strategy_of(devices: int) -> tf.distribute.Strategy:
    # Made once: two mirrored strategies of one process share the numbers of their
    # collective operations, and fail on one another's shapes.
    if devices == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)])


def built(make_model, devices: int, jit_compile: bool = False):
    """A model, its optimizer and its stepper, with weights from the same seed."""
    strategy = strategy_of(devices)
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = make_model()
        optimizer = paper_adam(WarmupInverseSquareRoot(D_MODEL, WARMUP))
        optimizer.build(model.trainable_variables)
    stepper = Stepper(
        model,
        optimizer,
        strategy,
        label_smoothing=0.1,
        seed=5,
        jit_compile=jit_compile,
    )
    return model, optimizer, stepper


def values(variables) -> list[np.ndarray]:
    return [variable.value.numpy() for variable in variables]


def toy() -> ToyTranslator:
    return ToyTranslator(vocabulary_size=11, width=6, dropout_rate=0.3)


def transformer() -> Transformer:
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 12, "num_heads": 2}
    model = Transformer(13, **sizes, d_k=3, d_v=5, dropout_rate=0.3)
    model.build()
    return model


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


@pytest.mark.parametrize("devices", [1, 2])
def test_an_update_is_adam_on_the_gradient_of_the_mean_over_tokens(devices) -> None:
    model, optimizer, stepper = built(lambda: Bigram(V), devices)
    state = adam_np.start(values([model.table])[0].astype("float64"))
    for step, batch in enumerate(batches(), start=1):
        sums = stepper.train(batch)
        loss_sum, gradient = bigram_sums(state.parameter, batch)
        tokens = batch["decoder_loss_weights"].sum()
        state = adam_np.reordered(
            state,
            gradient / tokens,
            learning_rate(step, D_MODEL, WARMUP),
            adam_np.Adam(),
        )
        assert float(sums.losses.loss_sum) == pytest.approx(loss_sum, rel=1e-5)
        assert float(sums.losses.token_count) == tokens
        norm = np.linalg.norm(gradient / tokens)
        assert float(sums.gradient_norm) == pytest.approx(norm, rel=1e-5)
        np.testing.assert_allclose(values([model.table])[0], state.parameter, atol=3e-6)
    momentum, velocity = values(optimizer.variables)[-2:]
    np.testing.assert_allclose(momentum, state.first_moment, atol=1e-7)
    np.testing.assert_allclose(velocity, state.second_moment, atol=1e-8)


def test_a_mean_of_the_replicas_means_would_be_seen() -> None:
    # That is, the tolerances above are below what that mistake makes.
    table = np.random.default_rng(2).normal(size=(V, V))
    batch = batches()[0]
    whole = bigram_sums(table, batch)[1] / batch["decoder_loss_weights"].sum()
    means = []
    for replica in range(2):
        share = share_of(batch, replica, 2)
        gradient = bigram_sums(table, share)[1]
        means.append(gradient / share["decoder_loss_weights"].sum())
    wrong = np.mean(means, axis=0)
    assert abs(np.linalg.norm(wrong) / np.linalg.norm(whole) - 1) > 1e-2
    assert np.abs(wrong - whole).max() > 1e-2


@pytest.mark.parametrize("devices", [1, 2])
def test_a_batch_of_padding_changes_nothing(devices) -> None:
    model, _, stepper = built(toy, devices)
    before = values(model.weights)
    batch = {name: 0 * feature for name, feature in random_batch(3, 4, 11, 0).items()}
    sums = stepper.train(batch)
    assert [float(part) for part in (*sums.losses, sums.gradient_norm)] == [0.0] * 4
    for weight, old in zip(values(model.weights), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.parametrize(("devices", "jit_compile"), [(1, False), (2, True)])
def test_an_evaluation_has_no_dropout_no_smoothing_and_no_update(
    devices, jit_compile
) -> None:
    model, optimizer, stepper = built(toy, devices, jit_compile)
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


# --- However it is computed


def run_of(make_model, batch_list, devices: int, jit_compile: bool) -> dict:
    model, optimizer, stepper = built(make_model, devices, jit_compile)
    sums = [stepper.train(batch) for batch in batch_list]
    return {
        "sums": np.array(
            [[*map(float, s.losses), float(s.gradient_norm)] for s in sums]
        ),
        "variables": values([*model.weights, *optimizer.variables]),
    }


def assert_same_run(one: dict, other: dict) -> None:
    np.testing.assert_allclose(other["sums"], one["sums"], rtol=3e-6)
    for a, b in zip(one["variables"], other["variables"], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=3e-6)


@pytest.fixture(scope="module")
def plain_run() -> dict:
    """One device, no XLA."""
    return run_of(toy, batches(11), devices=1, jit_compile=False)


@pytest.mark.parametrize(("devices", "jit_compile"), [(2, False), (1, True), (2, True)])
def test_devices_and_xla_do_not_matter(plain_run, devices, jit_compile) -> None:
    assert_same_run(plain_run, run_of(toy, batches(11), devices, jit_compile))


@pytest.mark.slow
def test_neither_matters_to_the_transformer() -> None:
    # Of one shape, and no evaluation: tracing and compiling take the time.
    batch_list = [random_batch(5, 6, 13, seed) for seed in range(3)]
    compiled = run_of(transformer, batch_list, devices=1, jit_compile=True)
    assert_same_run(compiled, run_of(transformer, batch_list, 2, jit_compile=False))


def test_training_drops_and_every_step_drops_anew(plain_run) -> None:
    # Or the comparison above would say nothing of dropout.
    _, _, stepper = built(toy, 1)
    _, _, dropless = built(lambda: ToyTranslator(11, 6, dropout_rate=0.0), 1)
    batch = batches(11)[0]
    kept = float(dropless.train(batch).losses.loss_sum)
    assert abs(float(stepper.train(batch).losses.loss_sum) / kept - 1) > 1e-2
    _, optimizer, again = built(toy, 1)
    optimizer.iterations.assign(1)
    assert float(again.train(batch).losses.loss_sum) != plain_run["sums"][0, 0]


def test_the_learning_rate_is_one_for_all_replicas() -> None:
    # Each replica applies the update once: two must not count two steps.
    _, optimizer, stepper = built(lambda: Bigram(V), 2)
    for batch in batches():
        stepper.train(batch)
    assert values([optimizer.iterations])[0] == len(SHAPES)


@pytest.mark.slow
def test_which_batch_came_first_does_not_matter() -> None:
    # A run that goes on has another first batch. A trace made for one shape rounds
    # otherwise than the trace for all; here every bit must agree. The toy model is
    # too simple to show it.
    first, second = (random_batch(rows, 6, 13, 0) for rows in (5, 9))
    model, optimizer, stepper = built(transformer, 1)
    stepper.train(first)
    variables = [*model.weights, *optimizer.variables]
    middle = values(variables)
    for batch in (second, first):
        stepper.train(batch)
    model, optimizer, stepper = built(transformer, 1)
    again = [*model.weights, *optimizer.variables]
    for variable, value in zip(again, middle, strict=True):
        variable.assign(value)
    for batch in (second, first):
        stepper.train(batch)
    for one, other in zip(values(variables), values(again), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("devices", [1, 2])
def test_few_traces_serve_all_shapes(devices, monkeypatch) -> None:
    model, optimizer, stepper = built(toy, devices)
    updates = []
    apply = optimizer.apply

    def counted(*arguments) -> None:
        updates.append(arguments)
        apply(*arguments)

    monkeypatch.setattr(optimizer, "apply", counted)
    for rows, length in [(9, 3), (6, 4), (5, 5), (4, 6), (3, 8), (2, 12), (1, 2)]:
        stepper.train(random_batch(rows, length, 11, 0))
        stepper.evaluate(random_batch(rows, length, 11, 0))
        # On each device one for training, the update in it, and one for evaluation.
        assert (len(updates), model.traces) == (devices, 2 * devices)


# --- Its parts


def test_the_keys_of_a_step_differ_from_row_to_row_and_step_to_step() -> None:
    keys = row_keys(1, tf.constant(7, tf.int64), tf.range(5_000)).numpy()
    assert keys.dtype == np.uint32
    assert len(set(keys)) == 5_000
    firsts = {
        int(row_keys(seed, tf.constant(step, tf.int64), tf.range(1))[0])
        for seed in (0, 1, 2**32 - 1)
        for step in range(40)
    }
    assert len(firsts) == 120


def test_a_row_has_its_key_wherever_it_is_computed() -> None:
    step = tf.constant(3, tf.int64)
    whole = row_keys(1, step, tf.range(9))
    parts = [row_keys(1, step, rows) for rows in (tf.range(5), 5 + tf.range(4))]
    np.testing.assert_array_equal(tf.concat(parts, axis=0), whole)
    compiled = tf.function(row_keys, jit_compile=True)(1, step, tf.range(9))
    np.testing.assert_array_equal(compiled, whole)


@given(
    rows=st.integers(1, 9),
    length=st.integers(1, 4),
    num_replicas=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_shares_are_the_batch_cut_up_in_order(rows, length, num_replicas, seed) -> None:
    rng = np.random.default_rng(seed)
    batch = {
        "ids": rng.integers(1, 99, (rows, length)).astype("int32"),
        "weights": rng.uniform(0.5, 1.0, (rows, length)).astype("float32"),
    }
    shares = [share_of(batch, replica, num_replicas) for replica in range(num_replicas)]
    for name, feature in batch.items():
        parts = [share[name] for share in shares]
        assert {part.shape for part in parts} == {(-(-rows // num_replicas), length)}
        joined = np.concatenate(parts)
        assert joined.dtype == feature.dtype
        np.testing.assert_array_equal(joined[:rows], feature)
        np.testing.assert_array_equal(joined[rows:], 0)
