"""Fine-tuning, early stopping and moving averages of whole runs."""

import contextlib
import shutil
import signal

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.signals import Interrupted
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training import (
    averaging,
    dev_evaluation,
    trainer,
    training_run,
)
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.training.checkpoints import StoredCheckpoint, read_state
from t2t_keras.training.losses import LossSums
from tests.runs.replace_settings import replace_settings
from tests.runs.small_runs import (
    assert_each_step_once,
    assert_same_end,
    assert_same_metrics,
    read_metrics,
    small_run,
    tensors,
    train_and_log,
    write_corpus,
)


@pytest.mark.slow
def test_a_run_from_weights_begins_where_the_other_ended(
    config, model_dir, tmp_path
) -> None:
    config = replace_settings(config, "training", ema_decay=0.5)
    training_run.train(config, model_dir)
    parent = read_metrics(model_dir)[-1]
    tuned = replace_settings(
        config,
        "training",
        init_from=str(model_dir.checkpoints / "step-6"),
        train_epochs=0.5,
        schedule="linear",
        learning_rate=0.01,
        warmup_steps=1,
        freeze="^encoder/",
        eval_steps=1,
        keep_best=2,
    )
    child = ModelDir(tmp_path / "child")
    log = train_and_log(tuned, child)
    assert f"initialized from {model_dir.checkpoints / 'step-6'}: 31 weights" in log
    assert any(line.startswith("frozen: 12 weights; ") for line in log)
    lines = read_metrics(child)
    # 60 pairs in batches of 16 are 4 updates.
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert child.config().training.train_steps == 2
    # Not one bit differs from the evaluation of the same weights, the moving averages.
    assert lines[0]["dev_loss"] == parent["dev_loss"]
    assert set(lines[0]) == {"step", "time", "dev_loss", "dev_perplexity"}
    assert [line.get("learning_rate") for line in lines[2:]] == [
        pytest.approx(0.005)  # the second of two, after a warm-up of one
    ]
    before = StoredCheckpoint(model_dir.checkpoints / "step-6").weights()
    after = StoredCheckpoint(child.checkpoints / "step-2").weights()
    for name, value in before.items():
        is_frozen = name.startswith("transformer-encoder-")
        assert np.array_equal(after[name], value) == is_frozen, name
    card = child.run_card()["init"]
    assert (card["step"], card["init"]) == (6, None)
    # The weights that are kept as the best are the moving averages, too.
    ranked = child.rank_best("dev_loss")
    assert len(ranked) == 2
    assert ranked[0].loss == min(line["dev_loss"] for line in lines)
    if ranked[0].step == 2:
        best = StoredCheckpoint(child.best / "step-2").weights()
        for name, value in best.items():
            np.testing.assert_array_equal(value, after[name])
    # Once there is a checkpoint, the source may be gone or elsewhere.
    moved = model_dir.path.rename(tmp_path / "moved") / "checkpoints"
    assert "all 2 steps are done already" in train_and_log(tuned, child)
    for step, outcome in (
        (6, contextlib.nullcontext()),
        (4, pytest.raises(UserError, match=r"its SHA-256 is .*, expected")),
    ):
        name = str(moved / f"step-{step}")
        with outcome:
            train_and_log(replace_settings(tuned, "training", init_from=name), child)


@pytest.mark.slow
@pytest.mark.usefixtures("fake_stepper")
def test_nothing_is_left_of_a_run_that_is_refused(config, model_dir, tmp_path):
    config = replace_settings(config, "training", train_steps=1, eval_steps=1)
    training_run.train(config, model_dir)
    shutil.rmtree(model_dir.checkpoints)
    best = str(model_dir.best / "step-1")
    linear = {"schedule": "linear", "learning_rate": 0.01, "train_epochs": 0.5}
    for section, settings, message in (
        ("model", {"d_ff": 12}, r"inner/kernel: \(8, 8\) there, \(8, 12\) here"),
        ("training", {"init_optimizer": True}, "best/step-1 does not have"),
        ("training", {**linear, "warmup_steps": 2}, "0.5 epochs have 2 updates"),
    ):
        wrong = replace_settings(config, "training", init_from=best)
        wrong = replace_settings(wrong, section, **settings)
        child = ModelDir(tmp_path / "child")
        with pytest.raises(UserError, match=message):
            training_run.train(wrong, child)
        assert not child.path.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("fake_stepper")
