"""Number and initial values of the Transformer's weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.settings.flags import config_from_flagfile
from t2t_keras.settings.model_config import BASE, BIG
from tests.model.small_model import CONFIG, D, F, H, K, U, V


def expected_count(
    vocabulary: int, n: int, d: int, f: int, h: int, k: int, v: int
) -> int:
    """Parameters of section 3: attention without biases, feed-forward and norm with."""
    attention = 2 * d * h * k + 2 * d * h * v
    network = d * f + f + f * d + d
    norm = 2 * d
    encoder = attention + network + 2 * norm
    decoder = 2 * attention + network + 3 * norm
    return vocabulary * d + n * (encoder + decoder)


def test_every_weight_of_the_paper_and_no_other() -> None:
    model = Transformer(**CONFIG)
    model.build()
    assert model.count_params() == expected_count(V, 2, D, F, H, K, U)
    assert len(model.trainable_weights) == len(model.weights) == 1 + 2 * (12 + 18)
    learned = Transformer(**CONFIG, learned_positions=19)
    learned.build()
    assert learned.count_params() == model.count_params() + 19 * D


@pytest.mark.parametrize(
    ("name", "make", "preset", "in_millions"),
    # The paper prints 65 and 213; a vocabulary padded to 40,960 gives 65.
    [
        ("base", Transformer.base, BASE, {37_000: 63.05, 40_960: 65.1}),
        ("big", Transformer.big, BIG, {37_000: 214.2}),
    ],
)
def test_presets_have_the_papers_size(name, make, preset, in_millions) -> None:
    # In a graph, variables need no memory.
    with tf.Graph().as_default():
        model = make(37_000)
        model.build()
        count = sum(int(np.prod(weight.shape)) for weight in model.weights)
    sizes = (preset.num_layers, preset.d_model, preset.d_ff, preset.num_heads)
    for vocabulary, size in in_millions.items():
        expected = expected_count(vocabulary, *sizes, 64, 64)
        assert count + (vocabulary - 37_000) * preset.d_model == expected
        assert expected / 1e6 == pytest.approx(size, abs=0.06)
    for config in (preset, config_from_flagfile(f"configs/{name}.flags").model):
        for field in ("num_layers", "d_model", "d_ff", "num_heads", "dropout_rate"):
            assert model.sizes[field] == getattr(config, field), field


def test_big_takes_the_dropout_of_english_french() -> None:
    model = Transformer.big(
        50, dropout_rate=0.1, num_layers=1, d_model=8, num_heads=2, d_ff=4
    )
    assert model.sizes["dropout_rate"] == 0.1
    assert model.sizes["num_layers"] == 1


def test_options_add_their_weights_and_draw_the_others_as_before() -> None:
    def build(**options) -> dict[str, np.ndarray]:
        keras.utils.set_random_seed(5)
        model = Transformer(**CONFIG, **options)
        model.build()
        return {w.path.split("/", 1)[1]: w.numpy() for w in model.weights}

    plain = build()
    options = {"normalization": "pre", "attention_bias": True, "output_bias": True}
    other = build(**options)
    for path, value in plain.items():
        np.testing.assert_array_equal(other.pop(path), value, path)
    assert len(other) == 6 * 4 + 1 + 2 * 2
    assert sum(map(np.size, other.values())) == 6 * H * (2 * K + U) + 6 * D + V + 4 * D
    for path, value in other.items():
        assert (value == (1 if path.endswith("gamma") else 0)).all(), path
    keras.utils.set_random_seed(5)
    untied = Transformer(500, num_layers=1, d_model=64, num_heads=4, tie_output=False)
    untied.build()
    matrix = untied.output_embeddings.numpy()
    assert matrix.std() == pytest.approx(64**-0.5, rel=0.02)
    assert np.abs(matrix - untied.embedding.embeddings.numpy()).mean() > 0.1


def test_kernels_biases_gains_and_embeddings_start_as_written() -> None:
    width = 64
    sizes = {"num_layers": 2, "d_model": width, "d_ff": 96, "num_heads": 4}
    model = Transformer(500, **sizes, d_k=40, d_v=56)
    model.build()
    seen = set()
    for weight in model.weights:
        value, name = weight.numpy(), weight.path.rsplit("/", maxsplit=1)[-1]
        seen.add(name)
        if name.endswith("kernel"):
            assert np.abs(value).max() <= (6 / sum(value.shape)) ** 0.5 * (1 + 1e-6)
            spread = 0.8**0.5 * value.size**-0.5
            assert value.var() * sum(value.shape) / 2 == pytest.approx(
                1, abs=5 * spread
            )
        elif name == "embeddings":
            assert value.std() == pytest.approx(width**-0.5, rel=0.02)
        else:
            assert (value == (1 if name == "gamma" else 0)).all(), weight.path
    attention = {"query_kernel", "key_kernel", "value_kernel", "output_kernel"}
    assert seen == attention | {"kernel", "bias", "gamma", "beta", "embeddings"}


def test_no_two_kernels_start_alike_and_a_seed_says_how() -> None:
    def kernels() -> list[np.ndarray]:
        keras.utils.set_random_seed(5)
        model = Transformer(**CONFIG)
        model.build()
        return [w.numpy() for w in model.weights if w.path.endswith("kernel")]

    first, second = kernels(), kernels()
    assert len({kernel.tobytes() for kernel in first}) == len(first) == 2 * (6 + 10)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fresh_model_guesses_evenly() -> None:
    # Logits of unit variance: the loss starts near log V + 1/2, as Tensor2Tensor's.
    model = Transformer(3000, num_layers=2, d_model=64, d_ff=128, num_heads=4)
    tokens = np.random.default_rng(3).integers(1, 3000, size=(4, 12))
    logits = np.array(
        model({"encoder_input_tokens": tokens, "decoder_input_tokens": tokens})
    )
    assert logits.std() == pytest.approx(1.0, abs=0.1)
