"""Settings: the paper's defaults, their documentation, and refused values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from t2t_keras.errors import UserError
from t2t_keras.settings.config import ExperimentConfig, flatten, sections
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import BASE, BIG, TINY, ModelConfig
from t2t_keras.settings.setting import default_values, settings_of, value_types
from t2t_keras.settings.training_config import TrainingConfig

SETTINGS = tuple(
    (section, name, described)
    for section in sections().values()
    for name, described in settings_of(section).items()
)


def test_the_defaults_are_the_papers_base_model() -> None:
    values = flatten(ExperimentConfig())
    # Sections 5 and 6.1, Table 3.
    paper = {
        "num_layers": 6,
        "d_model": 512,
        "d_ff": 2048,
        "num_heads": 8,
        "dropout_rate": 0.1,
        "label_smoothing": 0.1,
        "train_steps": 100_000,
        "warmup_steps": 4_000,
        "learning_rate_scale": 1.0,
        "tokens_per_batch": 25_000,
        "vocabulary_size": 37_000,
        "save_minutes": 10.0,
        "average_checkpoints": 5,
        "beam_size": 4,
        "alpha": 0.6,
        "extra_length": 50,
    }
    assert {name: values[name] for name in paper} == paper


def test_search_settings_are_recorded_only_where_they_are_not_default() -> None:
    """Records of earlier releases have the first three, and stay equal to new ones."""
    assert DecodingConfig(beam_size=8).as_dict() == {
        "beam_size": 8,
        "alpha": 0.6,
        "extra_length": 50,
    }
    changed = DecodingConfig(length_penalty="power", alpha=1.0, min_length=3)
    assert DecodingConfig(**changed.as_dict()) == changed
    assert changed.as_dict().keys() - DecodingConfig().as_dict().keys() == {
        "length_penalty",
        "min_length",
    }
    assert DecodingConfig().describe() == "beam 4, alpha 0.6"
    assert changed.describe() == "beam 4, alpha 1, length_penalty power, min_length 3"


def test_search_settings_are_overridden_by_name() -> None:
    settings = DecodingConfig(beam_size=8, min_length=2)
    assert settings.override(alpha=None, min_length=0) == DecodingConfig(beam_size=8)
    for values, message in (
        (
            {"beams": 3},
            "There is no setting 'beams'. Settings: beam_size, alpha",
        ),
        ({"beam_sise": 3}, "Did you mean beam_size?"),
    ):
        with pytest.raises(UserError) as caught:
            settings.override(**values)
        assert message in str(caught.value)


def test_the_presets_are_the_papers_and_a_small_one() -> None:
    assert ModelConfig() == BASE
    size = (BIG.num_layers, BIG.d_model, BIG.d_ff, BIG.num_heads, BIG.dropout_rate)
    assert size == (6, 1024, 4096, 16, 0.3)
    assert TINY.d_model < BASE.d_model


def test_every_default_is_legal_and_of_its_type() -> None:
    for section in sections().values():
        section()  # raises if one is not legal
        for name, default in default_values(section).items():
            kind = value_types(section)[name]
            expected = tuple if kind.is_tuple else kind.base
            assert default is None or type(default) is expected, name


def test_every_number_has_a_least_value() -> None:
    # A number without a minimum would silently accept -1. The number of subwords is
    # checked where they are learned, and the message has the sizes that are possible.
    for section, name, described in SETTINGS:
        if value_types(section)[name].base in (int, float):
            limited = described.low is not None or described.choices
            assert limited or name == "vocabulary_size", name


def test_a_model_that_cannot_be_is_refused() -> None:
    for values, message in (
        ({"d_model": 9, "num_heads": 3}, r"--d_model must be even.* Received: 9"),
        (
            {"d_model": 10, "num_heads": 4},
            r"multiple of --num_heads.*Received: 10 and 4",
        ),
        (
            {"d_model": 10, "num_heads": 4, "d_k": 3},
            r"multiple of --num_heads unless --d_k and --d_v are set",
        ),
        ({"encoder_neighborhood": 4}, r"--encoder_neighborhood must be odd.*: 4"),
        (
            {"learned_positions": 300, "position_layout": "halves"},
            r"--position_layout is for sinusoids.*Received: halves and 300",
        ),
        (
            {"learned_positions": 300, "first_position": 300},
            r"--first_position must be below --learned_positions.*: 300 and 300",
        ),
    ):
        with pytest.raises(UserError, match=message):
            ModelConfig(**values)
            pytest.fail(f"{values} were taken")


def test_heads_of_a_given_size_need_not_divide_the_width() -> None:
    assert ModelConfig(d_model=10, num_heads=4, d_k=3, d_v=5).d_k == 3


def test_every_position_up_to_the_longest_sentence_must_be_learned() -> None:
    data, model = DataConfig(max_length=64), ModelConfig(learned_positions=63)
    with pytest.raises(UserError, match=r"at least --max_length.*Received: 63 and 64"):
        ExperimentConfig(data, model)
    unused = ModelConfig(learned_positions=65, first_position=2)
    message = r"--max_length plus --first_position.*Received: 65 and 64 plus 2"
    with pytest.raises(UserError, match=message):
        ExperimentConfig(data, unused)
    assert unused.max_positions == 63
    enough = ModelConfig(learned_positions=64)
    assert ExperimentConfig(data=data, model=enough).model == enough


def test_a_budget_below_the_longest_sentence_is_refused() -> None:
    message = r"--tokens_per_batch must be at least --max_length.*Received: 63 and 64"
    with pytest.raises(UserError, match=message):
        DataConfig(max_length=64, tokens_per_batch=63)
    assert DataConfig(max_length=64, tokens_per_batch=64).max_length == 64


def test_steps_to_profile_are_two_numbers() -> None:
    assert TrainingConfig(profile_steps="100:110").profiled_steps() == range(100, 111)
    assert TrainingConfig(profile_steps="7:7").profiled_steps() == range(7, 8)
    assert len(TrainingConfig().profiled_steps()) == 0


def test_other_steps_to_profile_are_refused() -> None:
    for text in ("", "5", "5:", ":5", "0:5", "9:5", "-1:5", "a:b"):
        with pytest.raises(UserError, match=rf"--profile_steps.*100:110.*: {text}$"):
            TrainingConfig(profile_steps=text)
            pytest.fail(f"{text!r} was taken")


def test_a_part_must_hold_the_longest_pair() -> None:
    training = TrainingConfig(max_tokens_per_replica=255)
    with pytest.raises(UserError, match=r"--max_tokens_per_replica .*: 255 and 256"):
        ExperimentConfig(training=training)
    ExperimentConfig(training=training, data=DataConfig(max_length=255))


OF_TREES: tuple[Mapping[str, Any], ...] = (
    MappingProxyType({"train_source": ("a.tsv", "b.mrg")}),
    MappingProxyType({"test_source": ("b.mrg.gz",)}),
    MappingProxyType({"mixture": ("a.en:a.de:1", "b.mrg:1/2")}),
)


def test_trees_are_for_parsers() -> None:
    for settings in OF_TREES:
        with pytest.raises(UserError, match=r"b\.mrg.*--target_language=tree.*: de$"):
            DataConfig(**settings)
            pytest.fail(f"{settings} were taken")
        DataConfig(**settings, target_language="tree")
    tokenized = TrainingConfig(tokenize="char")
    with pytest.raises(UserError, match=r"--tokenize is for BLEU.*Received: .*=char"):
        ExperimentConfig(DataConfig(target_language="tree"), training=tokenized)


def test_a_mixture_of_nothing_sensible_is_refused() -> None:
    with pytest.raises(UserError, match="An item of --mixture must be"):
        DataConfig(mixture=("a.tsv:1", "b.tsv"))


def test_contradictory_training_settings_are_refused() -> None:
    for settings, message in (
        ({"init_skip": "a"}, "--init_skip need --init_from"),
        ({"init_optimizer": True}, "need --init_from.*Received no --init_from"),
        ({"freeze": "a("}, r"--freeze must be a regular expression: .*Received: a\("),
        ({"init_skip": "*", "init_from": "x"}, "--init_skip must be a regular exp"),
        ({"learning_rate": 0.1}, "has --learning_rate_scale.*--learning_rate=0.1"),
        ({"schedule": "constant"}, "--schedule=constant needs --learning_rate"),
        (
            {"schedule": "linear", "learning_rate": 0.1, "learning_rate_scale": 2.0},
            "--learning_rate_scale is for --schedule=paper.*scale=2.0",
        ),
        (
            {"schedule": "linear", "learning_rate": 0.1, "train_steps": 4_000},
            "--warmup_steps must be less.*Received: 4000 and 4000",
        ),
        ({"weight_decay": 0.1}, "other optimizers than adam.*--weight_decay=0.1"),
        ({"optimizer": "adamw"}, "--optimizer=adamw needs --weight_decay"),
        (
            {"optimizer": "schedule_free_adamw", "ema_decay": 0.9},
            "averages the weights itself.*--ema_decay=0.9",
        ),
        (
            {"optimizer": "muon", "init_optimizer": True, "init_from": "x"},
            "--init_optimizer loads the moments of Adam.*--optimizer=muon",
        ),
        (
            {"monitor": "dev_bleu", "dev_bleu_sentences": 0},
            "--monitor=dev_bleu needs translations.*--dev_bleu_sentences=0",
        ),
    ):
        with pytest.raises(UserError, match=f"(?s){message}"):
            TrainingConfig(**settings)
            pytest.fail(f"{settings} was taken")
    # The number of updates is not known yet.
    by_epochs = {"schedule": "linear", "learning_rate": 0.1, "train_epochs": 2.0}
    TrainingConfig(**by_epochs, train_steps=10)
