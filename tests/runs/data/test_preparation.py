"""Records prepared from text: equal training data, resumed runs, refused changes."""

import dataclasses
import json
import os
import signal

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.files.signals import Interrupted
from t2t_keras.input_pipeline.records.manifest import read_manifest, verify_records
from t2t_keras.runs.data import (
    begun_records,
    finished_records,
    from_settings,
    preparation,
)
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.prepared_run import prepare_run
from tests.runs.replace_settings import replace_settings
from tests.runs.small_runs import assert_same_batches, read_files


@pytest.fixture
def prepare(config, tmp_path):
    """Prepares records of the small corpus; returns the folder and the logged lines."""

    def run(name="records", per_shard=25, **settings):
        lines = []
        data = dataclasses.replace(config.data, **settings)
        with log_to(lines.append):
            preparation.prepare(
                data,
                tmp_path / name,
                pairs_per_shard=per_shard,
                workers=1,
            )
        return tmp_path / name, lines

    return run


def use_records(config, folder, **settings):
    return replace_settings(
        config,
        "data",
        train_source=(),
        train_target=(),
        dev_source=(),
        dev_target=(),
        records=str(folder),
        **settings,
    )


@pytest.mark.slow
def test_training_on_records_is_training_on_the_text(config, prepare, tmp_path):
    folder, lines = prepare()
    assert lines[0] == "learning 280 subwords …"
    assert [line.split("  ")[:2] for line in lines[1:]] == [
        ["train-00000", "25/60 pairs"],
        ["train-00001", "50/60 pairs"],
        ["train-00002", "60/60 pairs"],
    ]
    runs = [config, use_records(config, folder)]
    dirs = [ModelDir(tmp_path / "text"), ModelDir(tmp_path / "from_records")]
    lines = []
    with log_to(lines.append):
        text, records = (
            prepare_run(run, model_dir)
            for run, model_dir in zip(runs, dirs, strict=True)
        )
    assert lines[1:3] == [lines[1], lines[1]]
    assert records.vocabulary.sha256 == text.vocabulary.sha256
    assert records.fingerprint == text.fingerprint
    assert records.summary == text.summary
    assert_same_batches(text, records, epochs=2)
    # The records also have the dev set, as text and as ids.
    np.testing.assert_array_equal(records.dev.lengths, text.dev.lengths)
    pairs = [
        list(data.corpus.pairs("dev").as_numpy_iterator()) for data in (text, records)
    ]
    assert pairs[0] == pairs[1]
    cards = [json.loads(each.run_card_file.read_text()) for each in dirs]
    assert cards[0]["corpus"] == cards[1]["corpus"]
    # So a run on text can resume with records of it, and the reverse.
    both = replace_settings(config, "data", records=str(folder))
    with log_to(lines.append):
        assert prepare_run(both, dirs[0]).summary == text.summary
    with log_to(lines.append):
        prepare_run(config, dirs[0])
    # Also where the settings no longer name the text, or name it elsewhere.
    with log_to(lines.append):
        prepare_run(runs[1], dirs[0])
    os.rename(config.data.train_source[0], f"{tmp_path}/moved")
    moved = replace_settings(both, "data", train_source=(f"{tmp_path}/moved",))
    with log_to(lines.append):
        prepare_run(moved, dirs[1])
    (tmp_path / "moved").write_text("a b\n" * 60)
    with pytest.raises(
        UserError,
        match=r"moved,.*target is not the .*\(60 pairs\), expected .*60 pairs",
    ):
        with log_to(lines.append):
            prepare_run(moved, ModelDir(tmp_path / "new"))


def test_other_files_can_replace_the_dev_set(config, prepare, tmp_path):
    folder, _ = prepare()
    (tmp_path / "x.source").write_text("a b\n")
    (tmp_path / "x.target").write_text("b a\n")
    data = use_records(config, folder).data
    data = dataclasses.replace(
        data,
        dev_source=(str(tmp_path / "x.source"),),
        dev_target=(str(tmp_path / "x.target"),),
    )
    corpus = from_settings.build_corpus(data)
    assert list(corpus.splits) == ["dev"]
    assert corpus.splits["dev"].num_pairs == 1
    assert from_settings.build_corpus(data, ("test",)).splits == {}
    with pytest.raises(UserError, match="has no train split"):
        corpus.pairs("train")


def test_a_run_keeps_its_vocabulary_and_its_corpus(config, prepare, tmp_path):
    model_dir = ModelDir(tmp_path / "run")
    prepare_run(config, model_dir)
    smaller, _ = prepare("smaller", vocabulary_size=278)
    other, _ = prepare("other", vocabulary_file=str(smaller / "vocabulary.model"))
    settings = replace_settings(config, "data", records=str(other))
    with pytest.raises(UserError, match="another vocabulary than the run in"):
        prepare_run(settings, model_dir)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["fingerprint"] = "2-" + "0" * 64
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="is not the training text that the run in"):
        prepare_run(settings, model_dir)


