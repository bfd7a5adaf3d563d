"""`Transformer.generate` against the argmax of whole forward passes."""

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.model.transformer import Transformer
from tests.model.architectures import architectures
from tests.model.small_model import (
    SOURCE_LENGTHS,
    S,
    compute_logits,
    shared_model,
    small_batch,
)

EOS = 1


def source_ids() -> np.ndarray:
    """Sources that end by EOS: long, short, a blank line, and none at all."""
    tokens = small_batch()["encoder_input_tokens"]
    tokens = np.where(tokens == EOS, 2, tokens)
    for row, length in enumerate(SOURCE_LENGTHS):
        if length:
            tokens[row, length - 1] = EOS
    return tokens


def search_exhaustively(
    model: Transformer, source: np.ndarray, extra_length: int
) -> list[int]:
    """Returns the greedy translation of one source by whole forward passes."""
    limit = (source != 0).sum() + extra_length
    if model.max_positions is not None:
        limit = min(limit, model.max_positions)
    if not ((source != 0) & (source != EOS)).any():
        limit = 1
    found: list[int] = []
    while EOS not in found:
        batch = {
            "encoder_input_tokens": source[None],
            # With padding, as Keras warns of attention to one position.
            "decoder_input_tokens": np.array([[0, *(found or [0])]]),
        }
        logits_TV = compute_logits(model, batch)[0]
        best = int(logits_TV[len(found), 1:].argmax()) + 1
        found.append(EOS if len(found) + 1 >= limit else best)
    return found


def check(model: Transformer, extra_length: int) -> list[int]:
    """Compares with the exhaustive search; returns the lengths of translations."""
    source = source_ids()
    actual = np.asarray(model.generate(source, extra_length=extra_length))
    assert actual.dtype == "int32"
    rows = [search_exhaustively(model, row, extra_length) for row in source]
    longest = max(map(len, rows))
    expected = [row + [0] * (longest - len(row)) for row in rows]
    np.testing.assert_array_equal(actual, expected)
    return [len(row) for row in rows]


def test_it_is_the_argmax_step_by_step() -> None:
    lengths = check(shared_model(), extra_length=3)
    assert lengths[2:4] == [1, 1]
    limits = [length + 3 for length in SOURCE_LENGTHS]
    # Some end by themselves, before the limit, and some at it.
    assert {a < b for a, b in zip(lengths, limits, strict=True)} == {True, False}


@pytest.mark.parametrize("architecture", architectures(), ids=lambda one: one.name)
def test_it_is_that_of_other_architectures(architecture) -> None:
    check(architecture.model(), extra_length=2)


def test_padding_is_never_generated() -> None:
    model = architectures()[0].model(name="likes_padding")
    bias = model.output_bias
    bias.assign(np.where(np.arange(len(bias.numpy())) == 0, 50.0, bias))
    check(model, extra_length=2)


def test_the_last_learned_position_is_the_limit() -> None:
    lengths = check(shared_model(learned_positions=S), extra_length=20)
    assert max(lengths) <= S


def test_token_ids_of_another_form_are_refused() -> None:
    model, source = shared_model(), source_ids()
    for tokens, received in (
        (source[0], r"shape \(9,\), dtype int32"),
        (source.astype("float32"), r"shape \(5, 9\), dtype float32"),
    ):
        with pytest.raises(UserError, match=f"tokens must be .* Received: {received}"):
            model.generate(tokens)
    assert len(model.generate(source.tolist())) == len(source)
    assert len(model.generate(source[:0])) == 0
