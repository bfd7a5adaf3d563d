"""Every format of text is the same corpus, wherever sentence pairs are read."""

import dataclasses
import json
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from t2t_keras import text_dataset
from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.files.logs import log_nothing
from t2t_keras.runs.data import from_settings, mixing
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.runs.translation.scoring import read_test_set
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.program import check_extras
from tests.in_process import run_program
from tests.runs.replace_settings import replace_settings
from tests.runs.reverse_task import reversed_pairs
from tests.runs.small_runs import prepare_records

# The codes of the languages are columns of no file but the first.
COLUMNS = {"source_column": "text.s", "target_column": "text.t"}
LANGUAGES = {"source_language": "en", "target_language": "de"}
NAMED = ("a.jsonl", "b.parquet")
NAMES = ("a.tsv.zst", "a.tmx", "a.zip", "b.jsonl.gz", *NAMED)


@pytest.fixture
def pairs():
    return [("a", "a"), *reversed_pairs(40, 71)]


@pytest.fixture
def write(tmp_path, pairs):
    """Writes the pairs in a format and returns the path."""

    def write_file(name):
        path = tmp_path / name
        if name == "a.tsv.zst":
            lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
            path.write_bytes(zstandard.ZstdCompressor().compress(lines.encode()))
        elif name == "a.tmx":
            units = (
                f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv>'
                f'<tuv xml:lang="de"><seg>{target}</seg></tuv></tu>'
                for source, target in pairs
            )
            path.write_text(f"<tmx><body>{''.join(units)}</body></tmx>")
        elif name == "a.zip":
            with zipfile.ZipFile(path, "w") as archive:
                for side, code in enumerate(("en", "de")):
                    lines = "".join(f"{pair[side]}\n" for pair in pairs)
                    archive.writestr(f"x.de-en.{code}", lines)
        elif name == "b.parquet":
            rows = [{"text": {"s": source, "t": target}} for source, target in pairs]
            parquet.write_table(pa.Table.from_pylist(rows), path)
        else:
            keys = ("s", "t") if name in NAMED else ("en", "de")
            outer = "text" if name in NAMED else "translation"
            rows = [{outer: dict(zip(keys, pair, strict=True))} for pair in pairs]
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return str(path)

    return write_file


def settings(name):
    return {**LANGUAGES, **(COLUMNS if name in NAMED else {})}


def text_of(corpus, split):
    chunks = list(corpus.chunks(split))
    return [pair for chunk in chunks for pair in zip(*chunk, strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_as_main_corpus_part_and_dev_set_with_filters(config, write, pairs, name):
    path = write(name)
    data = dataclasses.replace(
        config.data,
        train_source=(path,),
        train_target=(),
        dev_source=(path,),
        dev_target=(),
        mixture=(f"{path}:1/2",),
        filter=("copied",),
        **settings(name),
    )
    expected = [(source.encode(), target.encode()) for source, target in pairs]
    with log_nothing(), from_settings.open_filters(data) as filters:
        corpus = filters.apply(from_settings.build_corpus(data))
        (part,) = mixing.open_parts(data, filters)
    kept = [pair for pair in expected if pair[0] != pair[1]]
    assert text_of(corpus, "train") == text_of(part.corpus, "train") == kept
    assert len(kept) < len(expected)
    assert text_of(corpus, "dev") == expected


@pytest.mark.parametrize("name", ["a.zip", "a.jsonl"])
def test_as_dev_set_of_records(config, tmp_path, write, pairs, name):
    data = dataclasses.replace(
        config.data,
        records=str(prepare_records(config, tmp_path / "records")),
        dev_source=(write(name),),
        dev_target=(),
        **settings(name),
    )
    corpus = from_settings.build_corpus(data)
    expected = [(source.encode(), target.encode()) for source, target in pairs]
    assert text_of(corpus, "dev") == expected


def test_a_run_resumes_on_its_text_in_another_format(config, model_dir, write):
    def on(name):
        names = {"train_source": (write(name),), "train_target": ()}
        return replace_settings(config, "data", **names, **settings(name))

    with log_nothing():
        before = prepare_run(on("a.tsv.zst"), model_dir)
        for name in NAMES[1:]:
            assert prepare_run(on(name), model_dir).summary == before.summary
    message = r"line 1: a row must have the columns s and t\. There are: text.s, text.t"
    wrong = replace_settings(
        on("a.jsonl"), "data", source_column="s", target_column="t"
    )
    with pytest.raises(UserError, match=message), log_nothing():
        prepare_run(wrong, model_dir)


@pytest.mark.parametrize("name", NAMES)
def test_as_test_set_and_as_a_stream(config, model_dir, write, pairs, name):
    path = write(name)
    run = replace_settings(config, "data", **settings(name))
    with log_nothing():
        data = prepare_run(run, model_dir)
    test_set = read_test_set(model_dir, "test", path)
    assert list(zip(test_set.source, test_set.references, strict=True)) == [
        (source.encode(), target) for source, target in pairs
    ]
    streams = [
        text_dataset(
            each,
            data.vocabulary,
            shuffle_buffer=0,
            languages=("en", "de"),
            columns=run.data.columns,
        )
        for each in (write("a.tsv.zst"), path)
    ]
    for ours, theirs in zip(*streams, strict=True):
        for key, value in ours.items():
            np.testing.assert_array_equal(value, theirs[key])


def test_faults_of_a_text_leave_no_records(tmp_path):
    path, folder = tmp_path / "a.jsonl", tmp_path / "records"
    path.write_text('{"en": "a", "de": "b"}\n' * 9 + "c")
    done = run_program("prepare", f"--train_source={path}", f"--output={folder}")
    assert done.status == 2
    assert f"{path}, line 10: it is not JSON" in done.stderr
    assert not list(folder.glob("*.json")) and not list(folder.glob("train*"))


@pytest.mark.parametrize("name", ["train_source", "dev_source", "mixture"])
def test_parquet_without_its_package_is_refused_before_any_work(
    config, monkeypatch, name
):
    value = ("a.parquet:1",) if name == "mixture" else ("a.tsv", "a.parquet")
    asked = replace_settings(config, "data", **{name: value})
    check_extras(asked)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    check_extras(config)
    with pytest.raises(MissingPackage, match=r"a\.parquet, .* \(pyarrow\)"):
        check_extras(asked)


def test_columns_are_given_for_both_sides():
    with pytest.raises(UserError, match=r"--target_column belong .* Received: a alone"):
        DataConfig(target_column="a")
