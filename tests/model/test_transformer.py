"""Transformer against the paper in NumPy."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from t2t_keras.model.transformer import Transformer
from tests.model.architectures import architectures
from tests.model.copy_weights import copy_transformer
from tests.model.recorded_keys import record_keys
from tests.model.small_model import (
    CONFIG,
    ROWS,
    SIZES,
    H,
    S,
    T,
    V,
    compute_logits,
    shared_model,
    small_batch,
    small_model,
    small_weights,
)
from tests.reference import transformer_np
from tests.reference.weights_np import Weights

# For float32 and a few layers.
TOLERANCE = 5e-5


def reference_logits(
    neighborhood: int | None = None,
    learned: int | None = None,
    weights: Weights | None = None,
    batch: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Float64 logits, row by row; only the encoder has a neighborhood."""
    batch, weights = batch or small_batch(), weights or small_weights(learned)
    logits = []
    for source, inputs in zip(*batch.values(), strict=True):
        memory_SD = transformer_np.encode_padded(source, weights, neighborhood)
        hidden_TD = transformer_np.decode(inputs, memory_SD, weights, source)
        logits.append(transformer_np.logits(hidden_TD, weights))
    return np.array(logits)


def max_error(logits: np.ndarray, expected: np.ndarray) -> float:
    """Largest absolute error over all positions of all rows, an empty source too."""
    return np.abs(logits - expected).max()


@pytest.fixture(scope="module")
def model() -> Transformer:
    return shared_model()


@pytest.fixture(scope="module")
def logits(model) -> np.ndarray:
    return compute_logits(model, small_batch())


def test_logits_are_the_papers(logits) -> None:
    assert max_error(logits, reference_logits()) < TOLERANCE


def test_learned_positions_replace_the_sinusoids() -> None:
    logits = compute_logits(shared_model(learned_positions=S), small_batch())
    assert max_error(logits, reference_logits(learned=S)) < TOLERANCE


@pytest.mark.parametrize("neighborhood", [1, 3, 5])
def test_restricted_attention_is_the_encoders_alone(neighborhood: int) -> None:
    restricted = shared_model(encoder_neighborhood=neighborhood)
    logits = compute_logits(restricted, small_batch())
    assert max_error(logits, reference_logits(neighborhood)) < TOLERANCE
    assert max_error(logits, reference_logits(neighborhood + 2)) > 100 * TOLERANCE


@pytest.mark.parametrize("architecture", architectures(), ids=lambda one: one.name)
def test_other_architectures_are_those_of_the_reference(architecture) -> None:
    logits = compute_logits(architecture.model(), small_batch())
    weights = architecture.weights()
    expected = reference_logits(architecture.neighborhood, weights=weights)
    assert max_error(logits, expected) < TOLERANCE


@pytest.mark.parametrize(("normalization", "rate"), [("post", 0.1), ("pre", 0.0)])
def test_no_two_dropout_sites_share_a_key(normalization: str, rate: float) -> None:
    config = {**CONFIG, "dropout_rate": 0.1, "normalization": normalization}
    dropping = Transformer(**config, encoder_layers=3, attention_dropout_rate=rate)
    with record_keys() as recorded:
        dropping(small_batch(), dropout_keys=np.arange(ROWS, dtype="uint32"))
    # Two embeddings, 3 encoder layers of 2 sub-layers, 2 decoder layers of 3.
    # In attention, each query of each head.
    queries = H * (3 * S + 4 * T) if rate else 0
    assert len(recorded) == (2 + 6 + 6 + queries) * ROWS
    assert len(set(recorded)) == len(recorded)


def test_what_is_dropped_is_the_sum_with_positions() -> None:
    """In encoder and decoder, before the first layer (section 5.4)."""
    weights, rate = small_weights(), 0.4
    model = small_model(weights, dropout_rate=rate)
    inputs = []

    def record_inputs(stack: Any) -> Any:
        call = stack.call

        def record(hidden: Any, *arguments: Any, **more: Any) -> Any:
            inputs.append(np.array(hidden))
            return call(hidden, *arguments, **more)

        return record

    for stack in (model.encoder, model.decoder):
        stack.call = record_inputs(stack)
    batch = small_batch()
    model(batch, dropout_keys=np.arange(ROWS, dtype="uint32"))
    for tokens, dropped in zip(batch.values(), inputs, strict=True):
        whole = np.array([transformer_np.embed(row, weights) for row in tokens])
        # Positions alone, as in padding, have zeros too: half of the first one.
        dropped_fraction = (dropped == 0)[whole != 0].mean()
        assert dropped_fraction == pytest.approx(rate, abs=0.1)
        kept = np.where(dropped == 0, 0.0, whole / (1 - rate))
        np.testing.assert_allclose(dropped, kept, atol=1e-5)


def test_sources_may_have_ids_of_their_own() -> None:
    """Also more of them than targets have."""
    changed = {"share_embeddings": False, "source_vocabulary_size": V + 3}
    model = Transformer(**{**CONFIG, **changed})
    weights = replace(
        small_weights(),
        source_embedding=np.random.default_rng(2).normal(size=(V + 3, SIZES.d_model)),
    )
    copy_transformer(model, weights)
    batch = small_batch()
    batch["encoder_input_tokens"][0, 0] = V + 2
    off = compute_logits(model, batch) - reference_logits(weights=weights, batch=batch)
    assert np.abs(off).max() < TOLERANCE


def test_sizes_per_head_follow_from_the_width() -> None:
    sizes = Transformer(7, num_layers=1, d_model=12, d_ff=5, num_heads=3).sizes
    assert (sizes["d_k"], sizes["d_v"]) == (4, 4)
    sizes = Transformer(7, num_layers=1, d_model=12, num_heads=3, d_k=5).sizes
    assert (sizes["d_k"], sizes["d_v"]) == (5, 4)


def test_arguments_that_cannot_be_are_refused() -> None:
    for given, message in (
        ({"normalization": "none"}, "must be one of post, pre. Received: none"),
        (
            {"first_position": 9, "learned_positions": 9},
            "first_position must be below --learned_positions.*: 9 and 9",
        ),
        ({"decoder_start": 0}, r"decoder_start must be an id in \[1, 17\).*: 0"),
        ({"decoder_start": V}, r"decoder_start must be an id in \[1, 17\).*: 17"),
        (
            {"source_vocabulary_size": 18},
            "source_vocabulary_size is for share_embeddings=False.*: 18 and 17",
        ),
        (
            {"share_embeddings": False, "source_vocabulary_size": 0},
            "source_vocabulary_size must be at least 1",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            Transformer(**{**CONFIG, **given}).build()
            pytest.fail(f"{given} were taken")
