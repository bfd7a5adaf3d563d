"""Data of a run before its first step: files, log lines, warnings and refusals."""

import contextlib
import dataclasses
import gzip
import json
import shlex
import shutil
import socket

import pytest

from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.runs.data import preparation
from t2t_keras.runs.data.run_data import advice
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.runs.replace_settings import replace_settings
from tests.runs.run_vocabulary import vocabulary_of


@pytest.fixture
def prepare(model_dir):
    """Prepares the data and returns it with the logged lines."""

    def run(config):
        lines = []
        with log_to(lines.append):
            return prepare_run(config, model_dir), lines

    return run


def test_the_files_of_a_run_are_written_before_the_first_step(
    config, model_dir, prepare
):
    data, lines = prepare(config)
    assert model_dir.config() == config
    assert vocabulary_of(model_dir).sha256 == data.vocabulary.sha256
    card = json.loads(model_dir.run_card_file.read_text())
    assert card["seed"] == 4
    assert card["vocabulary"] == {"size": 280, "sha256": data.vocabulary.sha256}
    assert card["corpus"]["pairs"] == 60
    assert card["corpus"]["num_shapes"] == 1
    assert set(card["versions"]) >= {"t2t_keras", "python", "tensorflow", "keras"}
    assert (len(data.train), len(data.dev)) == (60, 20)
    assert len(lines) == 2


def test_with_a_vocabulary_file_no_learning_is_logged(
    config, model_dir, prepare, tmp_path
):
    _, lines = prepare(config)
    assert sum("learning 280" in line for line in lines) == 1
    file = str(model_dir.vocabulary_file)
    other = replace_settings(config, "data", vocabulary_file=file)
    lines = []
    with log_to(lines.append):
        prepare_run(other, ModelDir(tmp_path / "other"))
    assert lines and not any("learning" in line for line in lines), lines


def test_the_command_in_the_flagfile_quotes_a_path_with_a_space(config, tmp_path):
    model_dir = ModelDir(tmp_path / "a b")
    prepare_run(config, model_dir)
    (line,) = (
        line for line in model_dir.flagfile.read_text().splitlines() if " -m " in line
    )
    flags = [f"--flagfile={model_dir.flagfile}", f"--model_dir={model_dir.path}"]
    assert shlex.split(line, comments=False)[-2:] == flags


def test_likely_mistakes_give_warnings(config, prepare):
    data, _ = prepare(config)
    config = replace_settings(
        config, "data", source_language="en", target_language="dee"
    )
    language, few, batches = advice(config, data)
    assert "--target_language=dee" in language
    assert "60 pairs" in few and "280 subwords" in few
    assert "--tokens_per_batch" in batches
    enough = dataclasses.replace(data.summary, pairs=280, batches_per_epoch=10)
    data = dataclasses.replace(data, summary=enough)
    config = replace_settings(config, "data", target_language="tree")
    assert advice(config, data) == []


def test_a_worker_that_does_not_see_the_run_is_refused(config, model_dir, prepare):
    """It would learn another vocabulary, and fail only later in the run."""
    with pytest.raises(UserError, match="in a folder that all of them share") as error:
        prepare_run(config, model_dir, writes=False)
    assert f"{model_dir.path} on {socket.gethostname()} has none" in str(error.value)
    assert not model_dir.path.exists()
    # A worker that sees the run reads the same data and writes nothing.
    data, _ = prepare(config)
    before = {path: path.stat().st_mtime_ns for path in model_dir.path.iterdir()}
    other = prepare_run(config, model_dir, writes=False)
    assert other.vocabulary.sha256 == data.vocabulary.sha256
    after = {path: path.stat().st_mtime_ns for path in model_dir.path.iterdir()}
    assert after == before


def test_pairs_that_are_left_out_are_counted(config, prepare, tmp_path):
    """From text and from records, their numbers and those kept add up to all lines."""
    for side in ("train", "dev"):
        with open(getattr(config.data, f"{side}_source")[0], "a") as file:
            file.write("a b c d e f g h\n" * 3 + "\n \na\n")
        with open(getattr(config.data, f"{side}_target")[0], "a") as file:
            file.write("h g f e d c b a\n" * 3 + "a\nb\na b c\n")
    config = replace_settings(config, "data", filter=("length_ratio:2",))
    data, lines = prepare(config)
    assert (len(data.train), len(data.dev)) == (60, 21)
    counts = "3 pairs longer than 8 tokens, 2 with an empty side, "
    train_counts = f"{counts}1 rejected by filters, of 66"
    assert f"left out: {train_counts}" in lines
    dev_counts = f"{counts}0 rejected by filters, of 26"
    assert f"left out of the dev loss: {dev_counts}" in lines
    manifest = preparation.prepare(config.data, tmp_path / "records", workers=1)
    assert preparation.describe(manifest).endswith(f"left out: {train_counts}")
    assert read_manifest(tmp_path / "records") == manifest


def test_faults_of_the_text_give_warnings(config, prepare):
    with open(config.data.train_source[0], "ab") as file:
        file.write(b"\na \xff b\na\rb\na\xe2\x80\xa8b\n")
    with open(config.data.train_target[0], "ab") as file:
        file.write(b"a\nb a\nb\ra\r\nb a\n")
    _, lines = prepare(config)
    warnings = [line for line in lines if line.startswith("warning: train: ")]
    assert len(warnings) == 2
    assert "1 of 64 lines have no text on one side or both" in warnings[0]
    assert "1 of 64 lines are not valid UTF-8" in warnings[1]


