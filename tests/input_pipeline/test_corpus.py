import functools

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora import corpus as corpora
from t2t_keras.input_pipeline.corpora.corpus import open_corpus


@pytest.fixture
def files(tmp_path):
    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    return {
        "test": ([write("test.tsv", ["x\ty"])], ()),
        "train": (
            [write("1.en", ["a", "", "b"]), write("2.en", ["c"])],
            [write("1.de", ["A", "B", "B"]), write("2.de", ["C"])],
        ),
    }


def strings(dataset):
    return [(e["source"], e["target"]) for e in dataset.as_numpy_iterator()]


def test_text_files(files, monkeypatch):
    monkeypatch.setattr(corpora, "_PAIRS_PER_CHUNK", 2)
    corpus = open_corpus(files=files)
    assert list(corpus.splits) == ["train", "test"]
    expected = [(b"a", b"A"), (b"b", b"B"), (b"c", b"C")]
    assert strings(corpus.pairs("train")) == expected
    assert strings(corpus.pairs("train")) == expected
    assert strings(corpus.pairs("test")) == [(b"x", b"y")]
    assert corpus.splits["train"].num_pairs == 3
    (warning,) = corpus.splits["train"].warnings
    assert warning.startswith("train: 1 of 4 lines have no text")
    assert corpus.splits["test"].warnings == ()
    codes = {"source_language": "x", "target_language": "y"}
    (warning,) = open_corpus(files=files, **codes).splits["test"].warnings
    assert "begins with the names of its columns" in warning


def test_chunks_are_the_pairs_some_at_a_time(files, monkeypatch):
    corpus = open_corpus(files=files)
    assert list(corpus.chunks("train")) == [([b"a", b"b", b"c"], [b"A", b"B", b"C"])]
    monkeypatch.setattr(corpora, "_PAIRS_PER_CHUNK", 2)
    in_twos = [([b"a", b"b"], [b"A", b"B"]), ([b"c"], [b"C"])]
    assert list(corpus.chunks("train")) == in_twos
    assert list(corpus.chunks("train")) == in_twos
    # A chunk of huge lines has fewer lines.
    monkeypatch.setattr(corpora, "_BYTES_PER_CHUNK", 2)
    assert [len(source) for source, _ in corpus.chunks("train")] == [1, 1, 1]
    with pytest.raises(UserError, match="has no dev split, only: train, test"):
        corpus.chunks("dev")


def test_chunks_of_a_dataset_are_its_pairs(monkeypatch):
    dataset = tf.data.Dataset.from_tensor_slices(
        {"source": [b"a", b"b", b"c"], "target": [b"A", b"B", b"C"]}
    )
    monkeypatch.setattr(corpora, "_PAIRS_PER_CHUNK", 2)
    chunks = functools.partial(corpora._dataset_chunks, lambda: dataset)
    expected = [([b"a", b"b"], [b"A", b"B"]), ([b"c"], [b"C"])]
    assert list(chunks()) == expected == list(chunks())


def test_elements_are_scalars(files):
    element = open_corpus(files=files).pairs("train").element_spec
    assert {name: (s.shape.rank, s.dtype.name) for name, s in element.items()} == {
        "source": (0, "string"),
        "target": (0, "string"),
    }


def test_the_fingerprint_of_a_split_is_of_its_contents(files, tmp_path):
    def of_train():
        return open_corpus(files=files).splits["train"].fingerprint

    before = of_train()
    assert of_train() == before
    (tmp_path / "2.en").write_text("d\n")
    assert of_train() != before


def test_a_split_that_is_not_there(files):
    with pytest.raises(UserError, match="has no dev split, only: train, test"):
        open_corpus(files=files).pairs("dev")
    with pytest.raises(UserError, match=r"train, dev, test. Received: \['valid'\]"):
        open_corpus(files={"valid": files["train"]})


def test_faults_in_files_are_found_on_opening(files, tmp_path):
    (tmp_path / "2.en").write_text("d\ne\n")
    with pytest.raises(UserError, match="has 2 lines, but"):
        open_corpus(files=files)


def test_either_a_dataset_or_files(files):
    with pytest.raises(UserError, match="Received: wmt14_translate and files"):
        open_corpus("wmt14_translate", files=files)
    for nothing in (None, ""):
        with pytest.raises(UserError, match="Received: neither"):
            open_corpus(nothing)
    with pytest.raises(UserError, match="Received: neither"):
        open_corpus(files={})
