"""Settings as flags and flagfiles, round trip; the flagfiles of configs/."""

import dataclasses
import re
from pathlib import Path

import pytest
from absl import flags
from hypothesis import given

from t2t_keras.errors import UserError
from t2t_keras.settings.config import (
    ExperimentConfig,
    all_settings,
    differences,
    flatten,
    sections,
    unflatten,
)
from t2t_keras.settings.flags import (
    config_from_arguments,
    config_from_flagfile,
    config_from_flags,
    config_values,
    define_config_flags,
    explicit_settings,
    flagfile_text,
    help_text,
    remove_flag,
)
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.setting import setting, value_types
from tests.random_configs import configs

REPOSITORY = Path(__file__).parents[2]
CONFIGS = REPOSITORY / "configs"


def parse(*arguments: str) -> flags.FlagValues:
    flag_values = flags.FlagValues()
    define_config_flags(flag_values)
    flag_values(["program", *arguments])
    return flag_values


def parse_config(*arguments: str) -> ExperimentConfig:
    return config_from_flags(parse(*arguments))


def changeable() -> set[str]:
    return {name for name, each in all_settings().items() if each.resume}


# --- The command line


def test_no_flag_gives_the_defaults() -> None:
    assert parse_config() == ExperimentConfig()


def test_every_setting_is_a_flag_of_its_name_and_help() -> None:
    flag_values = parse()
    for name, described in all_settings().items():
        assert flag_values[name].help == described.about


def test_values_are_read_by_type() -> None:
    config = parse_config(
        "--train_source=a.en,b c.en",
        "--num_layers=3",
        "--d_k=5",
        "--d_v=7",
        "--dropout_rate=0.25",
        "--nojit_compile",
        "--precision=bfloat16",
        "--strategy=mirrored",
        "--subwords=unigram",
        "--dataset=wmt14_translate/fr-en",
    )
    assert config.data.train_source == ("a.en", "b c.en")
    assert config.data.subwords == "unigram"
    assert config.data.dataset == "wmt14_translate/fr-en"
    assert (config.model.num_layers, config.model.d_k, config.model.d_v) == (3, 5, 7)
    assert config.model.dropout_rate == 0.25
    assert config.training.jit_compile is False
    assert config.training.precision == "bfloat16"
    assert config.training.strategy == "mirrored"
    assert parse_config().training.strategy is None


CANNOT_BE_MEANT = (
    "--num_layers=0",
    "--dropout_rate=1",
    "--alpha=-0.1",
    "--seed=4294967296",
    "--num_heads=many",
)


def refusal(*arguments: str) -> str:
    """Message of the error for these arguments; empty if there is none."""
    try:
        parse_config(*arguments)
    except (flags.Error, UserError) as error:
        return str(error)
    return ""


def test_a_number_that_cannot_be_meant_is_refused() -> None:
    for argument in CANNOT_BE_MEANT:
        name = argument.partition("=")[0]
        assert name in refusal(argument), argument


def test_the_documented_combinations_are_refused() -> None:
    """Each row of the table in docs/training.md names what the message names."""
    page = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    table = page.partition("## Combinations that are refused")[2]
    rows = [line.split("|")[1:3] for line in table.splitlines() if "`--" in line[:5]]
    assert len(rows) >= 15
    for row in rows:
        cells = " ".join(row)
        given = " ".join(re.findall(r"(?<!no )`(--.*?)`", cells)).split()
        with pytest.raises(UserError) as error:
            parse_config(*given)
            pytest.fail(f"{given} was accepted")
        first, *others = re.findall(r"--\w+", cells)
        message = str(error.value)
        assert first in message, (cells, message)
        assert not others or any(name in message for name in others), (cells, message)


def test_an_unknown_flag_is_refused_with_the_nearest() -> None:
    with pytest.raises(flags.Error, match=r"'num_layer'. Did you mean: num_layers"):
        parse("--num_layer=3")


# --- Flagfiles


@given(configs())
def test_a_flagfile_gives_back_what_was_written(tmp_path_factory, config) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.flags"
    path.write_text(flagfile_text(config, "A comment."), encoding="utf-8")
    assert config_from_flagfile(path) == config


def test_a_flagfile_names_every_setting_below_its_comment() -> None:
    text = flagfile_text(ExperimentConfig(), "First.\n\nThird.")
    assert text.startswith("# First.\n#\n# Third.\n\n# Data: ")
    for name in flatten(ExperimentConfig()):
        assert re.search(rf"^(# )?--{name}\b", text, re.MULTILINE), name


