"""Initial weights from another run: matching of weights and of vocabularies."""

import dataclasses
import re
import shutil

import keras
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.fine_tuning import (
    Initializer,
    check_fit,
    freeze,
    list_weights,
    map_rows,
)
from t2t_keras.runs.training.source import open_source, other_meanings
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID
from t2t_keras.training.checkpoint_averaging import average
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import (
    CheckpointState,
    StoredCheckpoint,
    weight_name,
)
from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot

SIZES = ModelConfig(num_layers=1, d_model=6, d_ff=5, num_heads=3)
CONFIG = ExperimentConfig(data=DataConfig(max_length=9), model=SIZES)


def learn(lines: list[str], size: int) -> SubwordVocabulary:
    return SubwordVocabulary(learn_subwords(lines * 3, vocabulary_size=size))


@pytest.fixture(scope="module")
def old_vocabulary() -> SubwordVocabulary:
    return learn(["the old dog sleeps", "a dog sees the tree"], 288)


@pytest.fixture(scope="module")
def new_vocabulary() -> SubwordVocabulary:
    return learn(["the new dogs saw trees", "ein Baum sieht dogs"], 293)


def build(vocabulary: SubwordVocabulary, seed: int, **changes) -> Transformer:
    training = dataclasses.replace(CONFIG.training, seed=seed)
    sizes = dataclasses.replace(SIZES, **changes)
    config = dataclasses.replace(CONFIG, model=sizes, training=training)
    return models.build_model(config, vocabulary.size)


def build_optimizer(model):
    optimizer = paper_adam(WarmupInverseSquareRoot(6, 4))
    optimizer.build(model.trainable_variables)
    return optimizer


