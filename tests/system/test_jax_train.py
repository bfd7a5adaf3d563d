"""examples/jax_train.py: the losses of `train`, and runs that change programs."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_keras import Run
from t2t_keras.training.checkpoints import (
    StoredCheckpoint,
    read_state,
    steps_in,
)
from tests.runs.small_runs import write_corpus
from tests.with_jax import REPOSITORY, run_with_jax

EXAMPLE = str(REPOSITORY / "examples/jax_train.py")
STEPS, HALF = 50, 30
SETTINGS = (
    "--vocabulary_size=300",
    "--max_length=24",
    "--tokens_per_batch=240",
    "--max_shapes=3",
    "--num_layers=2",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--dropout_rate=0.2",
    "--attention_dropout_rate=0.1",
    "--warmup_steps=10",
    "--log_steps=1",
    f"--eval_steps={STEPS}",
    "--dev_bleu_sentences=0",
    "--nojit_compile",
    "--noexport_at_end",
    "--score_split=dev",
    "--beam_size=1",
    "--average_checkpoints=1",
    f"--save_steps={HALF}",
    "--keep_checkpoints=0",
)
# Replaces a script; a module that is None cannot be imported.
WITHOUT_JAX = """
import runpy, sys
sys.modules["jax"] = None
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# --- Without JAX


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("jax", 'needs JAX: pip install "t2t_keras[jax]"'),
        ("tensorflow", "KERAS_BACKEND must be jax, or not be set. Received: tensorf"),
    ],
)
def test_another_backend_or_none_is_an_error(backend, message, monkeypatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", backend)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX, EXAMPLE],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr


# --- With JAX


def program(name: str, *arguments: str, stdin: str = "") -> str:
    """Runs a program of this project on TensorFlow; returns its standard error."""
    command = [sys.executable, "-m", f"t2t_keras.{name}", *arguments]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def jax_losses(*arguments: str, devices: int = 1) -> dict[int, float]:
    """Trains with the example; returns the loss of each update."""
    done = run_with_jax(EXAMPLE, *arguments, devices=devices)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^step (\d+)/\d+  loss (\S+)$", done.stdout, re.MULTILINE)
    return {int(step): float(loss) for step, loss in lines}


def losses(model_dir: Path) -> dict[int, float]:
    """Returns the loss of each update of `train`."""
    lines = (model_dir / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {each["step"]: each["loss"] for each in records if "loss" in each}


def assert_close(actual: dict[int, float], expected: dict[int, float]) -> None:
    for step, loss in actual.items():
        assert abs(loss - expected[step]) < 1e-4, step


def copy_half(run: Path, target: Path) -> str:
    """Copies a run as it was after `HALF` updates; returns its flag."""
    shutil.copytree(run, target)
    shutil.rmtree(target / f"checkpoints/step-{STEPS}")
    shutil.rmtree(target / "averaged", ignore_errors=True)
    return f"--model_dir={target}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with records and with `first`, a run of two updates."""
    run_with_jax("-c", "")  # skips the tests before anything is trained
    folder: Path = tmp_path_factory.mktemp("jax_train")
    write_corpus(folder, sentences=300)
    files = [
        f"--{split}_{side}={folder / split}.{language}"
        for split in ("train", "dev")
        for side, language in (("source", "en"), ("target", "de"))
    ]
    program("prepare", *files, *SETTINGS[:2], f"--output={folder / 'records'}")
    program("train", *flags(folder, "first", "--train_steps=2", init=False))
    return folder


def flags(folder: Path, name: str, *more: str, init: bool = True) -> tuple[str, ...]:
    """Returns the flags of a run of the folder."""
    source = (f"--init_from={folder / 'first'}",) if init else ()
    records, target = f"--records={folder / 'records'}", folder / name
    return (*SETTINGS, records, f"--model_dir={target}", *source, *more)


@pytest.fixture(scope="module")
def on_tensorflow(folder) -> Path:
    program("train", *flags(folder, "tensorflow", f"--train_steps={STEPS}"))
    return folder / "tensorflow"


@pytest.fixture(scope="module")
def on_jax(folder) -> tuple[Path, dict[int, float]]:
    found = jax_losses(*flags(folder, "jax", f"--train_steps={STEPS}"))
    return folder / "jax", found


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_the_losses_are_those_of_train(on_tensorflow, on_jax) -> None:
    expected, (_, found) = losses(on_tensorflow), on_jax
    assert list(found) == list(range(1, STEPS + 1))
    assert_close(found, expected)
    # The updates have an effect, and neighboring batches have other losses.
    assert expected[STEPS] < expected[1] - 1.0
    ahead = [abs(found[step] - expected[step + 1]) for step in range(1, STEPS)]
    assert np.median(ahead) > 1e-3


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_eight_devices_have_the_losses_of_one(folder, on_tensorflow) -> None:
    steps = f"--train_steps={STEPS}"
    found = jax_losses(*flags(folder, "eight", steps), devices=8)
    assert list(found) == list(range(1, STEPS + 1))
    assert_close(found, losses(on_tensorflow))


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_either_program_resumes_a_run_of_the_other(
    folder, on_tensorflow, on_jax
) -> None:
    expected = losses(on_tensorflow)
    same = flags(folder, "", f"--train_steps={STEPS}")
    found = jax_losses(*same, copy_half(on_tensorflow, folder / "from_tensorflow"))
    assert list(found) == list(range(HALF + 1, STEPS + 1))
    assert_close(found, expected)
    target = folder / "from_jax"
    log = program("train", *same, copy_half(on_jax[0], target))
    assert f"resuming from step {HALF}" in log
    assert list(losses(target)) == list(range(HALF + 1, STEPS + 1))
    assert_close(losses(target), expected)


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_measurements_are_not_counted_twice(folder, on_tensorflow, on_jax) -> None:
    """A record after updates with JAX is of the updates of `train` since then."""
    target, expected = folder / "measured", losses(on_tensorflow)
    same = *flags(folder, "", "--log_steps=7"), copy_half(on_jax[0], target)
    # Update 39 is evaluated, and 36 to 40 are in no record but in the checkpoint.
    more = "--eval_steps=39", "--save_steps=4", "--train_steps=41"
    program("train", *same, *more)
    shutil.rmtree(target / "checkpoints/step-41")
    before = read_state(target / "checkpoints/step-40")
    assert before.unlogged["updates"] == 5 and "dev_loss" in before.scores
    found = jax_losses(*same, "--train_steps=41", "--keep_checkpoints=2")
    assert list(found) == [41]
    assert steps_in(target / "checkpoints") == [40, 41]
    after = read_state(target / "checkpoints/step-41")
    assert not after.scores and after.cost == before.cost
    program("train", *same, "--train_steps=42")
    # With those of 36 to 40, the mean would be another.
    assert abs(losses(target)[42] - expected[42]) < 1e-4
    assert abs(np.mean([expected[n] for n in range(36, 41)]) - expected[42]) > 1e-2


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_the_weights_are_those_of_train_and_other_programs_use_them(
    folder, on_tensorflow, on_jax
) -> None:
    paths = [run / f"checkpoints/step-{STEPS}" for run in (on_jax[0], on_tensorflow)]
    for read in (StoredCheckpoint, StoredCheckpoint):
        found, expected = map(read, paths)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name].dtype == value.dtype, name
            np.testing.assert_allclose(found[name], value, atol=1e-3, err_msg=name)
    pairs = [("bust keno", "onek tsub"), ("dilt", "tlid")]
    scores = [Run(run).score(pairs) for run in (on_jax[0], on_tensorflow)]
    for found, expected in zip(*scores, strict=True):
        assert abs(found.log_prob - expected.log_prob) < 1e-2
    source = f"--init_from={on_jax[0]}"
    log = program("train", *flags(folder, "third", source, "--train_steps=1"))
    assert f"initialized from {on_jax[0]}/checkpoints/step-{STEPS}" in log


@pytest.mark.release
def test_settings_that_it_lacks_are_refused(folder) -> None:
    for flag in (
        "--clip_norm=1.0",
        "--ema_decay=0.9",
        "--precision=bfloat16",
        "--on_nonfinite=skip",
        "--optimizer=muon",
        "--r_drop=1.0",
        "--profile_steps=3:5",
        "--measure_ceiling=True",
        "--strategy=one",
        "--cpu_devices=2",
        "--tf32=False",
        "--tokens_per_batch_steps=5:1000000,9:2000000",
    ):
        done = run_with_jax(EXAMPLE, *flags(folder, "refused", flag))
        assert done.returncode == 2
        assert f"error: {flag} is not for this example" in done.stderr
    assert not (folder / "refused").exists()
