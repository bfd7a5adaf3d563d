"""Training by a program: the batches, updates and model directory of `t2t_keras`."""

import argparse
import dataclasses
import itertools
import json
import random
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.gpu import run as kit
from benchmarks.gpu.initial_values import draw_for_seed
from benchmarks.gpu.manifest import load_manifest
from benchmarks.gpu.training import files
from benchmarks.gpu.training.files import load_state, load_weights, save_weights
from benchmarks.gpu.training.folder import (
    Training,
    data_folder,
    digest_of,
    load_training,
)
from benchmarks.gpu.training.packed_batches import PackedBatches
from benchmarks.product_step import build_product_step
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.runs import models
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training import optimization
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.training.step import loss_sums
from tests.forked import run_python
from tests.with_jax import run_with_jax

WRITE = "benchmarks.gpu.training.write"
FINISH = "benchmarks.gpu.training.finish"
STEPS, LOG, SAVE = 12, 4, 2
SETTINGS = (
    "--vocabulary_size=300",
    "--max_length=24",
    "--tokens_per_batch=240",
    "--batching=pack",
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=24",
    "--num_heads=2",
    "--dropout_rate=0.2",
    "--schedule=linear",
    "--learning_rate=0.01",
    "--warmup_steps=4",
    f"--train_steps={STEPS}",
    f"--log_steps={LOG}",
    f"--eval_steps={STEPS}",
    f"--save_steps={SAVE}",
    "--average_checkpoints=3",
    "--updates_per_run=3",
)
# Trains to the end, and again until a power failure after the second state is written.
KILLED = """
import functools, os, signal, sys
from benchmarks.gpu.training import run, trainer
trainer.Executable = functools.cache(trainer.Executable)
folder, out = sys.argv[1:]
run.main([f"--dir={folder}", f"--out={out}/whole"])
save, states = run.save_state, []
def save_and_die(path, state, digest):
    save(path, state, digest)
    states.append(state.step)
    if len(states) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
run.save_state = save_and_die
run.main([f"--dir={folder}", f"--out={out}/killed", "--state_seconds=0"])
"""
# Resumes it; trains until time is up at once, resumes that, and finds it done.
RESUMED = """
import functools, sys
from benchmarks.gpu.training import run, trainer
trainer.Executable = functools.cache(trainer.Executable)
folder, out = sys.argv[1:]
run.main([f"--dir={folder}", f"--out={out}/killed"])
try:
    run.main([f"--dir={folder}", f"--out={out}/cut", "--seconds=0"])
except SystemExit as stop:
    print(stop)
run.main([f"--dir={folder}", f"--out={out}/cut"])
run.main([f"--dir={folder}", f"--out={out}/cut"])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of two trainings, of seeds 7 and 8, on random words and their reverses."""
    folder = tmp_path_factory.mktemp("trainings")
    generator = random.Random(4)
    words = [f"{a}{b}" for a in "bdfgk" for b in ("a", "eno", "ilt", "or", "ust")]
    files = []
    for split, count in (("train", 260), ("dev", 37)):
        lines = [
            " ".join(generator.choices(words, k=generator.randint(1, 7)))
            for _ in range(count)
        ]
        for side, step in (("source", 1), ("target", -1)):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{line[::step]}\n" for line in lines))
            files.append(f"--{split}_{side}={path}")
    flags = f"--out={folder}", "--name=x", "--target_language=de", "--seeds=7,8"
    done = run_python("-m", WRITE, *SETTINGS, *files, *flags)
    assert done.returncode == 0, done.stderr.decode()
    return folder


@pytest.fixture(scope="module")
def data(folder, tmp_path_factory):
    """Settings of the training of seed 7, and its data as `train` prepares them."""
    copy = shutil.copytree(folder / "x-de-data", tmp_path_factory.mktemp("copy") / "x")
    config = ModelDir(copy).config()
    return config, prepare_run(config, ModelDir(copy))


@pytest.fixture(scope="module")
def killed(folder):
    """Folder of results of seed 7: "whole", and "killed" as the kill left it."""
    done = run_with_jax("-c", KILLED, str(folder / "x-de-7"), str(folder))
    assert done.returncode == -signal.SIGKILL, done.stderr
    return folder


