"""Training run: checkpoints, metrics, log lines, non-finite updates, resuming."""

import dataclasses
import json
import shutil

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training import dev_evaluation, optimization, trainer, training_run
from t2t_keras.training import checkpoints
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import CheckpointState, read_state, steps_in
from t2t_keras.training.losses import LossSums
from t2t_keras.training.profiling import StepProfiler
from tests.runs.replace_settings import replace_settings
from tests.runs.run_vocabulary import vocabulary_of
from tests.runs.small_runs import read_metrics, train_and_log, without_times
from tests.runs.trained_runs import FakeStepper


@pytest.mark.slow
def test_a_whole_run_and_the_same_again(config, model_dir):
    config = replace_settings(config, "training", dev_bleu_sentences=2)
    log = train_and_log(config, model_dir)
    assert log[0] == "learning 280 subwords …"
    assert log[1].startswith("corpus text files: 60 pairs: ")
    # Only lines of `log_steps`; the number of other, shorter ones depends on speed.
    lines = [line for line in log if line.startswith("step") and "tokens/s" in line]
    steps = [line.split("  ")[0] for line in lines]
    assert steps == ["step 2/6", "step 4/6", "step 6/6"]
    before = log[: next(i for i, line in enumerate(log) if line[:5] == "step ")]
    assert any(" tokens to evaluate: " in line for line in before)
    assert before[-1].startswith("  greedy search traced: ")
    dev = [line for line in log if line.startswith("  dev: loss ")]
    assert len(dev) == 2
    assert "(greedy)" in dev[0]
    store = CheckpointStore(
        model_dir.checkpoints, models.build_model(config, vocabulary_size=280)
    )
    assert steps_in(store.directory) == [4, 6]
    # Where training resumes: 60 pairs in batches of 16 make 4 batches per epoch.
    state = store.restore(store.path(6))
    assert state.position == {"epoch": 1, "position": 2}
    assert state.fingerprints == {"vocabulary": vocabulary_of(model_dir).sha256}
    assert set(state.scores) == {
        "dev_loss",
        "dev_perplexity",
        "dev_bleu_greedy",
    }
    assert model_dir.config() == config
    assert list(model_dir.tensorboard.iterdir())
    lines = read_metrics(model_dir)
    assert [line["step"] for line in lines] == [2, 3, 4, 6]
    assert set(lines[1]) == {"step", "time", "dev_loss", "dev_perplexity"} | {
        "dev_bleu_greedy"
    }
    assert set(lines[3]) >= {"loss", "perplexity", "learning_rate", "dev_loss"}
    assert set(lines[0]) >= {"gradient_norm", "weight_norm", "flops_per_second"}
    cost = model_dir.run_card()["training_cost"]
    assert (cost["step"], cost["devices"]) == (6, 1)
    assert cost["flops"] == pytest.approx(
        sum(2 * x["flops_per_step"] for x in lines if "loss" in x)
    )
    assert state.cost["flops"] == cost["flops"]
    assert cost["hours"] == state.cost["seconds"] / 3600 > 0
    assert cost["ceiling_flops_per_second"] is cost["paper_estimate_flops"] is None
    # The same command again makes no step, and removes partial files as left by a kill.
    for folder in (model_dir.checkpoints, model_dir.best):
        (folder / ".step-5.tmp").mkdir()
    before = [path.stat().st_mtime_ns for path in model_dir.path.rglob("weights*")]
    log = train_and_log(config, model_dir)
    assert "resuming from step 6" in log
    assert "all 6 steps are done already" in log
    after = [path.stat().st_mtime_ns for path in model_dir.path.rglob("weights*")]
    assert after == before
    assert not list(model_dir.path.rglob(".step-*"))


@pytest.mark.slow
@pytest.mark.usefixtures("fake_stepper")
def test_the_best_checkpoint_is_kept_apart(config, model_dir, monkeypatch):
    """The first one of equals; a resumed run remembers the best loss."""
    losses = iter([5.0, 3.0, 4.0, 3.0, 9.0, 3.5, 2.5])
    monkeypatch.setattr(
        dev_evaluation, "loss_sums", lambda *_: LossSums(0.0, 2.0 * next(losses), 2.0)
    )
    config = replace_settings(config, "training", keep_checkpoints=1, eval_steps=1)
    for train_steps, best in ((5, 2), (6, 2), (7, 7)):
        training_run.train(
            replace_settings(config, "training", train_steps=train_steps), model_dir
        )
        assert [path.name for path in model_dir.best.iterdir()] == [f"step-{best}"]
        latest = [path.name for path in model_dir.checkpoints.iterdir()]
        assert latest == [f"step-{train_steps}"]


