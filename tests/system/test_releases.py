"""Compatibility with files of earlier releases: model directory, records and export.

`releases/v0.2.0.tar.xz` was written by the programs of that release, from text of the
bundled grammar, together with their output and losses (`expected.json`).
"""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import open_session
from tests.in_process import run_program

RELEASES = Path(__file__).with_name("releases")
# For float32 on another machine, where sums may have another order.
TOLERANCE = 1e-4


@pytest.fixture
def release(tmp_path):
    """A copy of the files of release 0.2.0 that the test may change."""
    with tarfile.open(RELEASES / "v0.2.0.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    # Insert the absolute paths of the text.
    for path in (*tmp_path.rglob("*.flags"), *tmp_path.rglob("*.json")):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("{folder}", str(tmp_path)), encoding="utf-8")
    return tmp_path


@pytest.fixture
def expected(release):
    return json.loads((release / "expected.json").read_text(encoding="utf-8"))


def read_updates(model_dir, after):
    """Returns loss, gradient norm and weight norm of each update after a step."""
    lines = (model_dir / "metrics.jsonl").read_text().splitlines()
    names = "loss", "gradient_norm", "weight_norm"
    return {
        str(line["step"]): [line[name] for name in names]
        for line in map(json.loads, lines)
        if line["step"] > after and "loss" in line
    }


def assert_same_updates(updates, expected):
    assert updates.keys() == expected.keys()
    for step, values in expected.items():
        np.testing.assert_allclose(updates[step], values, rtol=TOLERANCE, err_msg=step)


@pytest.mark.slow
def test_a_model_directory_translates(release, expected):
    done = run_program(
        "translate", f"--model_dir={release / 'run'}", "--scores", "--n_best=2",
        stdin=(release / "text/test.en").read_bytes(),
    )  # fmt: skip
    assert done.status == 0, done.stderr
    rows = [line.split("\t") for line in done.lines]
    old_rows = [line.split("\t") for line in expected["translated"]]
    assert [[row[0], row[3]] for row in rows] == [[row[0], row[3]] for row in old_rows]
    scores, old_scores = (
        np.array([row[1:3] for row in each], float) for each in (rows, old_rows)
    )
    np.testing.assert_allclose(scores, old_scores, rtol=TOLERANCE)


@pytest.mark.slow
def test_a_run_is_resumed(release, expected):
    done = run_program(
        "train", f"--flagfile={release / 'run/train.flags'}",
        f"--model_dir={release / 'run'}", "--train_steps=404", "--log_steps=1",
        "--noexport_at_end", "--beam_size=1", "--nojit_compile",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    updates = read_updates(release / "run", after=400)
    assert_same_updates(updates, expected["resumed"])


@pytest.mark.slow
def test_records_are_trained_on(release, expected):
    # The settings of the run without its text, which comes from the records.
    text = "--train_", "--dev_", "--test_", "--vocabulary_size"
    lines = (release / "run/train.flags").read_text().splitlines()
    flags = [each for each in lines if each[:2] == "--" and not each.startswith(text)]
    done = run_program(
        "train", *flags, f"--model_dir={release / 'other'}",
        f"--records={release / 'records'}", "--train_steps=4", "--log_steps=1",
        "--noexport_at_end", "--score_split=dev", "--beam_size=1", "--nojit_compile",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    updates = read_updates(release / "other", after=0)
    assert_same_updates(updates, expected["on records"])


@pytest.mark.slow
def test_an_export_is_served(release, expected):
    lines = (release / "text/test.en").read_bytes().splitlines()
    texts = np.array(lines, dtype=object)
    with open_session(release / "run/export/1") as session:
        assert set(session.signatures) == {
            each.split()[0] for each in (*expected["served"], "attention")
        }
        found = session.ask(Request("serving_default", {"text": texts}))
        nbest = session.ask(Request("nbest", {"text": texts}))["translations"]
    theirs = expected["served"]
    decoded = [text.decode() for text in found["translation"]]
    assert decoded == theirs["serving_default translation"]
    np.testing.assert_allclose(
        found["score"], theirs["serving_default score"], rtol=TOLERANCE
    )
    decoded = [[text.decode() for text in row] for row in nbest]
    assert decoded == theirs["nbest translations"]
