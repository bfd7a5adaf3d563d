"""Parts of the NumPy reference model against values worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import transformer_np as model
from tests.reference.weights_np import (
    Array,
    AttentionWeights,
    FeedForwardWeights,
    LayerNormWeights,
    Sizes,
    Weights,
    random_decoder_layer,
    random_encoder_layer,
    random_weights,
)

SOURCE = (5, 3, 12, 4, 7, 9, 1)
TARGET = (8, 2, 6, 11, 1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170612)


@pytest.fixture
def weights(rng: np.random.Generator) -> Weights:
    return random_weights(rng)


def silent(attention: AttentionWeights) -> AttentionWeights:
    return replace(attention, output=np.zeros_like(attention.output))


def silent_ffn(inner: FeedForwardWeights) -> FeedForwardWeights:
    return replace(inner, w2=np.zeros_like(inner.w2), b2=np.zeros_like(inner.b2))


def norm(x: Array, weights: LayerNormWeights) -> Array:
    centered = x - np.mean(x, axis=-1, keepdims=True)
    deviation = np.sqrt(np.var(x, axis=-1, keepdims=True) + 1e-6)
    return weights.gain * centered / deviation + weights.bias


def test_sinusoids_are_interleaved_as_printed() -> None:
    sines = [0.0, 0.8414709848, 0.9092974268], [0.0, 0.0099998333, 0.0199986667]
    cosines = [1.0, 0.5403023059, -0.4161468365], [1.0, 0.9999500004, 0.9998000067]
    expected = np.transpose([sines[0], cosines[0], sines[1], cosines[1]])
    np.testing.assert_allclose(model.sinusoids(3, 4), expected, atol=1e-9)


def test_sinusoids_refuse_an_odd_width() -> None:
    with pytest.raises(ValueError, match=r"d_model must be even\. Received: 5"):
        model.sinusoids(3, 5)


def test_an_offset_turns_every_pair_of_channels_by_the_same_angle() -> None:
    # Why the paper chose them: PE(pos + k) is linear in PE(pos).
    table = model.sinusoids(40, 8)
    points = table[:, 0::2] * 1j + table[:, 1::2]
    turns = points[7:] / points[:-7]
    np.testing.assert_allclose(turns, np.broadcast_to(turns[0], turns.shape))
    np.testing.assert_allclose(turns[0], np.exp(7j / 10.0 ** np.arange(4)))


def test_attention_by_hand() -> None:
    # d_k = 4, so 2 ln 3 becomes ln 3 and the weights 3 : 1. Unscaled, 9 : 1.
    query = np.array([[2 * np.log(3), 0, 0, 0]])
    key = np.array([[1.0, 5, 0, 0], [0, 0, 7, 1], [9, 9, 9, 9]])
    value = np.array([[4.0, 0, 8], [0, 4, 16], [99, 99, 99]])
    mask = np.array([[True, True, False]])
    attended = model.attention(query, key, value, mask)
    np.testing.assert_allclose(attended, [[3.0, 1.0, 10.0]])
    np.testing.assert_allclose(
        model.attention_weights(query, key, mask), [[0.75, 0.25, 0.0]]
    )


def test_multi_head_attention_in_its_other_form(rng: np.random.Generator) -> None:
    # All heads at once, illegal scores hidden at -1e9, Concat(heads) W_O.
    head, memory = random_weights(rng).decoder_layers[0].cross_attention, 7
    x_TD, y_SD = rng.normal(size=(5, 6)), rng.normal(size=(memory, 6))
    mask_TS = rng.random((5, memory)) < 0.6
    mask_TS[2] = False
    query_HTK = np.einsum("td,dhk->htk", x_TD, head.query)
    key_HSK = np.einsum("sd,dhk->hsk", y_SD, head.key)
    value_HSU = np.einsum("sd,dhu->hsu", y_SD, head.value)
    scores_HTS = query_HTK @ np.swapaxes(key_HSK, 1, 2) / np.sqrt(5)
    powers_HTS = np.exp(np.where(mask_TS, scores_HTS, -1e9))
    sums_HT1 = np.maximum(powers_HTS.sum(axis=-1, keepdims=True), 1e-300)
    concat_TX = np.concatenate(list(powers_HTS / sums_HT1 @ value_HSU), axis=-1)
    expected_TD = concat_TX @ head.output.reshape(-1, 6)
    actual_TD = model.multi_head_attention(x_TD, y_SD, head, mask_TS)
    np.testing.assert_allclose(actual_TD, expected_TD, atol=1e-12)
    np.testing.assert_array_equal(actual_TD[2], 0.0)
    assert np.abs(np.delete(actual_TD, 2, axis=0)).min() > 0


def test_ffn_by_hand() -> None:
    x, w1 = np.array([[1.0, 2.0]]), np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -3.0]])
    b1, w2 = np.array([-1.0, 4.0, 5.0]), np.array([[1.0, 2], [10, 20], [100, 200]])
    # Inside: 3 - 1 = 2, -1 + 4 = 3, -6 + 5 = -1, which becomes 0.
    actual = model.ffn(x, w1, b1, w2, np.array([0.5, -0.5]))
    np.testing.assert_allclose(actual, [[32.5, 63.5]])


def test_layer_norm_by_hand() -> None:
    # Variance 1 by the population (2 by the sample); epsilon 3 inside the root.
    x, gain, bias = np.array([[1.0, 3.0]]), np.array([2.0, 4.0]), np.array([0.5, 0.0])
    plain = model.layer_norm(x, gain, bias, epsilon=0.0)
    np.testing.assert_allclose(plain, [[-1.5, 4.0]])
    softened = model.layer_norm(x, gain, bias, epsilon=3.0)
    np.testing.assert_allclose(softened, [[-0.5, 2.0]])
    constant = model.layer_norm(np.full((1, 2), 7.0), gain, bias)
    np.testing.assert_allclose(constant, [bias])
    # Variance 1e-6, as much as the epsilon: half of every deviation's square is left.
    narrow = model.layer_norm(np.array([[-1e-3, 1e-3]]), np.ones(2), np.zeros(2))
    np.testing.assert_allclose(narrow, [[-(0.5**0.5), 0.5**0.5]])


def test_masks_by_hand() -> None:
    yes, no = True, False
    causal = [[yes, no, no], [yes, yes, no], [yes, yes, yes]]
    np.testing.assert_array_equal(model.causal_mask(3), causal)
    three = [[yes, yes, no, no], [yes, yes, yes, no]]
    three += [row[::-1] for row in three[::-1]]
    np.testing.assert_array_equal(model.neighborhood_mask(4, 3), three)
    np.testing.assert_array_equal(model.neighborhood_mask(4, 1), np.eye(4, dtype=bool))
    assert model.neighborhood_mask(4, 7).all()
    assert not model.neighborhood_mask(4, 5).all()


def test_the_encoder_layer_normalizes_after_each_sum(rng: np.random.Generator) -> None:
    layer = random_encoder_layer(rng, Sizes())
    x, everything = rng.normal(size=(4, 6)), np.ones((4, 4), bool)
    first, second = layer.self_attention_norm, layer.feed_forward_norm
    inner, outer = layer.feed_forward, layer.self_attention
    deaf = replace(layer, self_attention=silent(outer))
    y = norm(x, first)
    added = np.maximum(0, y @ inner.w1 + inner.b1) @ inner.w2 + inner.b2
    expected = norm(y + added, second)
    np.testing.assert_allclose(model.encoder_layer(x, deaf, everything), expected)
    idle = replace(layer, feed_forward=silent_ffn(inner))
    heard = model.multi_head_attention(x, x, outer, everything)
    expected = norm(norm(x + heard, first), second)
    np.testing.assert_allclose(model.encoder_layer(x, idle, everything), expected)


def test_the_decoder_layer_has_its_parts_in_order(rng: np.random.Generator) -> None:
    layer = random_decoder_layer(rng, Sizes())
    x, memory = rng.normal(size=(3, 6)), rng.normal(size=(5, 6))
    causal, everything = model.causal_mask(3), np.ones((3, 5), bool)
    own, cross, inner = layer.self_attention, layer.cross_attention, layer.feed_forward
    deaf = replace(layer, self_attention=silent(own), feed_forward=silent_ffn(inner))
    y = norm(x, layer.self_attention_norm)
    heard = model.multi_head_attention(y, memory, cross, everything)
    z = norm(y + heard, layer.cross_attention_norm)
    actual = model.decoder_layer(x, memory, deaf, causal, everything)
    np.testing.assert_allclose(actual, norm(z, layer.feed_forward_norm))
    blind = replace(layer, cross_attention=silent(cross))
    own_output = model.multi_head_attention(x, x, own, causal)
    z = norm(
        norm(x + own_output, layer.self_attention_norm), layer.cross_attention_norm
    )
    added = np.maximum(0, z @ inner.w1 + inner.b1) @ inner.w2 + inner.b2
    actual = model.decoder_layer(x, memory, blind, causal, everything)
    np.testing.assert_allclose(actual, norm(z + added, layer.feed_forward_norm))


def test_embedding_is_scaled_and_padding_is_a_zero_vector(weights: Weights) -> None:
    code = model.sinusoids(3, 6)
    actual = model.embed([7, 0, 7], weights) - code
    expected = 6**0.5 * weights.embedding[7]
    np.testing.assert_allclose(actual, [expected, np.zeros(6), expected], atol=1e-15)
    np.testing.assert_array_equal(model.embed([0], weights), [[0, 1, 0, 1, 0, 1]])


def test_learned_positions_take_the_place_of_the_sinusoids(
    rng: np.random.Generator,
) -> None:
    weights = random_weights(rng, max_learned_length=5)
    assert weights.positions is not None
    np.testing.assert_array_equal(model.embed([0, 0], weights), weights.positions[:2])


def test_the_stacks_apply_their_layers_in_order(weights: Weights) -> None:
    layers = weights.encoder_layers
    x, mask = model.embed(SOURCE, weights), np.ones((7, 7), bool)
    expected = model.encoder_layer(
        model.encoder_layer(x, layers[0], mask), layers[1], mask
    )
    memory = model.encode(SOURCE, weights)
    np.testing.assert_array_equal(memory, expected)
    y, masks = (
        model.embed(TARGET, weights),
        (model.causal_mask(5), np.ones((5, 7), bool)),
    )
    for layer in weights.decoder_layers:
        y = model.decoder_layer(y, memory, layer, *masks)
    hidden = model.decode(TARGET, memory, weights)
    np.testing.assert_array_equal(hidden, y)
    by_hand = [[row @ token for token in weights.embedding] for row in hidden]
    np.testing.assert_allclose(model.logits(hidden, weights), by_hand)
    whole = model.transformer(SOURCE, TARGET, weights)
    np.testing.assert_allclose(whole, by_hand)


def test_encode_refuses_padding(weights: Weights) -> None:
    with pytest.raises(ValueError, match=r"no padding\. Received: \[3, 0\]"):
        model.encode([3, 0], weights)


def test_shift_right() -> None:
    assert model.shift_right([8, 2, 1, 0, 0]) == [0, 8, 2, 1, 0]
    assert model.shift_right([1]) == [0]
    assert model.shift_right([]) == []


def test_label_smoothing_by_hand() -> None:
    log = np.log([0.1, 0.2, 0.3, 0.4])
    logits = np.stack([log + 5.0, log - 3.0])  # a softmax does not see a shift
    third = -(0.7 * log[2] + 0.1 * (log[0] + log[1] + log[3]))
    first = -(0.7 * log[0] + 0.1 * (log[1] + log[2] + log[3]))
    costs = model.label_smoothed_cross_entropy(logits, [2, 0], 0.3)
    np.testing.assert_allclose(costs, [third, first])
    plain = model.label_smoothed_cross_entropy(logits, [2, 0], 0.0)
    np.testing.assert_allclose(plain, [-log[2], -log[0]])
    uniform = model.label_smoothed_cross_entropy(np.full((1, 4), -2.0), [3], 0.1)
    np.testing.assert_allclose(uniform, np.log(4))


def test_learning_rate_by_hand() -> None:
    # 512 ** -0.5 = 0.0441942; 4000 ** -0.5 = 0.0158114; 4000 ** -1.5 = 3.95285e-6.
    rates = [model.learning_rate(step, 512, 4000) for step in (1, 4000, 16000)]
    np.testing.assert_allclose(
        rates, [1.746928e-7, 6.987712e-4, 3.493856e-4], rtol=1e-6
    )
    with pytest.raises(ValueError, match=r"step must be at least 1\. Received: 0"):
        model.learning_rate(0, 512, 4000)