def test_a_second_run_makes_only_damaged_shards_again(prepare):
    folder, _ = prepare()
    before = read_manifest(folder)
    (folder / "train-00001" / "target.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"train-00001/target\.npy"):
        verify_records(folder)
    _, lines = prepare(per_shard=None)
    assert lines[0].startswith("warning: damaged, and made again: ")
    assert lines[1] == "2 of 3 shards are complete already"
    assert lines[2].startswith("train-00001  60/60 pairs  ")
    assert verify_records(folder) == before
    _, lines = prepare()
    assert lines == ["3 of 3 shards are complete already"]


def test_other_settings_or_text_for_existing_records_are_refused(config, prepare):
    folder, _ = prepare()
    with pytest.raises(UserError, match=r"--max_length: 8 in the records, 7 now\nGive"):
        prepare(max_length=7)
    with pytest.raises(UserError, match=r"25 pairs a shard, not 9\. Leave --pairs_per"):
        prepare(per_shard=9)
    with open(config.data.train_source[0], "r+") as file:
        file.write("j")
    with pytest.raises(UserError, match="is not the training text that the records in"):
        prepare()
    assert len(verify_records(folder).shards) == 3


def test_records_without_any_pair_are_refused(config, prepare):
    with pytest.raises(UserError, match="No sentence pair is left: 60 pairs longer"):
        prepare("short", max_length=2)
    with pytest.raises(UserError, match="There is nothing to train on"):
        prepare("none", train_source=(), train_target=())


def test_two_processes_at_once_are_refused(config, prepare, tmp_path):
    def start_second(line):
        prepare()

    message = f"Another process is preparing .*: process {os.getpid()} on .*--output"
    with pytest.raises(UserError, match=message):
        with log_to(start_second):
            preparation.prepare(config.data, tmp_path / "records", workers=1)


def test_a_line_break_in_a_sentence_keeps_the_sides_aligned(tmp_path):
    class Corpus:
        splits = ("dev",)

        def lines(self, split):
            return [([b"a\nb", b"c"], [b"A", "B\u2028\rC".encode()])]

    begun_records._write_texts(tmp_path, Corpus())
    assert set(finished_records._hash_texts(tmp_path)) == {"dev"}
    assert (tmp_path / "dev.source").read_bytes() == b"a b\nc\n"
    assert (tmp_path / "dev.target").read_bytes() == "A\nB\u2028\rC\n".encode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_between_two_shards_or_within_one(
    config, prepare, tmp_path, number
):
    """The signal arrives while the second shard is being made."""
    folder = tmp_path / "records"
    whole, _ = prepare("whole")
    before = signal.getsignal(number)

    def log(line):
        if line.startswith("train-00000"):
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted, match=f"stopped by {number.name}"):
        with log_to(log):
            preparation.prepare(config.data, folder, pairs_per_shard=25, workers=1)
    assert signal.getsignal(number) == before
    assert not (folder / "manifest.json").exists()
    assert (folder / "train-00000").is_dir()
    _, lines = prepare()
    assert lines[0].startswith("1 of 3 shards")
    assert read_files(folder) == read_files(whole)


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_windows_of_records_are_those_of_the_text(
    config, prepare, tmp_path, monkeypatch, batching
):
    """By a setting, and by default; but not in runs of earlier releases."""
    folder, _ = prepare()
    config = replace_settings(config, "data", batching=batching, tokens_per_batch=40)
    given = replace_settings(config, "data", shuffle_pairs=20)
    with log_to([].append):
        text = prepare_run(given, ModelDir(tmp_path / "text"))
        records = prepare_run(use_records(given, folder), ModelDir(tmp_path / "rec"))
        assert text.batching.num_windows == 3
        assert records.summary == text.summary
        assert_same_batches(text, records, epochs=2)
        for module in ("data.from_settings", "training.prepared_run"):
            monkeypatch.setattr(f"t2t_keras.runs.{module}.SHUFFLE_PAIRS", 20)
        model_dir = ModelDir(tmp_path / "default")
        by_default = prepare_run(config, model_dir)
        assert_same_batches(text, by_default, epochs=1)
        # The default may be another in a later release.
        monkeypatch.undo()
        assert prepare_run(config, model_dir).batching.num_windows == 3
        card = json.loads(model_dir.run_card_file.read_text())
        assert card.pop("shuffle_pairs") == 20
        model_dir.run_card_file.write_text(json.dumps(card))
        monkeypatch.setattr("t2t_keras.runs.data.from_settings.SHUFFLE_PAIRS", 20)
        assert prepare_run(config, model_dir).batching.num_windows == 1
        other = replace_settings(config, "data", shuffle_pairs=30)
        with pytest.raises(UserError, match="shuffle_pairs"):
            prepare_run(other, model_dir)
    with pytest.raises(UserError, match="--shuffle_pairs is not for --mixture and"):
        replace_settings(given, "data", subword_sampling=0.1)
