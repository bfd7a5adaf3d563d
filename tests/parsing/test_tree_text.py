"""Treebanks as parallel text: from files and from datasets, and faulty trees."""

import gzip

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.parsing.task import ParserTextAdapter, tree_pairs

# As in treebanks: over several lines, with traces, function tags and an outer bracket.
TREEBANK = b"""\
( (S (NP-SBJ-1 (DT The) (NN cat))
     (VP (VBZ wants)
         (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB leave))))) (. .)) )
( (NP (-NONE- *)) )
( (FRAG (UH \xc3\x9ff)) ) ( (INTJ (-LRB- -LRB-) (UH hm) (-RRB- -RRB-)) )
"""
# Worked out by hand.
PAIRS = (
    (
        "The cat wants to leave .",
        "(S (NP DT NN )NP (VP VBZ (S (VP TO (VP VB )VP )VP )S )VP . )S",
    ),
    ("", ""),
    ("ßf", "(FRAG UH )FRAG"),
    ("-LRB- hm -RRB-", "(INTJ -LRB- UH -RRB- )INTJ"),
)


def decode_pairs(pairs):
    return [(source.decode(), target.decode()) for source, target in pairs]


def test_trees_become_sentences_and_symbols():
    assert decode_pairs(tree_pairs(TREEBANK.split(b"\n"), "x")) == [*PAIRS]


@pytest.mark.parametrize("name", ["a.mrg", "a.mrg.gz"])
def test_a_file_of_trees_is_a_corpus(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TREEBANK) if name.endswith("gz") else TREEBANK)
    text = open_parallel_text([path], read_trees=tree_pairs)
    kept = [pair for pair in PAIRS if pair[0]]
    assert decode_pairs(text.pairs()) == kept
    assert (text.report.lines, text.report.dropped_empty) == (4, 1)
    corpus = open_corpus(
        files={"train": ([path], ()), "dev": ([path], ())}, read_trees=tree_pairs
    )
    elements = corpus.pairs("dev").as_numpy_iterator()
    assert decode_pairs((e["source"], e["target"]) for e in elements) == kept
    # A TSV file can hold linearized trees.
    table = tmp_path / "b.tsv"
    table.write_text("Go !\t(S VB . )S\n")
    both = open_parallel_text([path, table], read_trees=tree_pairs)
    assert decode_pairs(both.pairs()) == [*kept, ("Go !", "(S VB . )S")]


@pytest.mark.parametrize(
    ("faulty", "line"),
    [
        ("(S (NN a))\n(S (NN b)\n", 2),
        ("(S (NN a))\n\n(S (NN b)))\n", 3),
        ("(S (NN a))\nsome words\n", 2),
    ],
)
def test_a_bad_tree_is_named_with_its_line(tmp_path, faulty, line):
    path = tmp_path / "bad.mrg"
    path.write_text(faulty)
    with pytest.raises(UserError, match=rf"bad\.mrg, line {line}: "):
        open_parallel_text([path], read_trees=tree_pairs)


def test_a_file_of_trees_is_both_sides(tmp_path):
    trees, words = tmp_path / "a.mrg", tmp_path / "a.en"
    trees.write_bytes(TREEBANK)
    words.write_text("x\n")
    with pytest.raises(UserError, match=r"a\.mrg holds both sides.*Received: .*a\.en"):
        open_parallel_text([trees], [words], tree_pairs)
    with pytest.raises(UserError, match=r"a\.mrg holds trees.*and no target"):
        open_parallel_text([words], [trees], tree_pairs)


def test_a_parsers_output_can_be_trained_on(tmp_path):
    """Even that of an untrained parser: the words are those of the raw text."""
    adapter = ParserTextAdapter(splits=True)
    lines = ["The dog (ours) doesn't sleep.", " ", "Go!", "“So,” he said; 50% of it."]
    symbols = [
        "(S (NP DT )VP )S",
        "(S",
        ")S ((",
        "(S (X A B C D E F G H I J K L M N )X",
    ]
    sources = [adapter.source(line) for line in lines]
    path = tmp_path / "silver.mrg"
    path.write_text(
        "".join(
            f"{adapter.answer(*pair)}\n" for pair in zip(sources, symbols, strict=True)
        )
    )
    text = open_parallel_text([path], read_trees=tree_pairs)
    assert [source for source, _ in decode_pairs(text.pairs())] == [
        *filter(None, sources)
    ]
    # The constituent opened last gets the words without a symbol.
    assert [target for _, target in decode_pairs(text.pairs())][1] == "(X NN . )X"


def test_trees_are_refused_where_the_task_has_none(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_bytes(TREEBANK)
    with pytest.raises(UserError, match=r"a\.mrg holds trees.*--target_language=tree"):
        open_parallel_text([path])


@pytest.fixture
def store_trees(tmp_path):
    """A function that stores a dataset of trees and opens it as a corpus."""

    def store(trees):
        split = tf.data.Dataset.from_tensor_slices(
            {"en": ["not its words"] * len(trees), "tree": trees}
        )
        tfds.dataset_builders.store_as_tfds_dataset(
            name="bank",
            version="1.0.0",
            data_dir=str(tmp_path),
            features=tfds.features.FeaturesDict(
                {"en": tfds.features.Text(), "tree": tfds.features.Text()}
            ),
            split_datasets={"train": split},
            disable_shuffling=True,
        )
        return open_corpus(
            "bank",
            source_language="en",
            target_language="tree",
            data_dir=str(tmp_path),
            read_trees=tree_pairs,
        )

    return store


def test_trees_of_a_dataset(store_trees):
    corpus = store_trees([TREEBANK.split(b"\n( (NP")[0], b"(S (NN b))"])
    expected = [PAIRS[0], ("b", "(S NN )S")]
    elements = corpus.pairs("train").as_numpy_iterator()
    assert decode_pairs((e["source"], e["target"]) for e in elements) == expected
    ((source, target),) = corpus.chunks("train")
    assert decode_pairs(zip(source, target, strict=True)) == expected
    assert corpus.splits["train"].num_pairs == 2
    assert corpus.name == "bank/1.0.0 en-tree"


@pytest.mark.parametrize("tree", [b"", b"(S (NN a)) (S (NN b))"])
def test_an_example_without_exactly_one_tree_is_named(store_trees, tree):
    corpus = store_trees([b"(S (NN b))", tree])
    with pytest.raises(UserError, match=r"bank/1.0.0 en-tree, train, example 2 must"):
        list(corpus.chunks("train"))
