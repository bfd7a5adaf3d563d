"""Invariants for any weights: which positions may influence which."""

import numpy as np
import pytest
import tensorflow as tf

from tests.model.architectures import Architecture, architectures
from tests.model.small_model import (
    EMPTY_ROW,
    ROWS,
    SOURCE_LENGTHS,
    S,
    T,
    V,
    compute_logits,
    shared_model,
    small_batch,
    small_model,
    small_weights,
)
from tests.reference.weights_np import Options

# The paper's, and others with positions for three more tokens.
PAPER = Architecture("paper", Options())
LONGER = tuple(each._replace(learned=each.learned and 14) for each in architectures())


@pytest.fixture(scope="module", params=(PAPER, *LONGER), ids=lambda one: one.name)
def architecture(request):
    return request.param


@pytest.fixture(scope="module")
def model(architecture):
    return architecture.model()


@pytest.fixture(scope="module")
def traced(model):
    """The model in a graph for any shape, which is faster than eager calls."""
    spec = dict.fromkeys(small_batch(), tf.TensorSpec([None, None], tf.int32))
    return tf.function(model, input_signature=[spec], autograph=False)


@pytest.fixture(scope="module")
def logits(traced):
    return compute_logits(traced, small_batch())


def test_later_tokens_do_not_reach_back(traced, logits) -> None:
    batch = small_batch()
    for position in range(T):
        tokens = batch["decoder_input_tokens"].copy()
        tokens[:, position:] = (tokens[:, position:] + 7) % V
        moved = compute_logits(traced, {**batch, "decoder_input_tokens": tokens})
        np.testing.assert_array_equal(moved[:, :position], logits[:, :position])
        # The changed position and all later ones do change.
        assert (np.abs(moved - logits)[:, position:].max(-1) > 1e-3).all()


def test_every_source_token_reaches_every_target_position(traced, logits) -> None:
    for position in range(S):
        batch = small_batch()
        tokens = batch["encoder_input_tokens"]
        real = tokens[:, position] > 0
        tokens[real, position] = tokens[real, position] % (V - 1) + 1
        off = np.abs(compute_logits(traced, batch) - logits).max(-1)
        assert (off[real] > 1e-5).all()
        # Rows without a token at this position do not change.
        np.testing.assert_array_equal(off[~real], 0)


def test_more_padding_changes_nothing(traced, logits) -> None:
    wider = {
        name: np.pad(tokens, [(0, 0), (0, 3)]) for name, tokens in small_batch().items()
    }
    actual = compute_logits(traced, wider)[:, :T]
    np.testing.assert_allclose(actual, logits, atol=1e-5)


def test_a_row_alone_is_the_row_of_the_batch(traced, logits) -> None:
    batch, name = small_batch(), "encoder_input_tokens"
    for row in range(ROWS):
        alone = {name: tokens[row : row + 1] for name, tokens in batch.items()}
        # With little padding.
        alone[name] = alone[name][:, : max(2, SOURCE_LENGTHS[row])]
        actual = compute_logits(traced, alone)[0]
        np.testing.assert_allclose(actual, logits[row], atol=1e-5)


def test_a_row_drops_the_same_in_any_company(architecture, logits) -> None:
    model = architecture.model(dropout_rate=0.3)
    batch, keys = small_batch(), np.arange(ROWS, dtype="uint32") * 77
    whole = compute_logits(model, batch, dropout_keys=keys)
    order = np.array([4, 1, 0])
    some = {name: np.pad(t[order], [(0, 0), (0, 2)]) for name, t in batch.items()}
    actual = compute_logits(model, some, dropout_keys=keys[order])[:, :T]
    np.testing.assert_allclose(actual, whole[order], atol=1e-5)
    assert np.abs(whole - logits).max() > 0.1


def test_padding_has_no_gradient_and_no_row_poisons_the_rest(model) -> None:
    batch = small_batch()
    embedding = model.source_embedding.embeddings.value
    with tf.GradientTape() as tape:
        hidden = model.encode(batch["encoder_input_tokens"])
        # The loss depends on every position of the row of padding.
        loss = tf.reduce_sum(hidden[EMPTY_ROW] ** 3) + tf.reduce_sum(hidden[2, 0] ** 3)
    gradient = tf.convert_to_tensor(tape.gradient(loss, embedding)).numpy()
    used = int(batch["encoder_input_tokens"][2, 0])
    assert np.isfinite(gradient).all()
    assert np.flatnonzero(np.abs(gradient).max(-1)).tolist() == [used]


@pytest.mark.parametrize("neighborhood", [1, 3, 5])
def test_restricted_attention_reaches_layers_times_half_of_r(neighborhood: int) -> None:
    layers, length = 2, 12
    model = shared_model(encoder_neighborhood=neighborhood)
    tokens = np.random.default_rng(1).integers(1, V, size=(1, length))
    spec = tf.TensorSpec([1, length], tokens.dtype)
    encode = tf.function(model.encode, input_signature=[spec], autograph=False)
    expected = np.array(encode(tokens))
    for position in range(length):
        changed = tokens.copy()
        changed[0, position] = changed[0, position] % (V - 1) + 1
        off = np.abs(np.array(encode(changed)) - expected)[0].max(-1)
        distance = np.abs(np.arange(length) - position)
        reach = layers * (neighborhood // 2)
        np.testing.assert_array_equal(off > 0, distance <= reach)


def test_order_matters_and_only_through_positions() -> None:
    weights = small_weights(S)
    weights.positions[:] = 0.0
    blind = small_model(weights, learned_positions=S)
    seeing = shared_model()
    tokens = small_batch()["encoder_input_tokens"][:1]
    order = np.random.default_rng(2).permutation(S)
    assert (order != np.arange(S)).any()
    mixed = np.array(blind.encode(tokens[:, order]))
    np.testing.assert_allclose(
        mixed, np.array(blind.encode(tokens))[:, order], atol=1e-5
    )
    off = (
        np.array(seeing.encode(tokens[:, order]))
        - np.array(seeing.encode(tokens))[:, order]
    )
    assert np.abs(off).max() > 0.1


def test_bfloat16_is_near_float32(architecture, logits) -> None:
    mixed = architecture.model(dtype="mixed_bfloat16")
    assert {weight.dtype for weight in mixed.weights} == {"float32"}
    outputs = mixed(small_batch())
    assert outputs.dtype == "bfloat16"
    assert mixed.encode(small_batch()["encoder_input_tokens"]).dtype == "bfloat16"
    off = np.abs(np.array(tf.cast(outputs, "float32")) - logits)
    # bfloat16 has 8 bits: an error of 0.4 % per rounding, some ten roundings deep.
    spread = logits.std()
    assert 0 < off.mean() < 0.03 * spread
    assert off.max() < 0.3 * spread