@pytest.fixture
def run(tmp_path, finished) -> ModelDir:
    """A copy of the run, which may be changed."""
    return ModelDir(shutil.copytree(finished.path, tmp_path / "old"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, old_vocabulary) -> ModelDir:
    """Run with checkpoints at steps 4 and 6 and their mean; its moments are random."""
    run = ModelDir(tmp_path_factory.mktemp("finished"))
    old_vocabulary.save(run.vocabulary_file)
    run.update_run_card({"vocabulary": {"sha256": old_vocabulary.sha256}})
    run.write_config(CONFIG, "A run.")
    rng = np.random.default_rng(8)
    for step in (4, 6):
        model = build(old_vocabulary, seed=step)
        optimizer = build_optimizer(model)
        for variable in optimizer.variables:
            if variable.path.endswith(("momentum", "velocity")):
                variable.assign(rng.normal(size=variable.shape))
        optimizer.applied.assign(step - 1)
        optimizer.iterations.assign(step)
        store = CheckpointStore(run.checkpoints, model, optimizer)
        store.save(CheckpointState(step, position={"epoch": 0, "position": step}))
    paths = [run.checkpoints / f"step-{step}" for step in (4, 6)]
    average(paths, run.averaged / "step-6")
    return run


def values(model) -> dict[str, np.ndarray]:
    return {weight_name(weight): weight.numpy() for weight in model.weights}


# --- The source


def test_a_run_stands_for_its_average_and_a_folder_for_itself(run, tmp_path) -> None:
    new = ModelDir(tmp_path / "new")
    source = open_source(str(run.path), new)
    assert (source.checkpoint, source.step) == (run.averaged / "step-6", 6)
    # An average has no moments: those of the newest checkpoint in it.
    assert source.optimizer_checkpoint == run.checkpoints / "step-6"
    folder = run.checkpoints / "step-4"
    source = open_source(str(folder), new)
    assert source.checkpoint == source.optimizer_checkpoint == folder
    shutil.rmtree(run.averaged)
    assert open_source(str(run.path), new).checkpoint == run.checkpoints / "step-6"


def test_the_history_goes_back_through_all_runs(run, tmp_path) -> None:
    second, third = (ModelDir(tmp_path / name) for name in ("second", "third"))
    shutil.copytree(run.path, second.path)
    first_entry = open_source(str(run.path), second).run_card_entry()
    assert (first_entry["step"], first_entry["init"]) == (6, None)
    second.update_run_card({"init": first_entry})
    folder = second.checkpoints / "step-4"
    entry = open_source(str(folder), third).run_card_entry()
    assert (entry["step"], entry["checkpoint"]) == (4, str(folder))
    assert entry["init"] == first_entry
    # Equal files have one digest wherever they are; other weights have another.
    same = open_source(str(run.checkpoints / "step-4"), third).run_card_entry()
    assert entry["sha256"] == same["sha256"] != first_entry["sha256"]


def test_what_is_no_source_is_refused(run, tmp_path) -> None:
    new = ModelDir(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    for path, model_dir, message in (
        (tmp_path / "missing", new, "--init_from must be the model directory of a run"),
        (tmp_path / "empty", new, "with no train.flags there or two folders above"),
        (run.checkpoints / "step-5", new, "is not a checkpoint"),
        (run.path, run, "is in --model_dir itself. Give a new --model_dir"),
        (run.checkpoints / "step-4", run, "is in --model_dir itself"),
    ):
        with pytest.raises(UserError, match=message):
            open_source(str(path), model_dir)
            pytest.fail(f"{path} was taken")
    shutil.rmtree(run.averaged)
    shutil.rmtree(run.checkpoints)
    with pytest.raises(UserError, match="There is no checkpoint 'averaged'"):
        open_source(str(run.path), new)


def test_a_source_that_changed_since_the_start_is_refused(run, tmp_path) -> None:
    new = ModelDir(tmp_path / "new")
    new.path.mkdir()
    entry = open_source(str(run.path), new).run_card_entry()
    new.update_run_card({"init": entry})
    open_source(str(run.path), new)
    shutil.rmtree(run.averaged / "step-6")
    shutil.copytree(run.checkpoints / "step-6", run.averaged / "step-6")
    message = rf"has changed since the run in .*expected {entry['sha256'][:12]}"
    with pytest.raises(UserError, match=message):
        open_source(str(run.path), new)


# --- Vocabularies


def spell(pieces: list[str]) -> str:
    """Joins pieces, with the byte pieces of ASCII characters as characters."""
    return re.sub("<0x(..)>", lambda byte: chr(int(byte[1], base=16)), "".join(pieces))


def test_pieces_are_split_as_the_old_vocabulary_would(
    old_vocabulary, new_vocabulary
) -> None:
    rows = map_rows(old_vocabulary, new_vocabulary)
    old_ids = {p: i for i, p in enumerate(old_vocabulary.pieces(range(288)))}
    pieces = new_vocabulary.pieces(range(new_vocabulary.size))
    shared = [piece for piece in pieces if piece in old_ids]
    assert rows.copied == len(shared) > 260
    assert len(shared) < len(pieces)
    for piece, ids in zip(pieces, rows.rows, strict=True):
        if piece in old_ids:
            assert ids == [old_ids[piece]]
        else:
            # The pieces spell the new one, with a space only where it has one.
            assert spell(old_vocabulary.pieces(ids)) == piece
            if piece.startswith("▁"):
                assert [*ids, EOS_ID] == old_vocabulary.encode(piece[1:])
    # Special ids stay themselves.
    assert [ids for ids in rows.rows[:3]] == [[0], [1], [2]]
    assert old_vocabulary.split_piece("") == [UNK_ID]


def test_a_new_row_is_the_mean_of_old_rows(old_vocabulary, new_vocabulary) -> None:
    rows = map_rows(old_vocabulary, new_vocabulary)
    old = np.random.default_rng(1).normal(size=(288, 4)).astype("float32")
    new = rows(old)
    expected = [
        np.mean([old[i].astype("float64") for i in ids], 0) for ids in rows.rows
    ]
    np.testing.assert_allclose(new, expected, rtol=1e-6)
    assert new.dtype == np.float32
    assert max(map(len, rows.rows)) > 1
    same = map_rows(old_vocabulary, old_vocabulary)
    np.testing.assert_array_equal(same(old), old)


# --- Weights


def test_weights_are_loaded_and_rows_mapped(
    run, tmp_path, old_vocabulary, new_vocabulary
) -> None:
    source = open_source(str(run.checkpoints / "step-4"), ModelDir(tmp_path / "new"))
    parent = values(build(old_vocabulary, seed=4))
    model = build(new_vocabulary, seed=1)
    lines = Initializer(source, model, new_vocabulary).load_weights()
    rows = map_rows(old_vocabulary, new_vocabulary)
    copied, size = rows.copied, new_vocabulary.size
    assert lines == [
        f"initialized from {source.checkpoint}: {len(model.weights)} weights",
        f"vocabulary: {copied} of {size} pieces copied; {size - copied} new ones start "
        f"as the mean of their old pieces; {288 - copied} old ones are dropped",
    ]
    for name, value in values(model).items():
        expected = parent[name]
        if name == "embedding/embeddings":
            expected = rows(expected)
        np.testing.assert_array_equal(value, expected, err_msg=name)


def test_rows_of_every_matrix_over_the_vocabulary_are_mapped(
    tmp_path, old_vocabulary, new_vocabulary
) -> None:
    options = {"tie_output": False, "output_bias": True, "share_embeddings": False}
    model = ModelDir(tmp_path / "old")
    model.path.mkdir()
    old_vocabulary.save(model.vocabulary_file)
    model.update_run_card({"vocabulary": {"sha256": old_vocabulary.sha256}})
    sizes = dataclasses.replace(SIZES, **options)
    model.write_config(dataclasses.replace(CONFIG, model=sizes), "A run.")
    parent = build(old_vocabulary, seed=4, **options)
    rng = np.random.default_rng(2)
    for weight in parent.weights:
        weight.assign(rng.normal(size=weight.shape))
    store = CheckpointStore(model.checkpoints, parent, build_optimizer(parent))
    store.save(CheckpointState(4, position={"epoch": 0, "position": 4}))
    child = build(new_vocabulary, seed=1, **options)
    source = open_source(str(model.path), ModelDir(tmp_path / "new"))
    Initializer(source, child, new_vocabulary).load_weights()
    rows = map_rows(old_vocabulary, new_vocabulary)
    before, mapped = values(parent), []
    for name, value in values(child).items():
        expected = before[name]
        if value.shape != expected.shape:
            mapped.append(name)
            expected = rows(expected)
        np.testing.assert_array_equal(value, expected, err_msg=name)
    assert len(mapped) == 4  # two embeddings, the output projection and its bias


def test_moments_and_their_count_are_loaded_but_not_the_step(
    run, tmp_path, old_vocabulary, new_vocabulary
) -> None:
    source = open_source(str(run.path), ModelDir(tmp_path / "new"))
    stored = StoredCheckpoint(run.checkpoints / "step-6").optimizer_state()
    rows = map_rows(old_vocabulary, new_vocabulary)
    model = build(new_vocabulary, seed=1)
    optimizer = build_optimizer(model)
    line = Initializer(source, model, new_vocabulary).load_moments(optimizer)
    count = len(model.weights)
    assert line.startswith(f"Adam's moments of {count} of {count} weights from")
    for weight, *moments in optimizer.moments():
        for moment in moments:
            expected = stored[moment.path.replace("/", "-")]
            if weight_name(weight) == "embedding/embeddings":
                expected = rows(expected)
            np.testing.assert_array_equal(moment.numpy(), expected)
    # Bias correction continues; the schedule starts.
    assert int(optimizer.applied) == 5
    assert int(optimizer.iterations) == 0
    shutil.rmtree(run.checkpoints)
    source = open_source(str(run.path), ModelDir(tmp_path / "new"))
    with pytest.raises(UserError, match="--init_optimizer needs the moments of Adam"):
        Initializer(source, model, new_vocabulary).load_moments(optimizer)


def test_another_optimizer_has_no_moments_to_load(run, tmp_path) -> None:
    training = dataclasses.replace(CONFIG.training, optimizer="muon")
    run.write_config(dataclasses.replace(CONFIG, training=training), "A run.")
    source = open_source(str(run.path), ModelDir(tmp_path / "new"))
    with pytest.raises(UserError, match=r"its run has --optimizer=muon\. Leave"):
        source.find_moments()


def test_weights_that_do_not_fit_are_named_with_both_shapes(
    run, tmp_path, old_vocabulary
) -> None:
    source = open_source(str(run.path), ModelDir(tmp_path / "new"))
    model = build(old_vocabulary, seed=1, d_ff=7, num_layers=2)
    before = values(model)
    with pytest.raises(UserError) as refused:
        Initializer(source, model, old_vocabulary).load_weights()
    message = str(refused.value)
    assert "encoder/layer_0/feed_forward/inner/kernel: (6, 5) there, (6, 7) here" in (
        message
    )
    assert "encoder/layer_1/attention/query_kernel: None there, (6, 6) here" in message
    assert f"--flagfile={run.flagfile}" in message
    assert "--init_skip=REGEX" in message
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name])
    # A weight that only the source has is one too.
    thin = build(old_vocabulary, seed=1, learned_positions=9)
    with pytest.raises(UserError, match=r"positions/positions: None there, \(9, 6\)"):
        Initializer(source, thin, old_vocabulary).load_weights()


