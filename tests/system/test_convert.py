"""The program convert: an imported model in all programs, and refused flags.

The model is a small one in Marian's format with two SentencePiece models. Whether
formats are read rightly is tested in tests/interop.
"""

import json

import numpy as np
import pytest

from t2t_keras import Run
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.serving import signature
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import open_session
from tests.in_process import run_program
from tests.interop.marian_files import POST, write_marian
from tests.interop.small_models import PIECES, V, first_layers, small_weights
from tests.interop.tokenizer_files import write_spm_pair
from tests.runs.run_vocabulary import vocabulary_of

LINES = ("w4w18w7", "w3 w9", "", "w5?w6", "漢字w8", "w4" * 9)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of OPUS-MT's layout."""
    folder = tmp_path_factory.mktemp("marian") / "opus"
    write_marian(folder, first_layers(small_weights(POST, added=(0,))))
    write_spm_pair(folder)
    return folder


@pytest.fixture(scope="module")
def imported(source, tmp_path_factory):
    """Its model directory."""
    path = tmp_path_factory.mktemp("runs") / "opus"
    done = run_program(
        "convert",
        "--from=marian",
        f"--input={source}",
        f"--model_dir={path}",
        "--source_language=en",
        "--target_language=de",
    )
    assert done.status == 0, done.stderr
    parameters = sum(
        int(np.prod(weight.shape))
        for weight in Run(path).trained("latest").model.weights
    )
    size = f"1+1 layers, {parameters:,} parameters, {V} pieces"
    assert done.stdout == f"imported {source} to {path}: {size}\n"
    assert done.stderr == ""
    return path


def test_flags_that_cannot_be_used_are_refused(source, imported, tmp_path) -> None:
    good = {"from": "marian", "input": source, "model_dir": tmp_path / "run"}
    for changes, message in (
        ({"from": None}, "--from is required"),
        ({"input": None}, "--input is required"),
        ({"model_dir": None}, "--model_dir is required"),
        ({"from": "marlan"}, "Did you mean marian?"),
        ({"input": "nowhere"}, "There is no --input=nowhere."),
        ({"model_dir": imported}, "opus is not empty."),
        ({"from": "transformers"}, "--input must be a folder that save_pretrained"),
        ({"from": "ctranslate2"}, "Cannot read"),
    ):
        flags = {**good, **changes}
        done = run_program(
            "convert", *(f"--{name}={value}" for name, value in flags.items() if value)
        )
        assert done.status == 2, changes
        assert message in done.stderr
        assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def translated(imported) -> list[str]:
    text = "".join(f"{line}\n" for line in LINES)
    done = run_program("translate", f"--model_dir={imported}", stdin=text.encode())
    assert (done.status, len(done.lines)) == (0, len(LINES)), done.stderr
    return done.lines


@pytest.mark.slow
def test_it_translates_to_text(translated) -> None:
    assert translated[2] == "" and "w" in "".join(translated)


@pytest.mark.slow
def test_run_and_evaluate_translate_alike(imported, translated, tmp_path) -> None:
    assert [line.text for line in Run(imported).translate(LINES)] == translated
    text = "".join(f"{line}\n" for line in LINES)
    for name in ("source", "reference"):
        (tmp_path / name).write_text(text)
    done = run_program(
        "evaluate",
        f"--model_dir={imported}",
        f"--source={tmp_path / 'source'}",
        f"--reference={tmp_path / 'reference'}",
        f"--output={tmp_path / 'out'}",
    )
    assert done.status == 0, done.stderr
    assert (tmp_path / "out").read_text().splitlines() == translated


@pytest.mark.slow
@pytest.mark.usefixtures("unvalidated")
def test_an_export_translates_text(imported) -> None:
    done = run_program("export", f"--model_dir={imported}", "--format=text")
    assert done.status == 0, done.stderr
    version = imported / "export" / "1"
    expected = [line.text for line in Run(imported).translate(LINES)]
    strings = np.array([line.encode() for line in LINES], dtype=object)
    with open_session(version) as served:
        answer = served.ask(Request(signature.TRANSLATE, {signature.TEXT: strings}))
    texts = [text.decode() for text in answer[signature.TRANSLATION]]
    assert texts == expected
    card = json.loads((version / "model_card.json").read_text())
    assert card["vocabulary"]["original_ids"] == [None, *range(V - 1)]
    done = run_program("export", f"--model_dir={imported}", "--format=ids")
    assert done.status == 0, done.stderr
    ids = [[4, 18, 7, 1]]
    with open_session(imported / "export_ids" / "1") as served:
        answer = served.ask(
            Request(signature.TRANSLATE, {signature.INPUT_IDS: np.array(ids, "int32")})
        )
    found = answer[signature.OUTPUT_IDS][0]
    assert vocabulary_of(ModelDir(imported)).decode(found) == expected[0]


@pytest.mark.slow
def test_exports_to_other_toolkits(imported) -> None:
    """Marian's positions are not MarianMT's; a file of Keras has them."""
    program = "export", f"--model_dir={imported}"
    done = run_program(*program, "--format=transformers")
    assert done.status == 2
    assert "sinusoids of other wavelengths" in done.stderr
    assert not (imported / "export_transformers").exists()
    done = run_program(
        *program,
        "--format=transformers",
        "--format=keras",
        "--allow_approximate",
        "--beam_size=3",
    )
    assert done.status == 0, done.stderr
    folders = [imported / f"export_{name}" / "1" for name in ("transformers", "keras")]
    assert done.lines == [f"exported step 0 to {folder}" for folder in folders]
    assert "warning: MarianMT has sinusoids" in done.stderr
    assert "logits of random sentences differ by at most" in done.stderr
    search = json.loads((folders[0] / "generation_config.json").read_text())
    assert search["num_beams"] == 3
    assert (folders[1] / "model.keras").is_file()
    done = run_program(*program, "--format=keras", "--beam_size=3")
    assert "warning: --beam_size has no effect" in done.stderr
    done = run_program(*program, "--format=keras", "--allow_approximate")
    assert done.status == 2 and "--allow_approximate is for --form" in done.stderr


@pytest.mark.slow
def test_training_continues_from_it(imported, tmp_path) -> None:
    """Its vocabulary is used, and nothing changes before the first update."""
    rng = np.random.default_rng(3)
    for split, count in (("train", 60), ("dev", 10)):
        lines = ["".join(rng.choice(PIECES[3:], 5)) for _ in range(count)]
        (tmp_path / f"{split}.a").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / f"{split}.b").write_text("".join(f"{line[:9]}\n" for line in lines))
    files = [
        f"--{split}_{side}={tmp_path / split}.{ending}"
        for split in ("train", "dev")
        for side, ending in (("source", "a"), ("target", "b"))
    ]
    run = tmp_path / "run"
    done = run_program(
        "train",
        f"--flagfile={imported}/train.flags",
        f"--init_from={imported}",
        f"--model_dir={run}",
        *files,
        "--train_steps=4",
        "--eval_steps=4",
        "--tokens_per_batch=300",
        "--max_length=40",
        "--average_checkpoints=1",
        "--nojit_compile",
        "--noexport_at_end",
        "--score_split=dev",
        "--learning_rate_scale=0.01",
        "--warmup_steps=2",
        "--dev_bleu_sentences=2",
    )
    assert done.status == 0, done.stderr
    assert f"initialized from {imported}/checkpoints/step-0" in done.stderr
    own, parent = ModelDir(run), ModelDir(imported)
    assert vocabulary_of(own).sha256 == vocabulary_of(parent).sha256
    assert own.run_card()["init"]["step"] == 0