def read_lines(out):
    """Returns the lines of results, by name of the training."""
    lines = (out / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def load_averaged(folder, out):
    """Returns the averaged weights of seed 7 by name, and what is stored with them."""
    arguments = load_manifest(folder / "x-de-data/dev_loss").arguments
    states = [one for one in arguments if one.is_state]
    values, about = load_weights(out / "x-de-7", [one.shape for one in states])
    return dict(zip([one.name for one in states], values, strict=True)), about


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8])
def test_the_batches_are_those_of_train(folder, data, seed) -> None:
    _, run_data = data
    own = folder / f"x-de-{seed}"
    manifest, training = load_manifest(own / "update"), load_training(own)
    assert training.updates_per_run == 2  # the most that divides every interval
    rebuilt = PackedBatches(
        dict(np.load(folder / "x-de-data/pairs.npz")),
        dict(np.load(own / "batches.npz")),
        (manifest.rows, manifest.source_length, manifest.target_length),
    )
    batches = TrainingBatches(run_data.train, run_data.batching, seed=seed)
    made = [batch for batch, _ in itertools.islice(batches, STEPS)]
    assert training.epochs == batches.position_after(STEPS - 1).epoch + 1 > 1
    # In two calls, as the runner makes them in chunks.
    parts = rebuilt.features(0, 5), rebuilt.features(5, STEPS - 5)
    first = dict(np.load(own / "update/inputs.npz"))
    for name in made[0]:
        expected = np.stack([batch[name] for batch in made])
        found = np.concatenate([part[name] for part in parts])
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, err_msg=name)
        np.testing.assert_array_equal(first[name], expected[:2], err_msg=name)
    assert made[0].keys() == parts[0].keys() == first.keys()


@pytest.mark.slow
def test_the_updates_are_those_of_train(folder, data, killed) -> None:
    config, run_data = data
    training = dataclasses.replace(config.training, seed=7)
    config = dataclasses.replace(config, training=training)
    step = build_product_step(
        config, run_data.vocabulary.size, packed=True, device="gpu"
    )
    variables = {v.path: v for v in (*step.model.variables, *step.optimizer.variables)}
    for one in load_manifest(folder / "x-de-7/update").arguments:
        if one.is_state:
            variables[one.name].assign(draw_for_seed(one, 7))
    records = [line for line in read_lines(killed / "whole") if "loss" in line]
    assert [line["step"] for line in records] == list(range(LOG, STEPS + 1, LOG))
    saved, sums = [], []
    batches = TrainingBatches(run_data.train, run_data.batching, seed=7)
    for number, (batch, _) in enumerate(itertools.islice(batches, STEPS), start=1):
        sums.append(step.stepper.train(batch))
        if number % SAVE == 0:
            saved.append([weight.numpy() for weight in step.model.weights])
        if number % LOG == 0:
            found = records.pop(0)
            tokens = sum(float(each.losses.token_count) for each in sums)
            for name in ("loss", "log_loss"):
                total = sum(float(getattr(each.losses, f"{name}_sum")) for each in sums)
                assert found[name] == pytest.approx(total / tokens, rel=1e-5), number
            norm = sum(float(each.gradient_norm) for each in sums) / len(sums)
            assert found["gradient_norm"] == pytest.approx(norm, rel=1e-3), number
            sums = []
    weights, about = load_averaged(folder, killed / "whole")
    assert about["averaged"] == [8, 10, 12] and about["finished"]
    for weight, *values in zip(step.model.weights, *saved[-3:], strict=True):
        found, expected = weights[weight.path], np.mean(values, axis=0)
        np.testing.assert_allclose(found, expected, atol=2e-4, err_msg=weight.path)
    assert len(weights) == len(step.model.weights)


@pytest.mark.slow
def test_a_resumed_training_ends_with_the_same_bits(folder, killed) -> None:
    digest = digest_of(folder / "x-de-7")
    state = load_state(killed / "killed/x-de-7/state.npz", digest)
    assert state is not None and state.step == 2 * LOG < STEPS
    with pytest.raises(SystemExit, match="must be of the training in --dir"):
        load_state(killed / "killed/x-de-7/state.npz", digest_of(folder / "x-de-8"))
    assert not (killed / "killed/x-de-7/weights-0.npz").exists()
    done = run_with_jax("-c", RESUMED, str(folder / "x-de-7"), str(folder))
    assert done.returncode == 0, done.stderr
    assert f"stopped after 2 of {STEPS} updates" in done.stdout
    assert done.stdout.endswith(f"all {STEPS} updates are done already\n")
    expected, about = load_averaged(folder, killed / "whole")
    for name in ("killed", "cut"):
        assert [path.name for path in (folder / name / "x-de-7").iterdir()] == [
            "weights-0.npz"
        ]
        found, other = load_averaged(folder, folder / name)
        assert other["averaged_dev_loss"] == about["averaged_dev_loss"]
        for weight, value in expected.items():
            np.testing.assert_array_equal(found[weight], value, err_msg=weight)
    steps = [line.get("step") for line in read_lines(folder / "cut")]
    assert steps == [None, 2, 2, None, 4, 8, 12, 12]