def test_early_stopping_ends_an_interrupted_run_at_the_same_step(
    config, model_dir, tmp_path, monkeypatch
):
    losses = {1: 5.0, 2: 3.0, 3: 4.0, 4: 3.0, 5: 2.0, 6: 2.5}
    due: list[int] = []

    def fake_loss(*_) -> LossSums:
        return LossSums(0.0, 2.0 * losses[due[-1]], 2.0)

    scores = trainer.DevEvaluation.scores

    def remember_step(self, step):
        due.append(step)
        return scores(self, step)

    monkeypatch.setattr(trainer.DevEvaluation, "scores", remember_step)
    monkeypatch.setattr(dev_evaluation, "loss_sums", fake_loss)
    config = replace_settings(
        config, "training", eval_steps=1, save_steps=1, keep_checkpoints=0, patience=2
    )
    log = train_and_log(config, model_dir)
    stopped = (
        "stopped early at step 4: no better dev_loss in 2 evaluations; the best is 3 "
        "at step 2"
    )
    assert stopped in log
    assert max(path.name for path in model_dir.checkpoints.iterdir()) == "step-4"
    assert model_dir.run_card()["early_stop"]["best_step"] == 2
    # The same command again: nothing to do. Killed after step 3: the same end.
    due.clear()
    assert stopped in train_and_log(config, model_dir)
    assert due == []
    shutil.rmtree(model_dir.checkpoints / "step-4")
    assert stopped in train_and_log(config, model_dir)
    assert due == [4]
    # With more patience it goes on.
    more = replace_settings(config, "training", patience=3)
    log = train_and_log(more, model_dir)
    assert due[1:] == [5, 6]
    assert not any(line.startswith("stopped early") for line in log)


