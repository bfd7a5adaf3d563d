"""Model cards for people: what a run knows, in Markdown and in the Hub's metadata."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from t2t_keras.runs.export.readable_card import hub_metadata, model_card
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from tests.runs.random_model import as_trained_model, random_model, with_checkpoint

SCORE = {
    "checkpoint": "averaged",
    "bleu": 31.4159,
    "bleu_signature": "BLEU|tok:13a",
    "chrf": 55.5,
    "perplexity": 4.25,
}
CARD = {
    "corpus": {"name": "multi30k/1.0 en-fr", "pairs": 29_000},
    "hardware": {"processor": "AMD EPYC", "gpus": ["NVIDIA H100", "NVIDIA H100"]},
    "training_cost": {"step": 123, "hours": 2.5, "devices": 2, "flops": 3.1e15},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, vocabulary) -> TrainedModel:
    model = as_trained_model(random_model(vocabulary), vocabulary)
    return with_checkpoint(model, tmp_path_factory.mktemp("checkpoint"))


def run_with(path: Path, trained: TrainedModel, **entries: Any) -> ModelDir:
    """Returns the directory of a run with a card that has scores of the checkpoint."""
    score = {**SCORE, "checkpoint": trained.checkpoint_name}
    other = {**SCORE, "checkpoint": "checkpoints/step-7"}
    path.mkdir()
    model_dir = ModelDir(path)
    model_dir.update_run_card({"scores": {"test": score, "old": other}, **entries})
    return model_dir


def read_metadata(text: str) -> dict[str, Any]:
    start, metadata, rest = text.split("---\n")
    assert start == rest == ""
    return yaml.safe_load(metadata)


def test_the_card_of_a_training_run(tmp_path, trained) -> None:
    model_dir = run_with(tmp_path / "run", trained, **CARD)
    text = model_card(trained, model_dir, "cc-by-4.0", "Use it so.")
    for part in (
        "# English to French",
        f"of {trained.model.count_params():,} parameters",
        "step 123, the average of 2 checkpoints",
        "\n\nUse it so.\n\n",
        "## License\n\n`cc-by-4.0`",
        "| test | 31.42 | 55.50 | 4.25 |",
        "sacreBLEU: `BLEU|tok:13a`.",
        "multi30k/1.0 en-fr, 29,000 pairs",
        "123 updates in 2.5 hours on 2 x NVIDIA H100, 3.1e+15 floating-point",
        "python -m t2t_keras.train \\\n    --target_language=fr",
        "| num_heads | 3 |",
    ):
        assert part in text
    assert "old" not in text
    metadata = read_metadata(hub_metadata(trained, model_dir, "cc-by-4.0"))
    index = metadata.pop("model-index")
    assert metadata == {
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["translation", "marian", "t2t_keras"],
        "language": ["en", "fr"],
        "license": "cc-by-4.0",
        "metrics": ["bleu", "chrf"],
    }
    ((result,),) = [each["results"] for each in index]
    assert result["dataset"]["type"] == "multi30k"
    assert {each["type"]: each["value"] for each in result["metrics"]} == {
        "bleu": 31.42,
        "chrf": 55.5,
    }


def test_what_is_not_known_is_left_out(tmp_path, trained) -> None:
    """Scores, license, languages and the cost; and no folder of this machine."""
    data = dataclasses.replace(
        trained.config.data,
        source_language="und",
        target_language="und",
        train_source=("/data/anna/secret/train.en",),
        vocabulary_file="/data/anna/secret/my vocabulary.model",
    )
    config = dataclasses.replace(trained.config, data=data)
    unknown = dataclasses.replace(trained, config=config)
    model_dir = ModelDir(tmp_path)
    text = model_card(unknown, model_dir, None, "")
    assert text.startswith("# Translation model\n") and "Not stated." in text
    assert "It has not been scored." in text and "Cost" not in text
    assert "--train_source=train.en" in text and "secret" not in text
    assert "'--vocabulary_file=my vocabulary.model'" in text
    metadata = read_metadata(hub_metadata(unknown, model_dir, None))
    assert sorted(metadata) == ["library_name", "pipeline_tag", "tags"]


def test_an_imported_model_names_its_source(tmp_path, trained) -> None:
    entry = {"format": "marian", "files": {"model.npz": "0a", "vocab.yml": "1b"}}
    model_dir = run_with(tmp_path / "run", trained, **{"import": entry})
    text = model_card(trained, model_dir, None, "")
    assert "imported from `marian`, files `model.npz`, `vocab.yml`" in text
    assert "t2t_keras.train" not in text


def test_short_trainings_have_minutes(tmp_path, trained) -> None:
    cost = {"step": 50, "hours": 0.061, "devices": 1, "flops": None}
    card = {"hardware": {"processor": "AMD EPYC", "gpus": []}, "training_cost": cost}
    text = model_card(trained, run_with(tmp_path / "run", trained, **card), None, "")
    assert "Cost: 50 updates in 3.7 minutes on 1 x AMD EPYC." in text
