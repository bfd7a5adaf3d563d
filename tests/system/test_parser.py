"""Constituency parser, end to end: train, evaluate, export and visualize."""

import json
import random
import re

import numpy as np
import pytest

from t2t_keras.parsing.linearization import tree_words
from t2t_keras.parsing.trees import Tree, read_trees
from t2t_keras.serving import signature
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import (
    list_ops,
    open_session,
    read_meta_graph,
)
from tests.in_process import run_program
from tests.stock_ops import CORE_OPS, TOKENIZER_OPS

# Two updates are enough: output is a tree even from an untrained model.
SETTINGS = (
    "--target_language=tree",
    "--vocabulary_size=300",
    "--max_length=64",
    "--tokens_per_batch=512",
    "--max_shapes=1",
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--train_steps=2",
    "--save_steps=2",
    "--eval_steps=2",
    "--dev_bleu_sentences=0",
    "--beam_size=1",
    "--extra_length=4",
    "--noexport_at_end",
    "--nojit_compile",
)
EXPORT_SETTINGS = (
    "--format=text",
    "--batch_sizes=4",
    "--max_beam_size=1",
    "--max_attention_length=200",
)
# Raw sentences and their Treebank tokenization.
SENTENCES = (
    ("A cat (my own) doesn't see it.", "A cat -LRB- my own -RRB- does n't see it ."),
    ("Dogs sleep", "Dogs sleep"),
    ("", ""),
    ("“So,” they said; it's 5% more!", "`` So , '' they said ; it 's 5 % more !"),
)


def treebank(count: int, seed: int) -> str:
    """Returns random trees with traces, function tags and line breaks."""
    rng = random.Random(seed)

    def noun_phrase(tag: str) -> str:
        determiner = rng.choice(["the", "a", "this"])
        noun = rng.choice(["dog", "cat", "teacher", "garden"])
        return f"(NP{tag} (DT {determiner}) (NN {noun}))"

    def sentence() -> str:
        verb = f"(VBZ {rng.choice(['sees', 'hears', 'wants'])})"
        rest = rng.choice([noun_phrase(""), "(S (NP-SBJ (-NONE- *-1)))", "(, ,)"])
        return f"( (S {noun_phrase('-SBJ-1')}\n    (VP {verb} {rest}) (. .)) )\n"

    return "".join(sentence() for _ in range(count))


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    """The model directory of a parser trained by the train program."""
    folder = tmp_path_factory.mktemp("parser")
    files = []
    for split, count in (("train", 60), ("dev", 4)):
        path = folder / f"{split}.mrg"
        path.write_text(treebank(count, seed=count))
        files.append(f"--{split}_source={path}")
    done = run_program("train", f"--model_dir={folder / 'run'}", *files, *SETTINGS)
    assert done.status == 0, done.stderr
    return folder / "run"


def read_tree(line: str) -> Tree:
    (tree,) = read_trees([line])
    return tree


@pytest.mark.slow
def test_another_treebank_is_scored(parser, tmp_path):
    path, output = tmp_path / "other.mrg", tmp_path / "trees"
    # Sentences of at least 5, of 41, of 1 and of no words; EVALB skips the last one.
    long = f"(S (NP{' (NN dog)' * 40}) (. .))"
    path.write_text(f"{treebank(1, seed=3)}{long}\n(S (NP (NN it)))\n((-NONE- *))\n")
    done = run_program(
        "evaluate", f"--model_dir={parser}", f"--source={path}", f"--output={output}",
        "--cutoff_length=1",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    assert "1 of 4 lines have no text" in done.stderr
    assert done.lines[0].startswith("test: 4 sentences, averaged/step-2, beam 1, ")
    every, short = done.stdout.split("-- All --")[1].split("-- len<=1 --")
    assert "Number of sentence        =      4\n" in every
    assert "Number of Skip  sentence  =      1\n" in every
    assert "Number of sentence        =      2\n" in short
    *lines, last = output.read_text().splitlines()
    assert last == ""
    trees = [read_tree(line) for line in lines]
    assert tree_words(trees[1]) == [*["dog"] * 40, "."]
    assert tree_words(trees[2]) == ["it"]
    # Without the model, what it wrote has the same scores.
    files = run_program(
        "evaluate", f"--hypotheses={output}", f"--reference={path}", "--cutoff_length=1"
    )
    assert (files.status, files.stderr) == (0, "")
    evalb = [line.strip() for line in done.lines if " = " in line]
    assert len(evalb) == 24
    assert [line for line in files.lines if " = " in line] == evalb


@pytest.mark.slow
@pytest.mark.usefixtures("unvalidated")
def test_served_trees_have_exactly_the_words(parser):
    done = run_program("export", f"--model_dir={parser}", *EXPORT_SETTINGS)
    assert done.status == 0, done.stderr
    version = parser / "export" / "1"
    raw = np.array([line.encode() for line, _ in SENTENCES], object)
    with open_session(version) as served:
        answer = served.ask(Request(signature.TRANSLATE, {signature.TEXT: raw}))
    trees = answer[signature.TRANSLATION]
    for line, (_, words) in zip(trees, SENTENCES, strict=True):
        assert " ".join(tree_words(read_tree(line.decode())) if line else []) == words
    assert list_ops(read_meta_graph(version)) - CORE_OPS == TOKENIZER_OPS


@pytest.mark.slow
def test_a_sentence_is_drawn_as_its_words(parser, tmp_path):
    raw, words = SENTENCES[0]
    done = run_program(
        "visualize", f"--model_dir={parser}", f"--sentence={raw}",
        "--translation=(S NN )S", "--what=page", f"--output={tmp_path}",
    )  # fmt: skip
    assert (done.status, done.stderr) == (0, "")
    page = (tmp_path / "attention.html").read_text()
    (texts,) = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["texts"]
    assert texts == [words, "(S NN )S"]