def test_what_a_flagfile_cannot_hold_is_refused() -> None:
    for text in (" a", "a\t", "a\nb", "a\rb"):
        for name, value in (("dataset", text), ("train_source", ("b", text))):
            config = unflatten({**flatten(ExperimentConfig()), name: value})
            message = f"--{name} cannot be written.*Rename the file"
            with pytest.raises(UserError, match=message):
                flagfile_text(config, "")
                pytest.fail(f"{value!r} was kept")


def test_a_missing_flagfile_is_named(tmp_path) -> None:
    with pytest.raises(UserError, match=r"There is no flagfile .*missing\.flags"):
        config_from_flagfile(tmp_path / "missing.flags")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--num_layer=3", r"run\.flags: .*'num_layer'. Did you mean: num_layers"),
        ("--num_layers=x", r"run\.flags: .*--num_layers=x"),
        ("--num_layers=0", r"--num_layers must be at least 1. Received: 0"),
        ("--subwords=word", r"--subwords must be one of"),
    ],
)
def test_a_flagfile_with_a_fault_is_refused(tmp_path, line, message) -> None:
    (tmp_path / "run.flags").write_text(f"{line}\n")
    with pytest.raises(UserError, match=message):
        config_from_flagfile(tmp_path / "run.flags")


def test_arguments_after_a_flagfile_count_more(tmp_path) -> None:
    (tmp_path / "run.flags").write_text("--num_layers=2\n--d_ff=8\n")
    arguments = [f"--flagfile={tmp_path / 'run.flags'}", "--d_ff=9"]
    model = config_from_arguments(arguments, source="x").model
    assert (model.num_layers, model.d_ff) == (2, 9)
    with pytest.raises(UserError, match=r"^here: .*'d_fff'"):
        config_from_arguments(["--d_fff=9"], source="here")


@given(configs())
def test_given_flags_reproduce_the_settings(config) -> None:
    """They include every setting that differs from its default."""
    before, after = flatten(ExperimentConfig()), flatten(config)
    arguments = [
        line
        for line in flagfile_text(config, "").splitlines()
        for name in [re.match(r"--(\w+)=", line)]
        if name and after[name[1]] != before[name[1]]
    ]
    given_again = explicit_settings(parse(*arguments))
    assert len(given_again) == len(arguments)
    assert parse_config(*given_again) == parse_config(*arguments)


def test_a_setting_that_is_given_as_its_default_is_given() -> None:
    """It may override a flagfile before it."""
    assert explicit_settings(parse("--num_layers=6")) == ["--num_layers=6"]


def test_an_empty_value_unsets_a_setting_without_a_default() -> None:
    for name, value in (
        ("train_epochs", "0.5"),
        ("learning_rate", "1"),
        ("max_tokens_per_replica", "99"),
        ("init_skip", "x"),
        ("init_from", "runs/x"),
        ("strategy", "mirrored"),
    ):
        values = parse(f"--{name}={value}", f"--{name}=")
        config_values(values)
        assert values[name].value is None
        assert explicit_settings(values) == [f"--{name}="]
    assert parse_config("--freeze=^encoder/", "--freeze=") == ExperimentConfig()
    with pytest.raises(flags.IllegalFlagValueError, match="train_steps"):
        parse("--train_steps=")


def test_a_flagfile_may_name_the_model_dir(tmp_path) -> None:
    (tmp_path / "run.flags").write_text("--model_dir=runs/x\n--num_layers=2\n")
    assert config_from_flagfile(tmp_path / "run.flags").model.num_layers == 2


# --- Help


def test_help_lists_own_flags_then_the_settings_in_sections() -> None:
    flag_values = parse()
    flags.DEFINE_string("model_dir", None, "Where.", flag_values=flag_values)
    text = help_text("Trains.\n", flag_values, ["model_dir"], with_config=True)
    headings = [
        "Trains.",
        "Flags of this program",
        "  --model_dir\n      Where.",
        *((section.__doc__ or "").splitlines()[0] for section in sections().values()),
        "--flagfile=FILE reads",
    ]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "  --num_layers [6]\n" in text
    assert "  --jit_compile [true]\n" in text
    assert "  --dataset\n" in text
    assert "  --train_source\n" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "--num_layers" not in help_text("", flag_values, ["model_dir"], False)


# --- configs/


def test_every_flagfile_parses() -> None:
    for path in CONFIGS.glob("*.flags"):
        assert config_from_flagfile(path).model.d_model, path