@pytest.mark.parametrize("stopped_at", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("fake_stepper")
def test_an_evaluation_that_a_signal_prevents_is_made_by_the_resumed_run(
    config, model_dir, tmp_path, monkeypatch, stopped_at
):
    """A signal before an evaluation saves at once, also at the last step."""
    losses = iter([5.0, 3.0, 4.0] * 2)  # of both runs
    monkeypatch.setattr(
        dev_evaluation, "loss_sums", lambda *_: LossSums(0.0, 2.0 * next(losses), 2.0)
    )
    config = replace_settings(config, "training", eval_steps=2, log_steps=1)
    straight = ModelDir(tmp_path / "straight")
    training_run.train(config, straight)

    def stop(step, _) -> None:
        if step == stopped_at:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        training_run.train(config, model_dir, on_record=stop)
    assert "dev_loss" not in read_metrics(model_dir)[-1]
    for _ in range(2):  # the second time nothing is left to do
        training_run.train(config, model_dir)
        dev_losses, expected = (
            [(line["step"], line.get("dev_loss")) for line in read_metrics(run)]
            for run in (model_dir, straight)
        )
        assert dev_losses == expected
    assert model_dir.rank_best("dev_loss") == straight.rank_best("dev_loss")


def test_a_monitor_without_a_dev_set_is_refused(config, model_dir):
    without = replace_settings(config, "data", dev_source=(), dev_target=())
    for name, value in (
        ("patience", 2),
        ("keep_best", 3),
        ("monitor", "dev_bleu"),
    ):
        needy = replace_settings(
            without, "training", dev_bleu_sentences=2, **{name: value}
        )
        with pytest.raises(UserError, match=f"--{name}={value} needs a dev set"):
            training_run.train(needy, model_dir)
        assert not model_dir.path.exists()


# Each option of the architecture that is not a size, other than its default.
ARCHITECTURE = (
    "--normalization=pre",
    "--num_layers=2",
    "--encoder_layers=1",
    "--decoder_layers=1",
    "--layer_norm_epsilon=1e-5",
    "--activation=swish",
    "--attention_bias",
    "--output_bias",
    "--notie_output",
    "--position_layout=halves_t2t",
    "--first_position=2",
    "--decoder_start=</s>",
    "--noshare_embeddings",
    "--nosource_eos",
)


@pytest.mark.slow
def test_a_schedule_free_run_starts_at_the_weights_that_it_loads(
    config, model_dir, tmp_path
) -> None:
    config = replace_settings(config, "training", save_steps=2, log_steps=1)
    training_run.train(config, model_dir)
    rate = 1e-4
    tuned = replace_settings(
        config,
        "training",
        init_from=str(model_dir.checkpoints / "step-6"),
        optimizer="schedule_free_adamw",
        schedule="constant",
        learning_rate=rate,
        warmup_steps=1,
        train_steps=2,
        r_drop=2.0,
    )
    child = ModelDir(tmp_path / "child")
    training_run.train(tuned, child)
    before = StoredCheckpoint(model_dir.checkpoints / "step-6").weights()
    after = StoredCheckpoint(child.checkpoints / "step-2").weights()  # x
    for name, value in before.items():
        # An update moves a weight by up to the rate, at first, and sqrt(2) times that.
        change = np.abs(after[name] - value)
        assert 0 < change.max() < 3 * rate, name
    flops = [
        next(line for line in read_metrics(run) if line["step"] == 1)["flops_per_step"]
        for run in (model_dir, child)
    ]
    assert flops[1] == 2 * flops[0]  # of the same first batch, with two masks


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A run that others start from."""
    folder = tmp_path_factory.mktemp("parent")
    write_corpus(folder)
    parent = small_run(folder, folder / "parent", ARCHITECTURE)
    parent.finish()
    return parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        ("--optimizer=adamw", "--init_optimizer", "--ema_decay=0.8"),
        ("--optimizer=schedule_free_adamw",),
        (
            "--optimizer=muon",
            "--ema_decay=0.8",
            # Batches of the plan have 240; the run is killed in the second phase.
            "--tokens_per_batch_steps=20:720,40:480",
        ),
    ],
    ids=["adamw", "schedule_free_adamw", "muon"],
)
def test_all_training_options_survive_kill_9(parent, tmp_path, optimizer) -> None:
    """Fine-tuning with every compatible option, killed and resumed."""
    write_corpus(tmp_path)
    text = (tmp_path / "train.en").read_text().splitlines()
    links = [" ".join(f"{i}-{i}" for i in range(len(x.split()))) for x in text]
    (tmp_path / "train.align").write_text("".join(f"{line}\n" for line in links))
    learned = learn_subwords(text, vocabulary_size=296, user_symbols=("<x>",))
    SubwordVocabulary(learned).save(tmp_path / "other.model")
    options = (
        *ARCHITECTURE,
        f"--init_from={parent.checkpoints / 'step-60'}",
        *optimizer,
        "--weight_decay=0.1",
        "--r_drop=3",
        "--init_skip=outer/bias",
        "--freeze=/output",
        f"--vocabulary_file={tmp_path}/other.model",
        f"--mixture={tmp_path}/train.de:{tmp_path}/train.en:1/3:<x>",
        "--user_symbols=<x>",
        "--max_tokens_per_replica=120",
        "--schedule=linear",
        "--learning_rate=0.01",
        "--clip_norm=0.5",
        "--patience=50",
        "--keep_best=3",
        "--batching=pack",
        "--monitor=dev_bleu",
        "--dev_bleu_sentences=3",
        "--subword_sampling=0.2",
        f"--train_alignments={tmp_path}/train.align",
        "--guided_alignment=0.5",
        "--filter=length_ratio:9,copied,duplicates,script",
        f"--rejected={tmp_path}/rejected",
    )
    straight = small_run(tmp_path, tmp_path / "straight", options, keep_checkpoints=0)
    straight.finish()
    killed = small_run(tmp_path, tmp_path / "killed", options, keep_checkpoints=0)
    assert killed.stop_at(33, signal.SIGKILL, 0.1) == -signal.SIGKILL
    killed.finish()
    assert_same_end(straight, killed)
    assert_same_metrics(straight, killed)
    assert_each_step_once(killed)
    ends = tensors(straight.checkpoints / "step-60")
    assert any(name.startswith("ema/") for name in ends)
    runs = ModelDir(straight.model_dir), ModelDir(killed.model_dir)
    assert runs[0].rank_best("dev_bleu") == runs[1].rank_best("dev_bleu")
    assert len(runs[0].rank_best("dev_bleu")) == 3
    for best in runs[0].rank_best("dev_bleu"):
        left, right = (
            StoredCheckpoint(run.best / f"step-{best.step}").weights() for run in runs
        )
        for name, value in left.items():
            np.testing.assert_array_equal(right[name], value, err_msg=name)
    _check_averages(runs[0])


def _check_averages(run: ModelDir) -> None:
    """The average of the best, and that of checkpoints, are of moving averages."""
    state = averaging.average_best(run, 2)
    steps = sorted(best.step for best in run.rank_best("dev_bleu")[:2])
    assert list(state.averaged) == steps
    folder = run.averaged / f"step-{steps[-1]}"
    parts = [StoredCheckpoint(run.best / f"step-{step}").weights() for step in steps]
    for name, value in StoredCheckpoint(folder).weights().items():
        mean = np.mean([part[name].astype("float64") for part in parts], axis=0)
        np.testing.assert_allclose(value, mean, rtol=1e-6, atol=1e-7)
    with pytest.raises(UserError, match="has 3 checkpoints, expected 4"):
        averaging.average_best(run, 4)
    trained = models.load_trained(run, "60")
    stored = StoredCheckpoint(run.checkpoints / "step-60").weights()
    raw = tensors(run.checkpoints / "step-60")
    for weight in trained.model.trainable_variables:
        name = weight.path.replace("/", "-")
        np.testing.assert_array_equal(weight.numpy(), stored[name])
    name = "transformer-embedding-embeddings"
    suffix = "/.ATTRIBUTES/VARIABLE_VALUE"
    assert not np.array_equal(stored[name], raw[f"model/{name}{suffix}"])
    assert read_state(run.checkpoints / "step-60").step == 60
