"""A training run: what it refuses, what it writes, and when."""

import pytest

from t2t_keras import experiment, training_run
from t2t_keras.checkpoints import CheckpointStore
from t2t_keras.errors import UserError
from t2t_keras.training.losses import LossSums
from t2t_keras.training.step import StepSums
from tests.system.changed import changed


def test_a_whole_run_and_the_same_again(config, model_dir, capsys):
    config = changed(config, "training", dev_bleu_sentences=2)
    training_run.train(config, model_dir)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "learning 280 subwords …"
    assert said[1].startswith("corpus text files: 60 pairs: ")
    steps = [line.split("  ")[0] for line in said if line.startswith("step")]
    assert steps == ["step 2/6", "step 4/6", "step 6/6"]
    dev = [line for line in said if line.startswith("  dev: loss ")]
    assert len(dev) == 2
    assert "(greedy)" in dev[0]
    store = CheckpointStore(
        model_dir.checkpoints, experiment.build_model(config, vocabulary_size=280)
    )
    assert store.steps() == [4, 6]
    # Where training goes on: 60 pairs in batches of 16 make 4 batches an epoch.
    state = store.restore(store.path(6))
    assert state.position == {"epoch": 1, "position": 2}
    assert state.fingerprints == {"vocabulary": model_dir.vocabulary().sha256}
    assert set(state.scores) == {
        "dev_loss",
        "dev_perplexity",
        "dev_bleu_greedy",
        "best_dev_loss",
    }
    assert model_dir.config() == config
    assert list(model_dir.tensorboard.iterdir())
    # Done is done: the same command again makes no step.
    before = [path.stat().st_mtime_ns for path in model_dir.path.rglob("weights*")]
    training_run.train(config, model_dir)
    said = capsys.readouterr().err.splitlines()
    assert "going on from step 6" in said
    assert "all 6 steps are made already" in said
    after = [path.stat().st_mtime_ns for path in model_dir.path.rglob("weights*")]
    assert after == before


@pytest.fixture
def no_arithmetic(monkeypatch):
    """Replaces the updates, which take long to trace, by nothing."""

    class Idle:
        def train(self, batch):
            return StepSums(LossSums(1.0, 1.0, 1.0), 1.0)

    monkeypatch.setattr(experiment, "build_stepper", lambda *_, **__: Idle())
    monkeypatch.setattr(experiment, "dev_sums", lambda *_: LossSums(1.0, 1.0, 1.0))


@pytest.mark.usefixtures("no_arithmetic")
def test_the_best_checkpoint_is_kept_apart(config, model_dir, monkeypatch):
    """Of equals the first; a run that goes on remembers what it has to beat."""
    losses = iter([5.0, 3.0, 4.0, 3.0, 9.0, 3.5, 2.5])
    monkeypatch.setattr(
        experiment, "dev_sums", lambda *_: LossSums(0.0, 2.0 * next(losses), 2.0)
    )
    config = changed(config, "training", keep_checkpoints=1, eval_steps=1)
    for train_steps, best in ((5, 2), (6, 2), (7, 7)):
        training_run.train(
            changed(config, "training", train_steps=train_steps), model_dir
        )
        assert [path.name for path in model_dir.best.iterdir()] == [f"step-{best}"]
        latest = [path.name for path in model_dir.checkpoints.iterdir()]
        assert latest == [f"step-{train_steps}"]


@pytest.mark.usefixtures("no_arithmetic")
def test_a_full_disk_is_a_warning_and_the_last_checkpoint_stays(
    config, model_dir, capsys, monkeypatch
):
    save = CheckpointStore.save

    def save_while_there_is_room(self, state):
        if state.step > 2:
            raise OSError(28, "No space left on device")
        return save(self, state)

    monkeypatch.setattr(CheckpointStore, "save", save_while_there_is_room)
    config = changed(config, "training", keep_checkpoints=1)
    # Going on to score and export an older step would look like success.
    with pytest.raises(UserError, match="last checkpoint, of step 6, could not be"):
        training_run.train(config, model_dir)
    said = capsys.readouterr().err
    assert "warning: no checkpoint at step 4: [Errno 28] No space left" in said
    assert "the checkpoint before is kept" in said
    assert "step 6/6" in said
    assert [path.name for path in model_dir.checkpoints.iterdir()] == ["step-2"]


def test_without_gpus_there_is_one_replica():
    assert training_run.build_strategy().num_replicas_in_sync == 1
