"""Guided alignment: loss and gradient against a float64 model; equal on all devices."""

import copy
import dataclasses
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.losses import alignment_cross_entropy
from tests.model.copy_weights import transformer_of
from tests.reference import transformer_np
from tests.reference.weights_np import Options, Sizes, random_weights
from tests.training.steppers import assert_same_run, build_stepper, run_updates

WEIGHT = 0.7
# Three decoder layers: the last but one is neither the first nor the last.
SIZES = Sizes(num_encoder_layers=1, num_decoder_layers=3)
# The last row is all padding; the second target is longer than its source.
SOURCE = np.array([[4, 9, 5, 1], [7, 1, 0, 0], [3, 12, 1, 0], [0] * 4], np.int32)
TARGET = np.array(
    [[6, 3, 1, 0, 0], [8, 8, 4, 2, 1], [5, 1, 0, 0, 0], [0] * 5], np.int32
)


def random_alignment(source, target, seed=3):
    """Returns links of real tokens: some target tokens have several, some none."""
    generator = np.random.default_rng(seed)
    shape = *target.shape, source.shape[1]
    links = generator.random(shape) < 0.4
    links &= (target > 1)[:, :, None] & (source > 1)[:, None, :]
    counts = links.sum(axis=-1)[target > 1]
    assert counts.min() == 0 and counts.max() > 1
    return links.astype(np.uint8)


def batch_of(source, target):
    return {
        "encoder_input_tokens": source,
        "decoder_input_tokens": np.pad(target, [(0, 0), (1, 0)])[:, :-1],
        "decoder_target_tokens": target,
        "decoder_loss_weights": (target > 0).astype(np.float32),
        "alignment": random_alignment(source, target),
    }


def cross_attention(source, shifted, weights, layer, head):
    """Returns the attention [T, S] of a head of a decoder layer, by the paper."""
    memory = transformer_np.encode_padded(source, weights)
    legal = np.tile(np.array(source) > 0, (len(shifted), 1))
    masks = transformer_np.causal_mask(len(shifted)), legal
    before = dataclasses.replace(weights, decoder_layers=weights.decoder_layers[:layer])
    hidden = transformer_np.decode(shifted, memory, before, source)
    own = weights.decoder_layers[layer]
    attended = transformer_np.multi_head_attention(
        hidden, hidden, own.self_attention, masks[0]
    )
    inputs = transformer_np.add_and_norm(hidden, attended, own.self_attention_norm)
    query, key = (
        x @ kernel[:, head]
        for x, kernel in (
            (inputs, own.cross_attention.query),
            (memory, own.cross_attention.key),
        )
    )
    return transformer_np.attention_weights(query, key, masks[1])


def reference_losses(batch, weights, layer=1, head=0):
    """Returns the sums of the smoothed loss and of the loss of guided alignment."""
    loss, guided = 0.0, 0.0
    for source, shifted, target, links in zip(
        *(batch[f"{name}_tokens"] for name in ("encoder_input", "decoder_input")),
        *(batch[name] for name in ("decoder_target_tokens", "alignment")),
        strict=True,
    ):
        if not source.any():
            continue
        hidden = transformer_np.decode(
            shifted, transformer_np.encode_padded(source, weights), weights, source
        )
        logits = transformer_np.logits(hidden, weights)
        costs = transformer_np.label_smoothed_cross_entropy(logits, target, 0.1)
        loss += costs[target > 0].sum()
        attention = cross_attention(source, shifted, weights, layer, head)
        for row, linked in zip(attention, links, strict=True):
            if linked.any():
                guided -= np.mean(np.log(row[linked > 0]))
    return loss, guided


def test_the_loss_is_the_cross_entropy_of_linked_tokens() -> None:
    generator = np.random.default_rng(4)
    attention = generator.dirichlet(np.ones(4), (3, 5)).astype(np.float32)
    links = random_alignment(SOURCE[:3], TARGET[:3])
    expected = 0.0
    for b, t in itertools.product(range(3), range(5)):
        linked = np.flatnonzero(links[b, t])
        for s in linked:
            expected -= np.log(float(attention[b, t, s])) / len(linked)
    found = float(alignment_cross_entropy(tf.constant(attention), tf.constant(links)))
    assert found == pytest.approx(expected, rel=1e-6)
    # An attention that has underflowed to 0 gives a large loss, not an infinite one.
    nothing = tf.zeros([1, 1, 2])
    assert 50 < float(alignment_cross_entropy(nothing, tf.ones([1, 1, 2]))) < 100


