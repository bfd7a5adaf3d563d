"""--subword_sampling in train, --keep_text in prepare: equal batches, exact resume."""

import json

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training import training_run
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.settings.data_config import DataConfig
from tests.runs.replace_settings import replace_settings
from tests.runs.reverse_task import reversed_pairs
from tests.runs.small_runs import assert_same_batches, prepare_records, tensors


@pytest.fixture
def sampling(config, tmp_path):
    """Settings of a mixture with a tag; words of several letters can be split."""
    for name, count, seed in (("main", 60, 5), ("part", 30, 6)):
        pairs = [
            (source.replace(" ", ""), target.replace(" ", "").replace("a", "a x"))
            for source, target in reversed_pairs(count, seed)
        ]
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    return replace_settings(
        config,
        "data",
        train_source=(str(tmp_path / "main.tsv"),),
        train_target=(),
        mixture=(f"{tmp_path / 'part.tsv'}:2:<t>",),
        user_symbols=("<t>",),
        vocabulary_size=330,
        subword_sampling=0.3,
    )


def load(config, path):
    return prepare_run(config, ModelDir(path))


def test_without_sampling_nothing_changes(sampling, tmp_path):
    plain = load(
        replace_settings(sampling, "data", subword_sampling=0.0), tmp_path / "a"
    )
    assert type(plain.train) is TokenizedCorpus
    assert not plain.train.texts
    assert type(plain.batching).__name__ == "MixtureBatching"
    drawn = load(sampling, tmp_path / "b")
    # The same pairs count, and the dev set has its usual segmentation.
    assert drawn.train.report == plain.train.report
    assert drawn.vocabulary.sha256 == plain.vocabulary.sha256
    np.testing.assert_array_equal(drawn.dev.source.tokens, plain.dev.source.tokens)
    np.testing.assert_array_equal(drawn.dev.target.tokens, plain.dev.target.tokens)
    assert drawn.summary.pairs == plain.summary.pairs
    assert drawn.summary.source_tokens > plain.summary.source_tokens
    assert drawn.summary.target_tokens > 1.1 * plain.summary.target_tokens


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_records_with_text_give_the_batches_of_the_text(sampling, tmp_path, batching):
    sampling = replace_settings(sampling, "data", batching=batching)
    text = load(sampling, tmp_path / "run")
    main = prepare_records(sampling, tmp_path / "records", keep_text=True)
    vocabulary = str(main / "vocabulary.model")
    alone = replace_settings(
        sampling,
        "data",
        train_source=sampling.data.mixture[0].split(":")[:1],
        mixture=(),
        vocabulary_file=vocabulary,
    )
    part = prepare_records(alone, tmp_path / "part", keep_text=True)
    stored = replace_settings(
        sampling,
        "data",
        records=str(main),
        mixture=(f"{part}:2:<t>",),
        vocabulary_file=None,
    )
    records = load(stored, tmp_path / "other")
    assert records.summary == text.summary
    assert_same_batches(text, records, epochs=3)


def test_records_without_text_are_refused(sampling, tmp_path):
    folder = prepare_records(sampling, tmp_path / "records")
    settings = json.loads((folder / "making.json").read_text())["settings"]
    assert "keep_text" not in settings
    assert not list(folder.glob("train-*/*.txt"))
    message = r"records have token ids only.*|.*have token ids only.* --keep_text in an"
    for changes in (
        {"records": str(folder)},
        {
            "mixture": (f"{folder}:1",),
            "vocabulary_file": str(folder / "vocabulary.model"),
        },
    ):
        with pytest.raises(UserError, match=message):
            load(replace_settings(sampling, "data", **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    # Without sampling they are fine, and so are records with text.
    plain = replace_settings(sampling, "data", subword_sampling=0.0, mixture=())
    one = load(replace_settings(plain, "data", records=str(folder)), tmp_path / "a")
    kept = prepare_records(
        replace_settings(
            plain, "data", vocabulary_file=str(folder / "vocabulary.model")
        ),
        tmp_path / "kept",
        keep_text=True,
    )
    other = load(replace_settings(plain, "data", records=str(kept)), tmp_path / "b")
    assert_same_batches(one, other, epochs=1)


def test_records_are_not_continued_with_or_without_text(sampling, tmp_path):
    with_text = prepare_records(sampling, tmp_path / "with", keep_text=True)
    without = prepare_records(sampling, tmp_path / "without")
    prepare_records(sampling, with_text, keep_text=True)
    with pytest.raises(UserError, match=r"records with text, and --keep_text is not g"):
        prepare_records(sampling, with_text)
    with pytest.raises(UserError, match=r"records without text, and --keep_text is gi"):
        prepare_records(sampling, without, keep_text=True)


@pytest.mark.release
def test_a_run_resumes_exactly(sampling, tmp_path):
    config = replace_settings(sampling, "data", batching="pack")
    # Resumed in the middle of the first epoch, and after its end.
    ends = []
    for name, stops in (("straight", (9,)), ("resumed", (1, 5, 9))):
        model_dir = ModelDir(tmp_path / name)
        for steps in stops:
            part = replace_settings(
                config, "training", train_steps=steps, save_steps=1, eval_steps=9
            )
            training_run.train(part, model_dir)
        ends.append(tensors(model_dir.checkpoints / "step-9"))
    assert ends[0].keys() == ends[1].keys()
    for name, value in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], value, err_msg=name)
    with pytest.raises(UserError, match=r"--subword_sampling: 0.3 in the model_dir, 0"):
        load(
            replace_settings(config, "data", subword_sampling=0.2), tmp_path / "resumed"
        )


def test_trees_are_refused():
    with pytest.raises(UserError, match=r"is for translation: a parser predicts symb"):
        DataConfig(target_language="tree", subword_sampling=0.1)