def test_skipped_weights_keep_their_random_values(
    run, tmp_path, old_vocabulary
) -> None:
    source = open_source(str(run.checkpoints / "step-4"), ModelDir(tmp_path / "new"))
    model = build(old_vocabulary, seed=1, d_ff=7)
    before, parent = values(model), values(build(old_vocabulary, seed=4))
    skip = r"feed_forward/(inner|outer)/"
    lines = Initializer(source, model, old_vocabulary, skip).load_weights()
    assert lines == [f"initialized from {source.checkpoint}: 23 weights, 8 skipped"]
    for name, value in values(model).items():
        expected = before if re.search(skip, name) else parent
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    with pytest.raises(UserError, match="--init_skip=/ matches all 31 weights, so th"):
        Initializer(source, model, old_vocabulary, "/").load_weights()
    with pytest.raises(UserError, match="--init_skip=memories matches no weight"):
        build_and_load = build(old_vocabulary, seed=1)
        Initializer(source, build_and_load, old_vocabulary, "memories").load_weights()


def test_the_fit_is_checked_without_computing_weights(
    run, tmp_path, old_vocabulary, monkeypatch
) -> None:
    source = open_source(str(run.path), ModelDir(tmp_path / "new"))
    check_fit(CONFIG, old_vocabulary, source)
    wide = dataclasses.replace(CONFIG, model=dataclasses.replace(SIZES, d_ff=7))
    with pytest.raises(UserError, match=r"inner/kernel: \(6, 5\) there, \(6, 7\)"):
        check_fit(wide, old_vocabulary, source)
    frozen = dataclasses.replace(CONFIG, training=TrainingConfig(freeze="nothing"))
    with pytest.raises(UserError, match="--freeze=nothing matches no weight"):
        check_fit(frozen, old_vocabulary, None)
    symbols = DataConfig(max_length=9, user_symbols=("<bt>",))
    with pytest.raises(UserError, match=r"splits '<bt>' \(--user_symbols\)"):
        check_fit(dataclasses.replace(CONFIG, data=symbols), old_vocabulary, source)
    monkeypatch.setattr(models, "build_model", lambda *_: pytest.fail("was built"))
    check_fit(CONFIG, old_vocabulary, None)


