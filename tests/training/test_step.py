"""One update held against NumPy, and against itself however it is computed."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.models.transformer import Transformer
from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.shares import micro_batch_count, share_of
from t2t_keras.training.step import Stepper, row_keys
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


def built(make_model, devices: int, jit_compile: bool = False, **settings):
    """A model, its optimizer and its stepper, with weights from the same seed."""
    loss_scale = settings.pop("dynamic_loss_scale", False)
    strategy = strategy_of(devices)
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = make_model()
        optimizer = paper_adam(
            WarmupInverseSquareRoot(D_MODEL, WARMUP), dynamic_loss_scale=loss_scale
        )
        optimizer.build(model.trainable_variables)
    stepper = Stepper(
        model,
        optimizer,
        strategy,
        label_smoothing=0.1,
        seed=5,
        jit_compile=jit_compile,
        **settings,
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
    momentum, velocity = values(
        variable
        for variable in optimizer.variables
        if variable.path.endswith(("momentum", "velocity"))
    )
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


def run_of(make_model, batch_list, devices: int, jit_compile: bool, **settings) -> dict:
    model, optimizer, stepper = built(make_model, devices, jit_compile, **settings)
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


@pytest.mark.parametrize(
    ("devices", "max_tokens", "parts"), [(1, 6, 5), (1, 12, 3), (2, 8, 3)]
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_micro_batches_do_not_matter(
    plain_run, devices, max_tokens, parts, jit_compile
) -> None:
    """Nor that their shapes leave empty rows: 5 rows in 3 parts of 2."""
    rows = -(-SHAPES[0][0] // devices)
    assert micro_batch_count(rows, SHAPES[0][1], max_tokens) == parts
    run = run_of(toy, batches(11), devices, jit_compile, max_tokens=max_tokens)
    assert_same_run(plain_run, run)


@pytest.mark.parametrize("devices", [1, 2])
def test_an_evaluation_in_parts_is_the_same(devices) -> None:
    _, _, whole = built(toy, devices)
    _, _, parts = built(toy, devices, max_tokens=7)
    for batch in batches(11):
        one, other = (
            [*map(float, stepper.evaluate(batch).losses)] for stepper in (whole, parts)
        )
        assert one == pytest.approx(other, rel=1e-5)
        assert one[2] > 0


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
    apply = optimizer.apply_summed

    def counted(*arguments, **keywords) -> None:
        updates.append(arguments)
        apply(*arguments, **keywords)

    monkeypatch.setattr(optimizer, "apply_summed", counted)
    for rows, length in [(9, 3), (6, 4), (5, 5), (4, 6), (3, 8), (2, 12), (1, 2)]:
        stepper.train(random_batch(rows, length, 11, 0))
        stepper.evaluate(random_batch(rows, length, 11, 0))
        # On each device one for training, the update in it, and one for evaluation.
        assert (len(updates), model.traces) == (devices, 2 * devices)


# --- Steps that leave everything alone


def with_a_bad_weight(batch: Batch, bad: float) -> Batch:
    weights = batch["decoder_loss_weights"].copy()
    weights[0, 0] = bad
    return {**batch, "decoder_loss_weights": weights}


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_update_that_is_no_number_is_left_out_and_counted(devices, bad) -> None:
    """As if it had never been, but for the count that the schedule goes by."""
    first, _, last = batches(11)
    model, optimizer, stepper = built(toy, devices)
    assert float(stepper.train(first).finite) == 1.0
    variables = [*model.weights, *optimizer.variables]
    before = {v.path: v.numpy().copy() for v in variables}
    sums = stepper.train(with_a_bad_weight(last, bad))
    assert float(sums.finite) == 0.0
    for variable in variables:
        after = variable.numpy()
        if variable.path.endswith("iteration"):
            assert (before[variable.path], after) == (1, 2)
        else:
            np.testing.assert_array_equal(after, before[variable.path])
    assert float(stepper.train(last).finite) == 1.0
    assert np.isfinite(np.concatenate([v.numpy().ravel() for v in variables])).all()
    assert optimizer.applied.numpy() == 2


@pytest.mark.parametrize("devices", [1, 2])
def test_a_rehearsal_leaves_everything_alone(devices) -> None:
    model, optimizer, stepper = built(toy, devices, dynamic_loss_scale=True)
    for batch in batches(11)[:2]:
        stepper.train(batch)
    before = values([*model.weights, *optimizer.variables])
    stepper.rehearse(batches(11)[0])
    after = values([*model.weights, *optimizer.variables])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_only_rehearsed_shapes_are_trained_on() -> None:
    _, _, stepper = built(toy, 1)
    first, second, third = batches(11)
    stepper.rehearse(first)
    stepper.train(third)
    with pytest.raises(ValueError, match=r"\[\(5, 6, 6\)\].*Received: \(7, 3, 3\)"):
        stepper.train(second)
    stepper.rehearse(second)
    stepper.train(second)


def test_whoever_is_asked_to_stop_tells_all() -> None:
    _, _, stepper = built(toy, 2)
    batch = batches(11)[0]
    assert float(stepper.train(batch).stops) == 0
    assert float(stepper.train(batch, stop=True).stops) == 2


def test_the_loss_scale_halves_until_gradients_fit() -> None:
    """And no update is made with gradients that overflowed."""
    model, optimizer, stepper = built(toy, 1, dynamic_loss_scale=True)
    optimizer.loss_scale.assign(2.0**127)
    batch = batches(11)[0]
    before = values(model.weights)
    finite = []
    while not optimizer.applied.numpy():
        finite.append(float(stepper.train(batch).finite))
        if not optimizer.applied.numpy():
            for old, new in zip(before, values(model.weights), strict=True):
                np.testing.assert_array_equal(old, new)
    assert 1 < len(finite) < 20
    assert set(finite) == {1.0}  # mended: nothing to worry about
    assert optimizer.loss_scale.numpy() == 2.0 ** (127 - len(finite) + 1)
    assert optimizer.good_steps.numpy() == 1
    optimizer.good_steps.assign(1999)
    optimizer.loss_scale.assign(64.0)
    stepper.train(batch)
    assert optimizer.loss_scale.numpy() == 128.0
    assert optimizer.good_steps.numpy() == 0
    # At its least there is nothing left to blame it on.
    optimizer.loss_scale.assign(2.0**-14)
    assert float(stepper.train(with_a_bad_weight(batch, np.inf)).finite) == 0.0
    assert optimizer.loss_scale.numpy() == 2.0**-14


def test_the_loss_scale_does_not_matter_otherwise(plain_run) -> None:
    run = run_of(toy, batches(11), 1, False, dynamic_loss_scale=True)
    np.testing.assert_allclose(run["sums"], plain_run["sums"], rtol=3e-6)


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