@pytest.mark.slow
def test_the_model_directory_is_one_of_train(folder, data, killed, tmp_path) -> None:
    config, run_data = data
    flags = f"--dir={folder / 'x-de-7'}", f"--weights={killed / 'whole'}"
    model_dir = ModelDir(tmp_path / "run")
    done = run_python("-m", FINISH, *flags, f"--model_dir={model_dir.path}")
    assert done.returncode == 0, done.stderr.decode()
    assert model_dir.config().training.seed == 7
    trained = models.load_trained(model_dir, "averaged")
    assert trained.checkpoint == model_dir.averaged / f"step-{STEPS}"
    stepper = optimization.build_stepper(
        config.training, trained.model, None, tf.distribute.get_strategy()
    )
    assert run_data.dev is not None
    sums = loss_sums(stepper, from_settings.build_evaluation(config.data, run_data.dev))
    _, about = load_averaged(folder, killed / "whole")
    loss = sums.log_loss_sum / sums.token_count
    assert about["averaged_dev_loss"] == pytest.approx(loss, rel=1e-5)
    lines = b"bust keno\n\ndilt\n"
    source = f"--model_dir={model_dir.path}"
    done = run_python("-m", "t2t_keras.translate", source, input=lines)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == 3


def test_weights_travel_in_small_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "NUMBERS_PER_PART", 7)
    weights = [np.arange(12, dtype="float32").reshape(3, 4), np.float32([5.5])]
    shapes = [weight.shape for weight in weights]
    save_weights(tmp_path, weights, {"step": 3})
    found, about = load_weights(tmp_path, shapes)
    assert about == {"step": 3, "parts": 2}
    for one, expected in zip(found, weights, strict=True):
        np.testing.assert_array_equal(one, expected)
    with pytest.raises(SystemExit, match=r"must have 12 weights\. Received: 13"):
        load_weights(tmp_path, shapes[:1])
    save_weights(tmp_path / "other", weights, {"step": 4})
    shutil.copy(tmp_path / "other/weights-1.npz", tmp_path)
    with pytest.raises(SystemExit, match="same training as the other files"):
        load_weights(tmp_path, shapes)
    (tmp_path / "weights-1.npz").unlink()
    with pytest.raises(SystemExit, match="must be there, one of 2 files"):
        load_weights(tmp_path, shapes)
    with pytest.raises(SystemExit, match="after the end of a training"):
        load_weights(tmp_path / "missing", shapes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batching=bucket", "--batching must be pack, for one shape of batches"),
        ("--save_steps=0", "--batching must be pack, for one shape of batches"),
        ("--ema_decay=0.9", "--ema_decay=0.9 is not for this program"),
        ("--seeds=1,1", "--seeds must be different numbers, such as 1,2,3"),
        ("--seeds=7", "x-de-data must not be there yet"),
    ],
)
def test_what_cannot_be_written_is_refused(folder, flag, message) -> None:
    flags = f"--out={folder}", "--name=x", "--target_language=de"
    done = run_python("-m", WRITE, *SETTINGS, *flags, flag)
    assert done.returncode == 2
    assert f"error: {message}" in done.stderr.decode().replace(f"{folder}/", "")


def test_a_folder_without_a_training_is_refused(tmp_path) -> None:
    with pytest.raises(SystemExit, match=r"must be a folder with training\.json"):
        load_training(tmp_path)
    (tmp_path / "training.json").write_text('{"format": 0}')
    with pytest.raises(SystemExit, match=r"of format 2\. Received: 0"):
        load_training(tmp_path)
    training = Training("x-data", *range(8))
    with pytest.raises(SystemExit, match=r"x-data must be beside .*x-7, with"):
        data_folder(tmp_path / "x-7", training)
    (tmp_path / "x-data").mkdir()
    assert data_folder(tmp_path / "x-7", training) == tmp_path / "x-data"


@pytest.mark.slow
def test_the_kit_takes_programs_and_trainings_by_name(folder, tmp_path) -> None:
    out = tmp_path / "results.jsonl"
    args = argparse.Namespace(
        dir=folder / "kit",
        out=tmp_path,
        only=re.compile(""),
        runs=5,
        peers=1,
        training_seconds=33.0,
    )
    with pytest.raises(
        SystemExit, match=r"must be a folder that benchmarks\.gpu\.write"
    ):
        next(kit.list_tasks(args, out))
    for name in ("03-a", "05-b"):
        shutil.copytree(folder / "x-de-7/update", args.dir / name)
    shutil.copytree(folder / "x-de-7", args.dir / "04-training-de-7")
    first, training, last = kit.list_tasks(args, out)
    assert (first.program, last.program) == ("03-a", "05-b")
    assert first.arguments == (
        f"--program={args.dir / '03-a'}",
        f"--out={out}",
        "--runs=5",
    )
    assert training.module == "benchmarks.gpu.training.run"
    assert training.arguments == (
        f"--dir={args.dir / '04-training-de-7'}",
        f"--out={tmp_path}",
        "--seconds=33.0",
    )
    assert first.least_seconds < 33 == training.more_seconds < training.least_seconds
