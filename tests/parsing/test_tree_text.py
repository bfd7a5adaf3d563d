"""Trees as pairs of text: from files, from a dataset, with their faults."""

import gzip

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.parsing.task import ParserTextAdapter, tree_pairs

# As treebanks have them: over several lines, with traces, tags, and a bracket more.
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


def as_text(pairs):
    return [(source.decode(), target.decode()) for source, target in pairs]


def test_trees_become_sentences_and_symbols():
    assert as_text(tree_pairs(TREEBANK.split(b"\n"), "x")) == [*PAIRS]


@pytest.mark.parametrize("name", ["a.mrg", "a.mrg.gz"])
def test_a_file_of_trees_is_a_corpus(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TREEBANK) if name.endswith("gz") else TREEBANK)
    text = open_parallel_text([path], read_trees=tree_pairs)
    kept = [pair for pair in PAIRS if pair[0]]
    assert as_text(text.pairs()) == kept
    assert (text.report.lines, text.report.dropped_empty) == (4, 1)
    corpus = open_corpus(
        files={"train": ([path], ()), "dev": ([path], ())}, read_trees=tree_pairs
    )
    elements = corpus.pairs("dev").as_numpy_iterator()
    assert as_text((e["source"], e["target"]) for e in elements) == kept
    # A table beside it may hold trees in the same form.
    table = tmp_path / "b.tsv"
    table.write_text("Go !\t(S VB . )S\n")
    both = open_parallel_text([path, table], read_trees=tree_pairs)
    assert as_text(both.pairs()) == [*kept, ("Go !", "(S VB . )S")]


def test_ill_formed_bytes_are_counted_and_replaced(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_bytes(b"(S (NN a\xff))\n(S (NN b))\n")
    text = open_parallel_text([path], read_trees=tree_pairs)
    assert text.report.invalid_utf8 == 1
    assert as_text(text.pairs()) == [("a\ufffd", "(S NN )S"), ("b", "(S NN )S")]


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


def test_trees_are_both_sides(tmp_path):
    trees, words = tmp_path / "a.mrg", tmp_path / "a.en"
    trees.write_bytes(TREEBANK)
    words.write_text("x\n")
    with pytest.raises(UserError, match=r"a\.mrg holds both sides.*Received: .*a\.en"):
        open_parallel_text([trees], [words], tree_pairs)
    with pytest.raises(UserError, match=r"a\.mrg holds trees.*and no target"):
        open_parallel_text([words], [trees], tree_pairs)


def test_what_a_parser_writes_can_be_learned_from(tmp_path):
    """Of an untrained one, too: the words are those of the raw text."""
    form = ParserTextAdapter(splits=True)
    lines = ["The dog (ours) doesn't sleep.", " ", "Go!", "“So,” he said; 50% of it."]
    symbols = [
        "(S (NP DT )VP )S",
        "(S",
        ")S ((",
        "(S (X A B C D E F G H I J K L M N )X",
    ]
    sources = [form.source(line) for line in lines]
    path = tmp_path / "silver.mrg"
    path.write_text(
        "".join(
            f"{form.answer(*pair)}\n" for pair in zip(sources, symbols, strict=True)
        )
    )
    read = open_parallel_text([path], read_trees=tree_pairs)
    assert [source for source, _ in as_text(read.pairs())] == [*filter(None, sources)]
    # What was opened last holds the words that the parser forgot.
    assert [target for _, target in as_text(read.pairs())][1] == "(X NN . )X"


def test_trees_are_refused_where_the_task_has_none(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_bytes(TREEBANK)
    with pytest.raises(UserError, match=r"a\.mrg holds trees.*--target_language=tree"):
        open_parallel_text([path])


@pytest.fixture
def stored(tmp_path):
    """Stores a dataset of sentences and trees; returns what opens it."""

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


def test_a_datasets_trees_come_out_the_same_way(stored):
    corpus = stored([TREEBANK.split(b"\n( (NP")[0], b"(S (NN b))"])
    expected = [PAIRS[0], ("b", "(S NN )S")]
    elements = corpus.pairs("train").as_numpy_iterator()
    assert as_text((e["source"], e["target"]) for e in elements) == expected
    ((source, target),) = corpus.chunks("train")
    assert as_text(zip(source, target, strict=True)) == expected
    assert corpus.splits["train"].num_pairs == 2
    assert corpus.name == "bank/1.0.0 en-tree"


@pytest.mark.parametrize("tree", [b"", b"(S (NN a)) (S (NN b))"])
def test_an_example_without_its_one_tree_is_named(stored, tree):
    corpus = stored([b"(S (NN b))", tree])
    with pytest.raises(UserError, match=r"bank/1.0.0 en-tree, train, example 2 must"):
        list(corpus.chunks("train"))
