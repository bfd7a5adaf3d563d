"""Programs without the optional packages tensorflow-text and tensorflow-datasets."""

import json
import subprocess
import sys

import pytest

from t2t_keras.errors import MissingPackage
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.pictures.sentence_attention import attention_of_export
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.forked import REPOSITORY

BLOCKED = ("tensorflow_text", "tensorflow_datasets")
# Replaces `python -m t2t_keras.NAME`; a module that is None cannot be imported.
START = """
import runpy, sys
blocked, name = sys.argv[1].split(","), sys.argv[2]
sys.modules.update(dict.fromkeys(blocked))
sys.argv[:3] = [name]
runpy.run_module(f"t2t_keras.{name}", run_name="__main__", alter_sys=True)
"""
TEXT = "one two three four five six seven eight nine ten".split()


@pytest.fixture
def blocked(monkeypatch):
    """Makes imports of the packages fail in this process."""
    for name in BLOCKED:
        monkeypatch.setitem(sys.modules, name, None)
    # Otherwise the copy imported by another test would be used.
    monkeypatch.delitem(sys.modules, "t2t_keras.text.graph_tokenizer", raising=False)


def write_text_files(folder):
    """Writes text files of 40 pairs and returns their paths."""
    lines = [" ".join(TEXT[i % 7 : i % 7 + 3]) for i in range(40)]
    for side in ("source", "target"):
        (folder / side).write_text("\n".join([*lines, ""]))
    return folder / "source", folder / "target"


def test_text_files_are_read_and_tokenized(blocked, tmp_path):
    source, target = write_text_files(tmp_path)
    corpus = open_corpus(files={"train": ([source], [target])})
    vocabulary = SubwordVocabulary(learn_subwords(TEXT * 5, vocabulary_size=280))
    tokenized = tokenize_corpus(corpus.pairs("train"), vocabulary, 100)
    assert len(tokenized) == 40
    assert tokenized.pair(0)[0].tolist() == vocabulary.encode("one two three")


def test_what_needs_a_package_names_it(blocked, tmp_path):
    (tmp_path / "saved_model.pb").touch()
    vocabulary = SubwordVocabulary(learn_subwords(TEXT * 5, vocabulary_size=280))
    for package, task in (
        ("tensorflow-text", lambda: vocabulary.tokenizer),
        ("tensorflow-text", lambda: attention_of_export(tmp_path)),
        ("tensorflow-datasets", lambda: open_corpus("reverse")),
    ):
        with pytest.raises(MissingPackage, match=f"pip install {package}"):
            task()


def run(name, *arguments, stdin=b""):
    return subprocess.run(
        [sys.executable, "-c", START, ",".join(BLOCKED), name, *map(str, arguments)],
        cwd=REPOSITORY,
        input=stdin,
        capture_output=True,
    )


@pytest.mark.release
def test_training_translation_and_export_of_ids_need_neither(tmp_path):
    source, target = write_text_files(tmp_path)
    model_dir = tmp_path / "run"
    trained = run(
        "train",
        f"--model_dir={model_dir}",
        *(f"--{split}_source={source}" for split in ("train", "dev", "test")),
        *(f"--{split}_target={target}" for split in ("train", "dev", "test")),
        *("--vocabulary_size=280", "--max_length=16", "--tokens_per_batch=128"),
        *("--max_shapes=1", "--num_layers=1", "--d_model=16", "--d_ff=16"),
        *("--num_heads=2", "--train_steps=2", "--nojit_compile", "--beam_size=1"),
    )
    errors = trained.stderr.decode()
    assert trained.returncode == 0, errors
    # Detected at the end of the run, where hours of training must not be lost.
    assert "warning: no export in the format text." in errors
    assert "pip install tensorflow-text" in errors
    assert not list(model_dir.glob("export/*"))
    assert (model_dir / "export_ids/1/saved_model.pb").is_file()
    translated = run("translate", f"--model_dir={model_dir}", stdin=b"one two\nsix\n")
    assert translated.returncode == 0, translated.stderr
    assert translated.stdout.count(b"\n") == 2
    refused = run("export", f"--model_dir={model_dir}", "--format=text")
    assert refused.returncode == 2
    assert b"Traceback" not in refused.stderr
    assert b"pip install tensorflow-text" in refused.stderr
    assert json.loads((model_dir / "run_card.json").read_text())["versions"]