@pytest.mark.usefixtures("fake_stepper")
def test_a_full_disk_is_a_warning_and_the_last_checkpoint_stays(
    config, model_dir, monkeypatch
):
    save = CheckpointStore.save

    def save_until_the_disk_is_full(self, state):
        if state.step > 2:
            raise OSError(28, "No space left on device")
        return save(self, state)

    monkeypatch.setattr(CheckpointStore, "save", save_until_the_disk_is_full)
    config = replace_settings(config, "training", keep_checkpoints=1)
    lines: list[str] = []
    # Scoring and exporting an older step would look like success.
    with pytest.raises(UserError, match="last checkpoint, of step 6, could not be"):
        with log_to(lines.append):
            training_run.train(config, model_dir)
    log = "\n".join(lines)
    assert "warning: no checkpoint at step 4: [Errno 28] No space left" in log
    assert "the previous checkpoint is kept" in log
    assert "step 6/6" in log
    assert [path.name for path in model_dir.checkpoints.iterdir()] == ["step-2"]


@pytest.mark.usefixtures("fake_stepper")
def test_no_step_is_recorded_twice(config, model_dir):
    """Steps after the checkpoint that a run resumes from are repeated."""
    config = replace_settings(config, "training", log_steps=1, keep_checkpoints=0)
    training_run.train(config, model_dir)
    flops = model_dir.run_card()["training_cost"]["flops"]
    # As after a kill at the third step.
    for step in (4, 6):
        shutil.rmtree(model_dir.checkpoints / f"step-{step}")
    partial_line = '{"step": 7, "lo'
    with open(model_dir.metrics_file, "a") as file:
        file.write(partial_line)
    metrics_before = model_dir.metrics_file.read_text().splitlines()[:2]
    training_run.train(config, model_dir)
    assert [line["step"] for line in read_metrics(model_dir)] == [1, 2, 3, 4, 5, 6]
    assert model_dir.metrics_file.read_text().splitlines()[:2] == metrics_before
    # The cost of repeated steps is not counted twice.
    assert model_dir.run_card()["training_cost"]["flops"] == pytest.approx(flops)


@pytest.mark.usefixtures("fake_stepper")
def test_larger_updates_use_batches_in_their_order(config, model_dir, monkeypatch):
    """Updates 3 and 4 use two batches, later ones three; epochs count batches."""
    updates = []

    class Recorder(FakeStepper):
        def train(self, *batches, stop=False, timed=False):
            updates.append(batches)
            return super().train(*batches, stop=stop, timed=timed)

    def trained(directory, **settings):
        updates.clear()
        monkeypatch.setattr(optimization, "build_stepper", lambda *_, **__: Recorder())
        training_run.train(replace_settings(config, "training", **settings), directory)
        return list(updates)

    def flat(updates):
        return [x["decoder_target_tokens"].tolist() for each in updates for x in each]

    plain = flat(trained(ModelDir(model_dir.path.parent / "plain"), train_steps=12))
    tokens = config.data.tokens_per_batch
    items = (f"2:{2 * tokens}", f"4:{3 * tokens}")
    config = replace_settings(config, "data", tokens_per_batch_steps=items)
    # 60 pairs in batches of 16 make 4 batches per epoch: 12 are needed.
    first = trained(model_dir, train_epochs=2.9)
    assert [len(update) for update in first] == [1, 1, 2, 2, 3, 3]
    assert flat(first) == plain
    shutil.rmtree(model_dir.checkpoints / "step-6")
    assert flat(trained(model_dir, train_epochs=2.9)) == plain[6:]  # after update 4
    position = read_state(model_dir.checkpoints / "step-6").position
    assert position == {"epoch": 3, "position": 0}
    with pytest.raises(UserError, match="tokens_per_batch_steps"):
        config = replace_settings(config, "data", tokens_per_batch_steps=())
        trained(model_dir, train_steps=7)


