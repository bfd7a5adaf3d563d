"""Model directory: settings, vocabulary, run card and checkpoints of a run."""

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings

from t2t_keras.errors import UserError
from t2t_keras.runs import model_dir as model_dir_module
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.random_configs import configs
from tests.runs.run_vocabulary import vocabulary_of

CONFIG = ExperimentConfig(
    model=ModelConfig(num_layers=2, d_model=16),
    training=TrainingConfig(train_steps=40, seed=7),
)


def learn_vocabulary(word: str) -> SubwordVocabulary:
    lines = [f"the {word} sees a tree"] * 3
    return SubwordVocabulary(learn_subwords(lines, vocabulary_size=280))


@pytest.fixture(scope="module")
def vocabulary() -> SubwordVocabulary:
    return learn_vocabulary("dog")


@pytest.fixture
def model_dir(tmp_path, vocabulary) -> ModelDir:
    """Model directory of a run that has just started."""
    new_run = ModelDir(tmp_path / "run")
    (tmp_path / "run").mkdir()
    vocabulary.save(new_run.vocabulary_file)
    new_run.update_run_card({"vocabulary": {"sha256": vocabulary.sha256}})
    new_run.write_config(CONFIG, "A run.")
    return new_run


def add_fake_checkpoint(place: Path, step: int) -> Path:
    """Creates an empty folder with the name of a checkpoint."""
    path = place / f"step-{step}"
    path.mkdir(parents=True)
    return path


def test_every_worker_has_stacks_of_its_own(model_dir) -> None:
    files = [model_dir.stacks_file_for(worker).name for worker in (0, 1, 12)]
    assert files == ["stacks.txt", "stacks-worker-1.txt", "stacks-worker-12.txt"]


# --- Settings


@given(configs())
@settings(max_examples=settings.default.max_examples // 3)  # each writes a file
def test_any_settings_come_back_and_are_the_same(tmp_path_factory, config) -> None:
    model_dir = ModelDir(tmp_path_factory.getbasetemp() / "any")
    model_dir.write_config(config, "A run.")
    assert model_dir.config() == config
    model_dir.check_same(config)


def test_where_no_run_is_there_are_no_settings(tmp_path) -> None:
    empty = ModelDir(tmp_path)
    assert not empty.exists()
    with pytest.raises(UserError, match=r"is not a model directory.*--model_dir"):
        empty.config()


def test_a_file_is_no_model_directory(tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match=rf"{file} is not a model directory.*a file"):
        ModelDir(file).config()
    for path in (file, file / "run" / "one"):
        with pytest.raises(UserError) as error:
            ModelDir(path).check_writable()
        for fact in (f"--model_dir={path}", f"{file} is a file", "Give another"):
            assert fact in str(error.value)
    assert file.read_text() == ""
    for name in ("a[1]", "a[b/c]", "[a-", "a\\b", "a\udcff"):
        with pytest.raises(UserError, match="Rename the folder"):
            ModelDir(tmp_path / name / "run").check_writable()
    ModelDir(tmp_path / "b]*?" / "[a").check_writable()


def test_a_folder_that_is_not_writable_is_refused_before_any_work(
    tmp_path, monkeypatch
) -> None:
    ModelDir(tmp_path).check_writable()
    ModelDir(tmp_path / "new" / "run").check_writable()
    assert list(tmp_path.iterdir()) == []

    def refuse(dir):
        assert dir == tmp_path
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(dir))

    monkeypatch.setattr(model_dir_module.tempfile, "TemporaryFile", refuse)
    for path in (tmp_path, tmp_path / "new" / "run"):
        with pytest.raises(UserError) as error:
            ModelDir(path).check_writable()
        for fact in (f"--model_dir={path}", str(tmp_path), "Permission denied", "Give"):
            assert fact in str(error.value)
        assert "Errno" not in str(error.value)


def test_other_settings_are_refused_with_the_difference_shown(model_dir) -> None:
    other = dataclasses.replace(
        CONFIG,
        model=ModelConfig(num_layers=3, d_model=16),
        training=TrainingConfig(train_steps=80, seed=8),
    )
    with pytest.raises(UserError) as error:
        model_dir.check_same(other)
    lines = str(error.value).splitlines()
    assert lines[0] == f"{model_dir.path} holds a run with other settings:"
    assert lines[1:3] == [
        "  --num_layers: 2 in the model_dir, 3 now",
        "  --seed: 7 in the model_dir, 8 now",
    ]
    # train_steps may change: a run can be made longer.
    assert "train_steps" not in str(error.value)
    assert str(model_dir.flagfile) in lines[3]