def test_other_settings_of_the_same_shapes_are_warned_of(run, tmp_path) -> None:
    source = open_source(str(run.path), ModelDir(tmp_path / "new"))
    assert other_meanings(CONFIG.model, source) == []
    other = dataclasses.replace(SIZES, num_heads=2, activation="gelu", dropout_rate=0)
    lines = other_meanings(other, source)
    assert lines == [
        f"--num_heads=2, and the weights of {source.checkpoint} were trained with "
        "--num_heads=3",
        f"--activation=gelu, and the weights of {source.checkpoint} were trained with "
        "--activation=relu",
    ]


# --- Freezing


def test_frozen_weights_are_not_trained(old_vocabulary) -> None:
    model = build(old_vocabulary, seed=1)
    frozen = freeze(model, "^encoder/|embeddings")
    assert frozen == [
        weight_name(weight) for weight in model.weights if not weight.trainable
    ]
    assert "embedding/embeddings" in frozen
    assert "encoder/layer_0/feed_forward/inner/bias" in frozen
    assert not any(name.startswith("decoder") for name in frozen)
    assert len(frozen) + len(model.trainable_variables) == len(model.weights)
    assert freeze(model, None) == []
    with pytest.raises(UserError, match=r"--freeze=\. matches all 31 weights"):
        freeze(model, ".")


def test_names_and_shapes_are_listed(run) -> None:
    config = dataclasses.replace(CONFIG, training=TrainingConfig(freeze="embeddings"))
    lines = list_weights(config, str(run.path))
    assert lines[0] == "embedding/embeddings  288 x 6  frozen"
    assert "decoder/layer_0/memory_attention/key_kernel  6 x 6" in lines
    for training, data in (
        (TrainingConfig(init_from=str(run.path)), DataConfig(vocabulary_size=44)),
        (TrainingConfig(), DataConfig(vocabulary_file=str(run.vocabulary_file))),
    ):
        other = dataclasses.replace(config, training=training, data=data)
        assert list_weights(other, None)[0] == "embedding/embeddings  288 x 6"
    small = dataclasses.replace(config, data=DataConfig(vocabulary_size=44))
    assert list_weights(small, None)[0] == "embedding/embeddings  44 x 6  frozen"
    # The names are stable: flags and checkpoints of users rely on them.
    assert [line.split("  ")[0] for line in lines[1:12]] == [
        *(f"encoder/layer_0/attention/{p}_kernel" for p in ("query", "key", "value")),
        "encoder/layer_0/attention/output_kernel",
        "encoder/layer_0/attention_residual/norm/gamma",
        "encoder/layer_0/attention_residual/norm/beta",
        *(
            f"encoder/layer_0/feed_forward/{layer}/{part}"
            for layer in ("inner", "outer")
            for part in ("kernel", "bias")
        ),
        "encoder/layer_0/feed_forward_residual/norm/gamma",
    ]


def test_a_frozen_weight_does_not_change_in_an_update(old_vocabulary) -> None:
    model = build(old_vocabulary, seed=1)
    freeze(model, "encoder/")
    assert all(
        not weight.path.startswith("transformer/encoder")
        for weight in build_optimizer(model)._trainable_variables
    )
    assert isinstance(model, keras.Model)
