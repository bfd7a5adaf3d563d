"""TFDS builders of data/, prepared in a small size in a temporary folder."""

import importlib

import pytest
import tensorflow_datasets as tfds
from business_ende import sample_sentences as letters
from grammar_ende import sample_sentences
from grammar_ende.corpus import corpus_splits

SMALL = (60, 20, 20)


def _prepared(folder: str, class_name: str, sizes, data_dir, monkeypatch):
    """Prepares a builder as a loader does: by the name of its folder."""
    module = importlib.import_module(f"{folder}.{folder}_dataset_builder")
    builder_class = getattr(module, class_name)
    if sizes is not None:
        for attribute, size in zip(("TRAIN", "VALIDATION", "TEST"), sizes, strict=True):
            monkeypatch.setattr(builder_class, f"{attribute}_PAIRS", size)
    builder = builder_class(data_dir=data_dir)
    builder.download_and_prepare()
    return builder


def _texts(builder, split: str) -> list[dict[str, str]]:
    examples = tfds.as_numpy(builder.as_dataset(split=split))
    return [
        {name: value.decode() for name, value in example.items()}
        for example in examples
    ]


@pytest.mark.parametrize(
    ("folder", "class_name", "draw", "train"),
    [
        ("grammar_ende", "GrammarEnde", sample_sentences.draw_sentence, 30_000),
        ("business_ende", "BusinessEnde", letters.draw_sentence, 12_000),
    ],
)
def test_a_builder_yields_the_pairs_of_its_corpus(
    folder, class_name, draw, train, tmp_path, monkeypatch
):
    builder = _prepared(folder, class_name, SMALL, tmp_path, monkeypatch)
    assert (builder.name, str(builder.version)) == (folder, "1.0.0")
    assert builder.info.supervised_keys == ("en", "de")
    corpus = corpus_splits(2017, *SMALL, draw=draw)
    for split, pairs in corpus._asdict().items():
        expected = {tuple(sorted(pair._asdict().items())) for pair in pairs}
        examples = _texts(builder, split)
        assert len(examples) == len(pairs)
        assert {tuple(sorted(each.items())) for each in examples} == expected
    assert len(_texts(builder, "train[10:15]")) == 5
    monkeypatch.undo()
    sizes = [getattr(builder, f"{x}_PAIRS") for x in ("TRAIN", "VALIDATION", "TEST")]
    assert sizes == [train, 1_000, 1_000]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "class_name"), [("reverse", "Reverse"), ("copy_task", "CopyTask")]
)
def test_word_tasks(folder, class_name, tmp_path, monkeypatch):
    builder = _prepared(folder, class_name, None, tmp_path, monkeypatch)
    assert builder.name == folder
    seen = set()
    for split, size in (("train", 10_000), ("validation", 200), ("test", 200)):
        examples = _texts(builder, split)
        assert len(examples) == size
        for example in examples:
            source, target = example["source"].split(" "), example["target"].split(" ")
            assert 1 <= len(source) <= 12
            assert all(
                len(word) == 1 and word in "abcdefghijklmnopqrstuvwxyz"
                for word in source
            )
            assert target == (source[::-1] if folder == "reverse" else source)
        seen |= {example["source"] for example in examples}
    assert len(seen) == 10_400
    sources = [text.split(" ") for text in seen]
    assert {len(source) for source in sources} == set(range(1, 13))
    assert len({word for source in sources for word in source}) == 26