# --- Vocabulary and run card


def test_the_vocabulary_comes_back(model_dir, vocabulary) -> None:
    assert vocabulary_of(model_dir).sha256 == vocabulary.sha256


def test_another_vocabulary_is_refused(model_dir) -> None:
    other = learn_vocabulary("cat")
    other.save(model_dir.vocabulary_file)
    with pytest.raises(UserError, match=r"is not the vocabulary.*SHA-256") as error:
        vocabulary_of(model_dir)
    assert other.sha256[:12] in str(error.value)


def test_a_missing_vocabulary_is_named(model_dir) -> None:
    model_dir.vocabulary_file.unlink()
    with pytest.raises(UserError, match=r"vocabulary\.model"):
        vocabulary_of(model_dir)


def test_facts_are_added_and_replaced(model_dir) -> None:
    before = model_dir.run_card()
    model_dir.update_run_card({"seed": 7, "scores": {"test": 1.5}})
    model_dir.update_run_card({"scores": {"dev": 2.5}})
    assert model_dir.run_card() == {**before, "seed": 7, "scores": {"dev": 2.5}}
    assert json.loads(model_dir.run_card_file.read_text()) == model_dir.run_card()


def test_before_the_start_nothing_is_known(tmp_path) -> None:
    assert ModelDir(tmp_path / "missing").run_card() == {}


def test_a_damaged_run_card_is_named(model_dir) -> None:
    model_dir.run_card_file.write_text('{"seed": ')
    with pytest.raises(UserError, match=r"run_card\.json is damaged"):
        model_dir.run_card()


# --- Finding checkpoints


@pytest.fixture
def with_checkpoints(model_dir) -> ModelDir:
    for step in (9, 10, 12):
        add_fake_checkpoint(model_dir.checkpoints, step)
    add_fake_checkpoint(model_dir.best, 11)
    return model_dir


def test_a_checkpoint_is_found_by_what_it_is(with_checkpoints) -> None:
    for which, expected in (
        ("latest", "checkpoints/step-12"),
        ("best", "best/step-11"),
        ("9", "checkpoints/step-9"),
        (9, "checkpoints/step-9"),
        # There is no average yet.
        ("averaged", "checkpoints/step-12"),
    ):
        found = with_checkpoints.find_checkpoint(which)
        assert found == with_checkpoints.path / expected, which


def test_the_average_made_last_comes_before_the_newest_checkpoint(
    with_checkpoints,
) -> None:
    for step in (9, 10):
        add_fake_checkpoint(with_checkpoints.averaged, step)
    # The run card names the last one. Without it, or if it is gone: the highest step.
    for made_last, expected in (([], 10), ([6, 9], 9), ([6, 10], 10), ([8], 10)):
        with_checkpoints.update_run_card({"averaged": {"steps": made_last}})
        found = with_checkpoints.find_checkpoint("averaged")
        assert found == with_checkpoints.averaged / f"step-{expected}", made_last


def test_a_folder_must_be_a_checkpoint(with_checkpoints, tmp_path) -> None:
    folder = add_fake_checkpoint(tmp_path, 3)
    with pytest.raises(UserError, match=r"step-3 is not a checkpoint"):
        with_checkpoints.find_checkpoint(str(folder))
    with pytest.raises(UserError, match=r"latest is not a checkpoint"):
        with_checkpoints.find_checkpoint(Path("latest"))  # a path is never a name


def test_what_is_not_there_is_refused_with_what_there_is(with_checkpoints) -> None:
    for which in ("11", "newest", "/no/such/folder"):
        message = rf"no checkpoint '{which}'.*\[9, 10, 12\].*averaged, latest, best"
        with pytest.raises(UserError, match=message):
            with_checkpoints.find_checkpoint(which)
            pytest.fail(f"{which} was found")


def test_where_none_is_none_is_found(model_dir) -> None:
    for which in ("averaged", "latest", "best"):
        with pytest.raises(UserError, match="There are steps none"):
            model_dir.find_checkpoint(which)
