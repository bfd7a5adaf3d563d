"""A training run: what it refuses, what it writes, and when."""

import dataclasses
import json

import pytest

from t2t_keras import experiment, training_run
from t2t_keras.checkpoints import CheckpointStore
from t2t_keras.config import DataConfig, ExperimentConfig, ModelConfig, TrainingConfig
from t2t_keras.errors import UserError
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.losses import LossSums
from t2t_keras.training.step import StepSums
from tests.system.reverse_task import reversed_pairs, written


@pytest.fixture
def config(tmp_path):
    """Six updates of the smallest model, on sixty pairs."""
    pairs = reversed_pairs(80, seed=3)
    for split, part in (("train", pairs[:60]), ("dev", pairs[60:])):
        written(tmp_path, split, part)
    return ExperimentConfig(
        data=DataConfig(
            train_source=(str(tmp_path / "train.source"),),
            train_target=(str(tmp_path / "train.target"),),
            dev_source=(str(tmp_path / "dev.source"),),
            dev_target=(str(tmp_path / "dev.target"),),
            vocabulary_size=280,
            max_length=8,
            tokens_per_batch=128,
        ),
        model=ModelConfig(num_layers=1, d_model=8, d_ff=8, num_heads=2),
        training=TrainingConfig(
            train_steps=6,
            warmup_steps=3,
            seed=4,
            jit_compile=False,
            log_steps=2,
            eval_steps=3,
            dev_bleu_sentences=0,
            save_steps=2,
            keep_checkpoints=2,
        ),
    )


def changed(config, section, **values):
    part = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **{section: part})


@pytest.fixture
def model_dir(tmp_path):
    return ModelDir(tmp_path / "run")


@pytest.fixture
def prepare(model_dir):
    """Prepares the data, and returns it with the lines that were said."""

    def run(config):
        said = []
        return training_run.prepare_data(config, model_dir, said.append), said

    return run


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

    monkeypatch.setattr(experiment, "build_stepper", lambda *_: Idle())
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


def test_the_files_of_a_run_are_written_before_the_first_step(
    config, model_dir, prepare
):
    data, said = prepare(config)
    assert model_dir.config() == config
    assert model_dir.vocabulary().sha256 == data.vocabulary.sha256
    card = json.loads(model_dir.run_card_file.read_text())
    assert card["seed"] == 4
    assert card["vocabulary"] == {"size": 280, "sha256": data.vocabulary.sha256}
    assert card["corpus"]["pairs"] == 60
    assert card["corpus"]["num_shapes"] == 1
    assert set(card["versions"]) >= {"t2t_keras", "python", "tensorflow", "keras"}
    assert (len(data.train), len(data.dev)) == (60, 20)
    assert len(said) == 2


def test_over_long_pairs_are_left_out_and_counted(config, prepare):
    with open(config.data.train_source[0], "a") as file:
        file.write("a b c d e f g h\n" * 3)
    with open(config.data.train_target[0], "a") as file:
        file.write("h g f e d c b a\n" * 3)
    data, said = prepare(config)
    assert len(data.train) == 60
    assert "left out: 3 pairs longer than 8 tokens, 0 with an empty side" in said


def test_faults_of_the_text_are_told(config, prepare):
    with open(config.data.train_source[0], "ab") as file:
        file.write(b"\na \xff b\n")
    with open(config.data.train_target[0], "ab") as file:
        file.write(b"a\nb a\n")
    _, said = prepare(config)
    warnings = [line for line in said if line.startswith("warning: train: ")]
    assert len(warnings) == 2
    assert "1 of 62 lines have no text on one side or both" in warnings[0]
    assert "1 of 62 lines are not valid UTF-8" in warnings[1]


def test_other_settings_are_refused_and_the_difference_shown(
    config, model_dir, prepare
):
    prepare(config)
    before = model_dir.flagfile.read_bytes()
    other = changed(changed(config, "model", d_ff=9), "data", max_length=7)
    with pytest.raises(UserError, match="holds a run with other settings") as refused:
        prepare(other)
    assert "--d_ff: 8 in the model_dir, 9 now" in str(refused.value)
    assert "--max_length: 8 in the model_dir, 7 now" in str(refused.value)
    assert "num_heads" not in str(refused.value)
    assert model_dir.flagfile.read_bytes() == before


def test_what_decides_no_update_may_change(config, model_dir, prepare):
    prepare(config)
    longer = changed(config, "training", train_steps=9, save_steps=1)
    prepare(longer)
    assert model_dir.config() == longer


def test_another_corpus_is_refused(config, prepare):
    prepare(config)
    with open(config.data.train_source[0], "r+") as file:
        file.write("j")
    with pytest.raises(UserError, match="its training text has changed"):
        prepare(config)


def test_a_corpus_without_training_text_is_refused(config, model_dir, prepare):
    data = dataclasses.replace(config.data, train_source=(), train_target=())
    with pytest.raises(UserError, match="nothing to train on"):
        prepare(dataclasses.replace(config, data=data))
    assert not model_dir.path.exists()


def test_a_vocabulary_that_was_put_in_its_place_is_refused(
    config, model_dir, prepare, tmp_path
):
    prepare(config)
    other = ModelDir(tmp_path / "other")
    more = changed(config, "data", vocabulary_size=278)
    training_run.prepare_data(more, other, lambda _: None)
    model_dir.vocabulary_file.write_bytes(other.vocabulary_file.read_bytes())
    with pytest.raises(UserError, match="is not the vocabulary that this model was tr"):
        prepare(config)


def test_without_gpus_there_is_one_replica():
    assert training_run.build_strategy().num_replicas_in_sync == 1
