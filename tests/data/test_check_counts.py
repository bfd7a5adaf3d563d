"""WMT14 counter, tested offline with a small corpus in the format of TFDS."""

import re
from types import MappingProxyType

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from wmt14 import check_counts

from t2t_keras.input_pipeline.corpora.corpus import open_corpus

COUNTS = MappingProxyType({"train": 7, "validation": 3, "test": 2})


@pytest.fixture(name="prepared")
def prepared_folder(tmp_path):
    """Returns a TFDS folder with a small `wmt14_translate/de-en`."""
    features = tfds.features.Translation(languages=("de", "en"))
    data = {
        split: tf.data.Dataset.from_tensor_slices(
            {"de": [f"Satz {i}" for i in range(count)], "en": ["sentence"] * count}
        )
        for split, count in COUNTS.items()
    }
    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt14_translate",
        version="1.0.0",
        features=features,
        split_datasets=data,
        config="de-en",
        data_dir=tmp_path,
    )
    return tmp_path


def test_expected_counts_are_those_of_the_readme(data_dir):
    readme = (data_dir / "wmt14" / "README.md").read_text(encoding="utf-8")
    for row in ("train", "validation", "test"):
        cells = re.search(rf"\| {row} \| ([\d,]+) \| ([\d,]+) \|", readme)
        assert cells is not None
        found = [int(cell.replace(",", "")) for cell in cells.groups()]
        expected = [check_counts.EXPECTED_PAIRS[p][row] for p in ("de-en", "fr-en")]
        assert found == expected
    assert check_counts.EXPECTED_PAIRS["de-en"]["train"] == 4_508_785
    assert check_counts.EXPECTED_PAIRS["fr-en"]["train"] == 40_836_715


@pytest.mark.parametrize("pair", ["de-en", "fr-en"])
def test_dev_is_newstest2013_and_test_is_newstest2014(pair, prepared):
    """According to the builder's list of sources, and in the splits that we open."""
    read = tfds.builder(f"wmt14_translate/{pair}", data_dir="none").subsets
    news = {split: [x for x in read[split] if x.startswith("news")] for split in read}
    assert news["validation"] == ["newstest2013"]
    assert news["test"] == read["test"] == ["newstest2014"]
    assert not [name for name in read["train"] if name.startswith("newstest")]
    languages = {"source_language": "en", "target_language": "de"}
    corpus = open_corpus("wmt14_translate/de-en", **languages, data_dir=str(prepared))
    found = {name: split.num_pairs for name, split in corpus.splits.items()}
    assert found == {"train": 7, "dev": 3, "test": 2}


def test_wrong_counts_are_named_one_by_one(prepared, capsys):
    assert check_counts.main(["--pair=de-en", f"--data_dir={prepared}"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "train: 7 pairs, expected 4,508,785",
        "validation: 3 pairs, expected 3,000",
        "test: 2 pairs, expected 3,003",
    ]


def test_right_counts_end_well(prepared, capsys, monkeypatch):
    monkeypatch.setattr(check_counts, "EXPECTED_PAIRS", {"de-en": COUNTS})
    assert check_counts.main(["--pair=de-en", f"--data_dir={prepared}"]) == 0
    printed = capsys.readouterr().out
    assert "is complete: train 7, validation 3, test 2" in printed


def test_unprepared_corpus_says_what_to_do(tmp_path, capsys):
    assert check_counts.main(["--pair=fr-en", f"--data_dir={tmp_path}"]) == 2
    message = capsys.readouterr().err
    assert "wmt14_translate/fr-en is not prepared in" in message
    assert "--download" in message
    assert "--data_dir" in message
