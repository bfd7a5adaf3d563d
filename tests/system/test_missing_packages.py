"""Programs without optional packages: those of extras, TF-Text and TFDS."""

import json
import re
import subprocess
import sys

import pytest

from t2t_keras import Run, import_model, read_settings
from t2t_keras.errors import EXTRAS, MissingPackage
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.pictures.sentence_attention import attention_of_export
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.serving.fake_server import serve, shout

BLOCKED = ("tensorflow_text", "tensorflow_datasets")
OF_EXTRAS = frozenset(module for modules in EXTRAS.values() for module in modules)
# Extras, and programs that need them, with flags that are valid otherwise.
FILTERED = "--dataset=reverse --filter=copied,language"
NEEDS = (
    ("serve", "serve --model_base_path=export"),
    ("serve", "serve --server=localhost:8500 --translation_api_port=5000"),
    ("report", "report run"),
    ("report", "visualize --model_dir=run"),
    ("report", "ablate --rows=configs/tiny.flags --output=study"),
    ("convert", "convert --from=marian --input=run --model_dir=new"),
    ("convert", "export --model_dir=run --format=transformers"),
    ("convert", "export --model_dir=run --format=marian"),
    ("ctranslate2", "export --model_dir=run --format=ctranslate2"),
    ("ctranslate2", "export --model_dir=run --format=argos"),
    ("filters", f"train {FILTERED} --model_dir=new"),
    ("filters", f"rehearse {FILTERED} --model_dir=new"),
    ("filters", f"prepare {FILTERED} --output=new"),
)
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


@pytest.mark.parametrize(("extra", "command"), NEEDS)
def test_a_program_names_the_extra_that_it_lacks_before_any_work(
    extra, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in EXTRAS[extra]:
        monkeypatch.setitem(sys.modules, name, None)
    # TensorFlow would be imported then.
    monkeypatch.setattr("t2t_keras.settings.program.check_backend", None)
    done = run_program(*command.split())
    assert (done.status, done.stdout) == (2, "")
    assert re.fullmatch(
        rf"error: (t2t_keras\.\w+|--\w+=\w+) needs packages that are not installed "
        rf"\({', '.join(EXTRAS[extra])}\): pip install \"t2t_keras\[{extra}\]\"\n",
        done.stderr,
    )
    assert list(tmp_path.iterdir()) == []


def test_help_needs_no_extra(monkeypatch):
    for name in OF_EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    for program in sorted({command.split()[0] for _, command in NEEDS}):
        assert run_program(program, "--help").status == 0


def test_in_python_the_extra_is_named_too(tmp_path, monkeypatch):
    for name in OF_EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    run, new = Run(tmp_path / "run"), tmp_path / "new"
    settings = read_settings("configs/tiny.flags", filter=["language"])
    for extra, task in (
        ("convert", lambda: run.export("transformers")),
        ("ctranslate2", run.export_ctranslate2),
        ("convert", lambda: import_model("marian", tmp_path, new)),
        ("filters", lambda: run.train(settings)),
    ):
        with pytest.raises(MissingPackage, match=rf'install "t2t_keras\[{extra}\]"'):
            task()
    assert not new.exists()


def write_text_files(folder):
    """Writes text files of 40 pairs and returns their paths."""
    lines = [" ".join(TEXT[i % 7 : i % 7 + 3]) for i in range(40)]
    for side in ("source", "target"):
        (folder / side).write_text("\n".join([*lines, ""]))
    return folder / "source", folder / "target"


def small_run(folder):
    """Writes text files; returns the settings of a run of two updates on them."""
    source, target = write_text_files(folder)
    sizes = "--num_layers=1 --d_model=16 --d_ff=16 --num_heads=2 --vocabulary_size=280"
    batches = "--max_length=16 --tokens_per_batch=128 --max_shapes=1"
    return (
        *(f"--{split}_source={source}" for split in ("train", "dev", "test")),
        *(f"--{split}_target={target}" for split in ("train", "dev", "test")),
        *f"{sizes} {batches} --train_steps=2 --nojit_compile --beam_size=1".split(),
    )


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


def run(name, *arguments, stdin=b"", blocked=BLOCKED):
    return subprocess.run(
        [sys.executable, "-c", START, ",".join(blocked), name, *map(str, arguments)],
        cwd=REPOSITORY,
        input=stdin,
        capture_output=True,
    )


@pytest.mark.slow
def test_the_core_needs_no_extra(tmp_path):
    model_dir = tmp_path / "run"
    for name, *flags in (
        ("train", *small_run(tmp_path), "--save_steps=1", "--noexport_at_end"),
        ("translate",),
        ("evaluate",),
        ("average", "--last=2"),
        ("export",),
    ):
        arguments = (name, *flags, f"--model_dir={model_dir}")
        done = run(*arguments, stdin=b"one two\n", blocked=OF_EXTRAS)
        assert done.returncode == 0, done.stderr.decode()
        assert b"t2t_keras[" not in done.stderr
    for folder in ("export", "export_ids"):
        assert (model_dir / folder / "1/saved_model.pb").is_file()
    with serve(shout) as (address, _):
        done = run("client", f"--server={address}", stdin=b"a\n", blocked=OF_EXTRAS)
    assert (done.returncode, done.stdout) == (0, b"A\n"), done.stderr


@pytest.mark.release
def test_training_translation_and_export_of_ids_need_neither(tmp_path):
    model_dir = tmp_path / "run"
    trained = run("train", *small_run(tmp_path), f"--model_dir={model_dir}")
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
