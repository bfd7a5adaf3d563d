"""Parameter counts from settings, compared with built models and the paper."""

import dataclasses
import random
from pathlib import Path

import pytest

from t2t_keras.model.transformer import Transformer
from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.settings.model_config import BASE, BIG, ModelConfig
from tests import paper_table_3
from tests.reports.vocabularies import find_vocabulary_sizes


@pytest.mark.parametrize("seed", range(6))
def test_a_built_model_has_as_many(seed) -> None:
    """Different sizes, some by default, with and without learned positions."""
    rng = random.Random(seed)
    heads = rng.choice([1, 2, 3])
    config = ModelConfig(
        num_layers=rng.randint(1, 3),
        d_model=2 * heads * rng.randint(2, 5),
        d_ff=rng.randint(3, 9),
        num_heads=heads,
        d_k=rng.choice([None, 5, 7]),
        d_v=rng.choice([None, 3, 11]),
        learned_positions=rng.choice([None, 13]),
        encoder_layers=rng.choice([None, 1, 4]),
        decoder_layers=rng.choice([None, 2, 5]),
        normalization=rng.choice(["post", "pre"]),
        attention_bias=rng.choice([False, True]),
        output_bias=rng.choice([False, True]),
        tie_output=rng.choice([False, True]),
        share_embeddings=rng.choice([False, True]),
    )
    model = Transformer(17, **config.architecture())
    model.build()
    assert parameter_count(config, 17) == model.count_params()


def test_the_readme_has_the_sizes_of_the_papers_models() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    for name, config in (("base", BASE), ("big", BIG)):
        millions = round(parameter_count(config, 37_000) / 1e6)
        assert f"{name}.flags` | {name}, {millions} M parameters" in readme


def test_the_papers_models_by_hand() -> None:
    """Attention has 4 x 512² parameters, twice that in a decoder layer, and so on."""
    feed_forward = 2 * 512 * 2048 + 2048 + 512
    encoder = 4 * 512 * 512 + feed_forward + 2 * 2 * 512
    decoder = 8 * 512 * 512 + feed_forward + 3 * 2 * 512
    assert parameter_count(BASE, 37_000) == 37_000 * 512 + 6 * (encoder + decoder)
    # With twice the width everywhere, matrices are four times as large.
    wide = parameter_count(BIG, 0) - 6 * (2 * (4096 + 1024) + 5 * 2 * 1024)
    narrow = parameter_count(BASE, 0) - 6 * (2 * (2048 + 512) + 5 * 2 * 512)
    assert wide == 4 * narrow


def row_model(row: paper_table_3.Row) -> ModelConfig:
    settings = {
        name: value if name == "dropout_rate" else int(value)
        for name, value in row.settings.items()
        if name not in ("label_smoothing", "train_steps")
    }
    return dataclasses.replace(ModelConfig(d_k=64, d_v=64), **settings)


COUNTED = tuple(row for row in paper_table_3.rows() if row.millions != ".")


def test_one_vocabulary_explains_every_count_but_that_of_big() -> None:
    """All counts of Table 3 agree, which they would not with a wrong formula."""
    ranges = {
        row.name: find_vocabulary_sizes(row_model(row), float(row.millions))
        for row in COUNTED
    }
    big = ranges.pop("big")
    assert len(ranges) == 10
    low, high = (
        max(r.low for r in ranges.values()),
        min(r.high for r in ranges.values()),
    )
    assert 41_000 < low < high < 41_250
    assert big.high < low - 4_000
    for row in COUNTED:
        if row.name != "big":
            millions = parameter_count(row_model(row), round((low + high) / 2)) / 1e6
            assert round(millions) == int(row.millions), row.name