@pytest.mark.slow
@pytest.mark.parametrize("r_drop", [0.0, 3.0])  # without dropout, no difference
def test_an_update_has_the_references_loss_and_gradient(r_drop) -> None:
    weights = random_weights(np.random.default_rng(5), SIZES)
    assert weights.options == Options()
    batch = batch_of(SOURCE, TARGET)
    model, optimizer, stepper = build_stepper(
        lambda: transformer_of(weights, SIZES, dropout_rate=0.0),
        1,
        guided_alignment=WEIGHT,
        r_drop=r_drop,
    )
    sums = stepper.train(batch)
    loss, guided = reference_losses(batch, weights)
    tokens = float((TARGET > 0).sum())
    assert float(sums.losses.loss_sum) == pytest.approx(
        loss + WEIGHT * guided, rel=1e-5
    )
    assert float(sums.losses.token_count) == tokens
    # Another layer or head would be seen.
    for layer, head in ((2, 0), (0, 0), (1, 1)):
        _, other = reference_losses(batch, weights, layer, head)
        assert abs(other - guided) > 1e-2
    momenta = [v for v in optimizer.variables if v.path.endswith("momentum")]
    gradients = {
        weight.path: momentum.value.numpy() / 0.1 * tokens
        for weight, momentum in zip(model.trainable_variables, momenta, strict=True)
    }
    layer = model.decoder.layers[1]
    generator = np.random.default_rng(6)
    for variable, find in (
        (layer.cross_attention.query_kernel, _cross(lambda own: own.query)),
        (layer.cross_attention.key_kernel, _cross(lambda own: own.key)),
        (layer.cross_attention.value_kernel, _cross(lambda own: own.value)),
        (
            model.encoder.layers[0].feed_forward.inner.kernel,
            lambda all_: all_.encoder_layers[0].feed_forward.w1,
        ),
        (model.embedding.embeddings, lambda all_: all_.embedding),
    ):
        direction = generator.normal(size=find(weights).shape)
        if variable is model.embedding.embeddings:
            direction[0] = 0.0  # padding, whose gradient is not the paper's
        values_at = []
        for step in (1e-5, -1e-5):
            moved = copy.deepcopy(weights)
            find(moved)[...] += step * direction
            loss, guided = reference_losses(batch, moved)
            values_at.append(loss + WEIGHT * guided)
        slope = (values_at[0] - values_at[1]) / 2e-5
        found = float(
            (gradients[variable.path] * direction.reshape(variable.shape)).sum()
        )
        assert found == pytest.approx(slope, rel=1e-3, abs=1e-3), variable.path


def _cross(select):
    return lambda weights: select(weights.decoder_layers[1].cross_attention)


def small(dtype="float32") -> Transformer:
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 12, "num_heads": 2, "d_k": 3}
    return Transformer(13, **sizes, dropout_rate=0.3, dtype=dtype)


def random_batches():
    generator = np.random.default_rng(8)
    batches = []
    for _ in range(2):  # of one shape, because each shape is compiled
        source, target = generator.integers(2, 13, [2, 5, 6], np.int32)
        for side in (source, target):
            side[:, -1], side[1, 1], side[1, 2:] = 1, 1, 0
        batches.append(batch_of(source, target))
    return batches


@pytest.fixture(scope="module")
def alone() -> dict:
    """Updates on one device, in float32 and without XLA."""
    return run_updates(small, random_batches(), 1, False, guided_alignment=WEIGHT)


@pytest.mark.parametrize(
    "jit_compile",
    [
        pytest.param(False, marks=pytest.mark.slow),
        pytest.param(True, marks=pytest.mark.release),
    ],
)
def test_an_update_is_the_same_on_two_devices_and_accumulated(
    alone, jit_compile
) -> None:
    settings = {"guided_alignment": WEIGHT, "max_tokens": 12}
    other = run_updates(small, random_batches(), 2, jit_compile, **settings)
    assert_same_run(alone, other)


@pytest.mark.slow
def test_a_loss_scale_changes_nothing(alone) -> None:
    settings = {"guided_alignment": WEIGHT, "dynamic_loss_scale": True}
    scaled = run_updates(small, random_batches()[:1], 1, False, **settings)
    np.testing.assert_allclose(scaled["sums"], alone["sums"][:1], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_low_precision_has_nearly_the_same_gradient(alone, policy) -> None:
    made = functools.partial(small, dtype=policy)
    scale = {"dynamic_loss_scale": policy == "mixed_float16"}
    batches = random_batches()[:1]
    run = run_updates(made, batches, 1, False, guided_alignment=WEIGHT, **scale)
    np.testing.assert_allclose(run["sums"][0], alone["sums"][0], rtol=2e-2)
    assert (run["sums"][0] != alone["sums"][0])[[0, 3]].all()