@pytest.mark.usefixtures("fake_stepper")
def test_a_nonfinite_update_stops_the_run(config, model_dir, monkeypatch):
    stepper = FakeStepper(bad_steps={5})
    monkeypatch.setattr(optimization, "build_stepper", lambda *_, **__: stepper)
    with pytest.raises(UserError, match=r"At step 5 .*nonfinite/step-5"):
        training_run.train(config, model_dir)
    folder = model_dir.nonfinite / "step-5"
    statistics = json.loads((folder / "statistics.json").read_text())
    # 60 pairs in batches of 16: the fifth batch is the first of the second epoch.
    assert statistics["position"] == {"epoch": 1, "position": 0}
    schedule = optimization.build_schedule(config)
    assert statistics["learning_rate"] == pytest.approx(float(schedule(4)))
    assert "transformer/embedding/embeddings" in statistics["weight_norms"]
    assert steps_in(model_dir.checkpoints) == [2, 4]


@pytest.mark.usefixtures("fake_stepper")
def test_skipped_updates_are_counted(config, model_dir, monkeypatch):
    stepper = FakeStepper(bad_steps={2, 3})
    monkeypatch.setattr(optimization, "build_stepper", lambda *_, **__: stepper)
    log = train_and_log(
        replace_settings(config, "training", on_nonfinite="skip"), model_dir
    )
    skipped = {
        line["step"]: line["skipped"]
        for line in read_metrics(model_dir)
        if "skipped" in line
    }
    assert skipped == {2: 1.0, 4: 1.0, 6: 0.0}
    assert any("skipped 1" in line for line in log)


@pytest.mark.usefixtures("fake_stepper")
def test_the_ceiling_and_the_papers_estimate(config, model_dir, monkeypatch):
    monkeypatch.setattr(trainer, "matrix_product_ceiling", lambda *_, **__: 2e12)
    log = train_and_log(
        replace_settings(config, "training", measure_ceiling=True), model_dir
    )
    assert "ceiling: 2 TFLOP/s in matrix products" in log
    line = read_metrics(model_dir)[0]
    assert line["ceiling_share"] == pytest.approx(line["flops_per_second"] / 2e12)
    cost = model_dir.run_card()["training_cost"]
    assert cost["ceiling_flops_per_second"] == 2e12
    # Section 6.1: time x devices x sustained FLOP/s.
    assert cost["paper_estimate_flops"] == pytest.approx(cost["hours"] * 3600 * 2e12)


@pytest.mark.usefixtures("fake_stepper")
def test_metrics_and_scores_are_the_same_after_a_kill(
    config, model_dir, tmp_path, monkeypatch
):
    """Killed between two lines of progress, and between two evaluations."""
    config = replace_settings(
        config,
        "training",
        log_steps=4,
        eval_steps=2,
        save_steps=1,
        keep_checkpoints=9,
        dev_bleu_sentences=0,
    )
    straight = ModelDir(tmp_path / "straight")
    training_run.train(config, straight)

    def kill(_, step):
        if step == 3:
            raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(StepProfiler, "before", kill)
        with pytest.raises(RuntimeError):
            training_run.train(config, model_dir)
    training_run.train(config, model_dir)
    left, right = (
        list(map(without_times, read_metrics(d))) for d in (straight, model_dir)
    )
    assert left == right
    assert [line["step"] for line in left] == [2, 4, 6]
    assert {"loss", "perplexity", "gradient_norm", "skipped"} <= set(left[1])
    # Step 3 is the first after the kill; the last evaluation was before it.
    scores = [
        read_state(d.checkpoints / "step-3").scores for d in (straight, model_dir)
    ]
    assert scores[0] == scores[1]
    assert "dev_loss" in scores[1]


@pytest.mark.usefixtures("fake_stepper")
def test_a_run_resumes_from_a_checkpoint_without_sums(config, model_dir, monkeypatch):
    """Older versions wrote no sums of unlogged steps."""
    fields = [field.name for field in dataclasses.fields(CheckpointState)]
    assert "unlogged" in fields
    real = dataclasses.asdict

    def without_sums(value):
        fields = real(value)
        fields.pop("unlogged", None)
        return fields

    shorter = replace_settings(config, "training", train_steps=4)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.dataclasses, "asdict", without_sums)
        training_run.train(shorter, model_dir)
    card = json.loads((model_dir.checkpoints / "step-4/state.json").read_text())
    assert "unlogged" not in card["state"]
    training_run.train(config, model_dir)
    assert read_metrics(model_dir)[-1]["step"] == 6
