"""Beam builder: reading of TSV files. Its check_beam.py runs the pipeline itself."""

import importlib

import pytest
import tensorflow_datasets as tfds


@pytest.fixture
def builder_module():
    return importlib.import_module("tsv_beam.tsv_beam_dataset_builder")


def test_a_file_gives_its_pairs_with_keys_of_their_own(builder_module, tmp_path):
    path = tmp_path / "train-1.tsv"
    path.write_bytes("a\tä\u2028b\r\n c \t\n".encode())
    found = list(builder_module.examples_of(str(path)))
    assert found == [
        ("train-1.tsv:0000000001", {"source": "a", "target": "ä\u2028b"}),
        ("train-1.tsv:0000000002", {"source": " c ", "target": ""}),
    ]


@pytest.mark.parametrize("line", ["a", "a\tb\tc", ""])
def test_a_line_without_two_columns_is_named(builder_module, tmp_path, line):
    path = tmp_path / "train.tsv"
    path.write_text(f"a\tb\n{line}\n")
    with pytest.raises(ValueError, match=rf"{path}, line 2: a line must have 2 col"):
        list(builder_module.examples_of(str(path)))


def test_the_splits_are_those_of_the_files(builder_module, tmp_path, monkeypatch):
    for name in ("train-2.tsv", "train-1.tsv", "test.tsv", "other.tsv"):
        (tmp_path / name).write_text("a\tb\n")
    builder = builder_module.TsvBeam(data_dir=str(tmp_path / "prepared"))
    monkeypatch.setattr(builder, "_generate_examples", lambda paths: paths)

    class Manager:
        manual_dir = tmp_path

    found = builder._split_generators(Manager)
    assert found == {
        "train": [f"{tmp_path}/train-1.tsv", f"{tmp_path}/train-2.tsv"],
        "test": [f"{tmp_path}/test.tsv"],
    }
    for path in tmp_path.glob("train*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no train\*\.tsv in"):
        builder._split_generators(Manager)


def test_no_folder_is_an_error_that_programs_explain(builder_module, tmp_path):
    """TFDS itself would raise AssertionError."""
    builder = builder_module.TsvBeam(data_dir=str(tmp_path / "prepared"))
    config = tfds.download.DownloadConfig(manual_dir=str(tmp_path / "not_there"))
    with pytest.raises(FileNotFoundError, match="--manual_dir"):
        builder.download_and_prepare(download_config=config)