def test_settings_without_effect_on_updates_may_change(config, model_dir, prepare):
    prepare(config)
    longer = replace_settings(config, "training", train_steps=9, save_steps=1)
    prepare(longer)
    assert model_dir.config() == longer


@pytest.mark.slow
def test_a_run_keeps_the_tokenizer_of_its_bleu(config, model_dir, prepare):
    """Also a run of a release that had only 13a, and no entry in the run card."""
    config = replace_settings(config, "data", target_language="zh")
    config = replace_settings(config, "training", dev_bleu_sentences=2)

    def resume(tokenize=None):
        data, _ = prepare(replace_settings(config, "training", tokenize=tokenize))
        assert model_dir.run_card()["bleu_tokenizer"] == data.task.tokenizer
        warned = any("by the tokenizer" in line for line in advice(config, data))
        assert warned == (data.task.tokenizer == "13a")
        return data.task.tokenizer

    assert [resume(), resume()] == ["zh", "zh"]
    assert "# --tokenize is not set\n" in model_dir.flagfile.read_text()
    card = model_dir.run_card()
    del card["bleu_tokenizer"]
    model_dir.run_card_file.write_text(json.dumps(card))
    assert [resume(), resume(), resume("char"), resume()] == ["13a"] * 2 + ["char"] * 2


def test_a_missing_tokenizer_is_refused_before_anything_is_written(
    config, model_dir, prepare, monkeypatch
):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    silent = replace_settings(config, "data", target_language="ja")
    config = replace_settings(silent, "training", dev_bleu_sentences=2)
    with pytest.raises(MissingPackage, match=r"pip install 'sacrebleu\[ja\]'"):
        prepare(config)
    with pytest.raises(MissingPackage, match=r"pip install 'sacrebleu\[ja\]'"):
        prepare(replace_settings(silent, "training", score_split="dev"))
    assert not model_dir.path.exists()
    prepare(silent)  # has no BLEU
    prepare(replace_settings(config, "training", tokenize="char"))


def _compress(tmp_path, run):
    for side in ("source", "target"):
        text = (tmp_path / f"train.{side}").read_bytes()
        (tmp_path / f"{side}.gz").write_bytes(gzip.compress(text))
        (tmp_path / f"train.{side}").unlink()
    return {f"train_{x}": (str(tmp_path / f"{x}.gz"),) for x in ("source", "target")}


def _in_columns(tmp_path, run):
    sides = [(tmp_path / f"train.{x}").read_text() for x in ("source", "target")]
    rows = zip(*(side.splitlines() for side in sides), strict=True)
    (tmp_path / "train.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    return {"train_source": (str(tmp_path / "train.tsv"),), "train_target": ()}


def _change_text(tmp_path, run):
    with open(tmp_path / "train.source", "r+") as file:
        file.write("j")
    return {}


def _exchange_sides(tmp_path, run):
    names = (str(tmp_path / "train.target"),), (str(tmp_path / "train.source"),)
    return dict(zip(("train_source", "train_target"), names, strict=True))


def _copy_vocabulary(tmp_path, run):
    shutil.copy(run.vocabulary_file, tmp_path / "copy.model")
    return {"vocabulary_file": str(tmp_path / "copy.model")}


def _other_vocabulary(tmp_path, run):
    lines = ["the old house", "das alte Haus"] * 4
    vocabulary = SubwordVocabulary(learn_subwords(lines, vocabulary_size=290))
    vocabulary.save(tmp_path / "other.model")
    return {"vocabulary_file": str(tmp_path / "other.model")}


OTHER_TEXT = (
    r"train.{} is not the training text that the run in .*run was started with: its "
    r"SHA-256 is [0-9a-f]{{12}}…, expected [0-9a-f]{{12}}….*Put the old text back"
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_compress, None),
        (_in_columns, None),
        (_copy_vocabulary, None),
        (_change_text, OTHER_TEXT.format("target")),
        (_exchange_sides, OTHER_TEXT.format("source")),
        (_other_vocabulary, r"other.model \(--vocabulary_file\) is not the vocabulary"),
    ],
)
def test_a_run_resumes_on_the_same_contents_under_any_name(
    config, model_dir, prepare, tmp_path, change, message
):
    before, _ = prepare(config)
    changed = replace_settings(config, "data", **change(tmp_path, model_dir))
    resumes = contextlib.nullcontext()
    with pytest.raises(UserError, match=message) if message else resumes:
        after, lines = prepare(changed)
        assert after.fingerprint == before.fingerprint
        assert not any("dev set" in line for line in lines)
        assert model_dir.config() == changed


def test_another_dev_set_gives_a_warning(config, prepare):
    prepare(config)
    other = {"dev_source": config.data.dev_target, "dev_target": config.data.dev_source}
    _, lines = prepare(replace_settings(config, "data", **other))
    assert any("warning: the dev set is not the one" in line for line in lines)


def test_a_corpus_without_training_text_is_refused(config, model_dir, prepare):
    data = dataclasses.replace(config.data, train_source=(), train_target=())
    with pytest.raises(UserError, match="nothing to train on"):
        prepare(dataclasses.replace(config, data=data))
    assert not model_dir.path.exists()
