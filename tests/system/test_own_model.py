"""A model of the user's own class: trained, killed, resumed, exported and served."""

import json
import shutil
import signal

import pytest

from benchmarks.server_process import started_server
from examples.rms_norm_model import GatedTransformer
from t2t_keras import Run, Transformer, TranslationClient, UserError
from t2t_keras.runs import models
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from tests.runs.small_runs import assert_same_end, small_run, write_corpus

NAME = "examples.rms_norm_model:GatedTransformer"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_is_trained_killed_resumed_exported_and_served(tmp_path):
    write_corpus(tmp_path)
    flags = (f"--model={NAME}", "--normalization=pre", "--tokenize=char")
    straight = small_run(tmp_path, tmp_path / "straight", flags)
    straight.finish()
    killed = small_run(tmp_path, tmp_path / "killed", flags)
    assert killed.stop_at(15, signal.SIGKILL) == -signal.SIGKILL
    killed.finish()
    assert_same_end(straight, killed)
    # Another process ends the run, finding the class by the settings alone.
    run = Run(killed.model_dir)
    finished = run.train()
    assert type(run.trained().model) is GatedTransformer
    card = json.loads((killed.model_dir / "run_card.json").read_text())
    assert card["model"]["class"] == NAME
    assert len(card["model"]["sha256"]) == 64
    lines = ["ba deno", "filt gor kust"]
    expected = [each.text for each in run.translate(lines)]
    assert finished.exports
    flag = "--noenable_model_warmup"
    with started_server(run.model_dir.export, flag) as server:
        with TranslationClient(server.address) as client:
            assert [each.text for each in client.translate(lines)] == expected
    for other in ("ctranslate2", "argos", "transformers", "marian"):
        with pytest.raises(UserError, match=f"this model is a {NAME}. Export it as a"):
            run.export(other)
    # The class may also be given; a file that has changed since is told of.
    card["model"]["sha256"] = "0" * 64
    (killed.model_dir / "run_card.json").write_text(json.dumps(card))
    warnings = []
    again = Run(killed.model_dir, model=GatedTransformer, log=warnings.append)
    assert [each.text for each in again.translate(lines)] == expected
    assert f"warning: the file of --model={NAME} has changed" in warnings[0]


def test_a_run_of_another_class_is_refused(short_run, tmp_path):
    path = short_run.model_dir.path
    run = Run(path, model=GatedTransformer)
    with pytest.raises(
        UserError, match=f"was trained with Transformer. .*: model={NAME}"
    ):
        run.trained()
    with pytest.raises(UserError, match=f"--model: None in the model_dir, {NAME} now"):
        run.train()
    settings = ExperimentConfig(model=ModelConfig(model="a.b:C"))
    with pytest.raises(UserError, match=f"has model={NAME}, and the settings have"):
        Run(tmp_path / "new", model=GatedTransformer).train(settings)
    moved = tmp_path / "moved"
    shutil.copytree(path, moved)
    with (moved / "train.flags").open("a") as file:
        file.write("--model=gone.module:Model\n")
    with pytest.raises(UserError, match=r"--model=gone\.module:Model cannot"):
        Run(moved).trained()
    assert Run(moved.parent / "none", model=Transformer).path == moved.parent / "none"


def test_the_run_card_has_the_digest_of_its_file(tmp_path, monkeypatch):
    assert models.describe_class(ModelConfig()) is None
    card = models.describe_class(ModelConfig(model=NAME))
    assert card is not None
    assert card["class"] == NAME
    text = "from t2t_keras import Transformer\nclass Model(Transformer): pass\n"
    (tmp_path / "my_own_model.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    config = ModelConfig(model="my_own_model:Model")
    mine = models.describe_class(config)
    assert mine != card
    (tmp_path / "my_own_model.py").write_text(f"{text}# changed")
    assert models.describe_class(config) != mine