# Section 5 of the paper, copied by hand: base, big EN-DE, big EN-FR.
PAPER = (
    ("num_layers", 6, 6, 6),
    ("d_model", 512, 1024, 1024),
    ("d_ff", 2048, 4096, 4096),
    ("num_heads", 8, 16, 16),
    ("d_k", 64, 64, 64),
    ("d_v", 64, 64, 64),
    ("dropout_rate", 0.1, 0.3, 0.1),
    ("label_smoothing", 0.1, 0.1, 0.1),
    ("train_steps", 100_000, 300_000, 300_000),
    ("warmup_steps", 4_000, 4_000, 4_000),
    ("learning_rate_scale", 1.0, 1.0, 1.0),
    ("tokens_per_batch", 25_000, 25_000, 25_000),
    ("vocabulary_size", 37_000, 37_000, 32_000),
    ("subwords", "bpe", "bpe", "unigram"),
    ("dataset", *["wmt14_translate/de-en"] * 2, "wmt14_translate/fr-en"),
    ("source_language", "en", "en", "en"),
    ("target_language", "de", "de", "fr"),
    ("average_checkpoints", 5, 20, 20),
    # Ten minutes at 0.4 s per step are 1,500 steps (from unrounded times, 12 hours for
    # 100,000 steps, 0.432 s per step, 1,390 steps); at 1.0 s per step, 600 steps.
    ("save_steps", 1_390, 600, 600),
    ("learned_positions", None, None, None),
    ("encoder_neighborhood", None, None, None),
    ("beam_size", 4, 4, 4),
    ("alpha", 0.6, 0.6, 0.6),
    ("extra_length", 50, 50, 50),
)


@pytest.mark.parametrize(("column", "name"), [(1, "base"), (2, "big"), (3, "big_enfr")])
def test_a_config_of_the_paper_has_the_papers_settings(column, name) -> None:
    values = flatten(config_from_flagfile(CONFIGS / f"{name}.flags"))
    for row in PAPER:
        assert values[row[0]] == row[column], row[0]
    # Enough checkpoints are kept for averaging.
    assert values["keep_checkpoints"] >= values["average_checkpoints"]


# Section 6.3, copied by hand: WSJ only, semi-supervised.
PAPERS_PARSER = (
    ("target_language", "tree", "tree"),
    ("num_layers", 4, 4),
    ("d_model", 1024, 1024),
    ("vocabulary_size", 16_000, 32_000),
    ("beam_size", 21, 21),
    ("alpha", 0.3, 0.3),
    ("extra_length", 300, 300),
    # "All other parameters remained unchanged" from the base model.
    ("d_ff", 2048, 2048),
    ("num_heads", 8, 8),
    ("label_smoothing", 0.1, 0.1),
    ("train_steps", 100_000, 100_000),
    ("tokens_per_batch", 25_000, 25_000),
    ("average_checkpoints", 5, 5),
)


@pytest.mark.parametrize(("column", "name"), [(1, "parsing_wsj"), (2, "parsing_semi")])
def test_a_config_of_the_papers_parser_has_its_settings(column, name) -> None:
    values = flatten(config_from_flagfile(CONFIGS / f"{name}.flags"))
    for row in PAPERS_PARSER:
        assert values[row[0]] == row[column], row[0]
    # Both kinds of dropout were used; the paper does not give their rates.
    assert min(values["dropout_rate"], values["attention_dropout_rate"]) > 0


def test_every_other_flag_is_passed_on() -> None:
    for arguments, kept in (
        (["--num_workers=3", "--d_ff=8"], ["--d_ff=8"]),
        (["--d_ff=8", "-num_workers", "3", "--x"], ["--d_ff=8", "--x"]),
        (["--num_workers_of=3"], ["--num_workers_of=3"]),
    ):
        assert remove_flag("num_workers", arguments) == kept, arguments


def test_a_type_without_a_flag_is_refused() -> None:
    @dataclasses.dataclass
    class Odd:
        shape: bytes = setting(b"", "Of the sky.")

    with pytest.raises(TypeError, match=r"Odd\.shape has no type for a flag"):
        value_types(Odd)


@given(configs())
def test_flat_and_back(config) -> None:
    assert unflatten(flatten(config)) == config


@given(configs(), configs())
def test_differences_are_what_changes_an_update(old, new) -> None:
    found = differences(old, new)
    before, after = flatten(old), flatten(new)
    fixed = set()
    if new.training.falls_to_last_step:
        fixed = {"train_epochs" if new.training.train_epochs else "train_steps"}
    for name, value in before.items():
        may_change = name in changeable() - fixed
        changed = value != after[name] and not may_change
        assert (name in found) == changed
        if changed:
            assert found[name] == (value, after[name])
    assert differences(old, old) == {}


def test_what_may_change_is_a_setting_and_changes_no_update() -> None:
    names = set(flatten(ExperimentConfig()))
    assert names >= changeable()
    # The model, and settings of loss, learning rate, seed and data.
    fixed = {field.name for field in dataclasses.fields(ModelConfig)}
    fixed |= {"label_smoothing", "warmup_steps", "learning_rate", "schedule", "seed"}
    fixed |= {"precision", "train_source", "vocabulary_size", "max_length", "batching"}
    assert not fixed & changeable()
    assert fixed <= names
