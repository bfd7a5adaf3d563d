"""Model card for people: the README of models that are published.

On the Hugging Face Hub it begins with metadata, by which models are found. Source:
https://huggingface.co/docs/hub/model-cards, huggingface_hub/repocard_data.py.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras import __version__
from t2t_keras.runs.export.export_card import describe_run
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.serving.export.model_card import score_table, table
from t2t_keras.settings.config import ExperimentConfig, all_settings, flatten
from t2t_keras.settings.flags import flag_lines
from t2t_keras.text.languages import base_language, language_name

UNDETERMINED = "und"
"""Code of a language that is not known."""
# Metrics of the Hub, and their names in our scores.
_METRICS = (("bleu", "BLEU"), ("chrf", "chrF"))


def model_card(
    trained: TrainedModel, model_dir: ModelDir, license_name: str | None, usage: str
) -> str:
    """Returns the card as Markdown.

    Args:
        trained: The model.
        model_dir: Directory of its run, with the card of the training.
        license_name: License; None if it is not known.
        usage: What the format is and how to use it, a paragraph.
    """
    run, card = describe_run(trained, model_dir), model_dir.run_card()
    codes = run["languages"]
    source, target = (language_name(codes[side]) for side in ("source", "target"))
    has_names = UNDETERMINED not in codes.values()
    pair = f" from {source} to {target}" if has_names else ""
    checkpoint, model = run["source"], run["model"]
    averaged = len(checkpoint["averaged"])
    paragraphs = [
        f"# {source} to {target}" if has_names else "# Translation model",
        f"A Transformer of {model['parameters']:,} parameters that translates text"
        f"{pair}, exported by t2t_keras {__version__}, a toolkit for the model of "
        f'"Attention Is All You Need". Checkpoint {checkpoint["checkpoint"]}, step '
        f"{checkpoint['step']:,}"
        + (f", the average of {averaged} checkpoints." if averaged else "."),
        usage,
        "## License",
        f"`{license_name}`"
        if license_name
        else "Not stated. Ask who trained the model, and look at the licenses of the "
        "data that it was trained on.",
        "## Intended use",
        f"Translation of text{pair}, a sentence at a time, of the kind that it was "
        "trained on. Like every such model it sometimes leaves words out, adds some or "
        "mistranslates them, with no sign of doubt, and more often with other kinds of "
        "text, names, numbers, and sentences longer than those of the training. It "
        "repeats what its training data is biased to. Let people check what matters.",
        "## Scores",
        score_table(run["scores"]),
        *_signatures(run["scores"]),
        "## Training",
        *_training(trained.config, card),
        "## Model",
        table("Size or setting", ["value"], [[k, v] for k, v in model.items()]),
    ]
    return "\n\n".join(paragraphs) + "\n"


def hub_metadata(
    trained: TrainedModel, model_dir: ModelDir, license_name: str | None
) -> str:
    """Returns the metadata with which a card of the Hub begins, in YAML."""
    run = describe_run(trained, model_dir)
    codes = [base_language(code) for code in run["languages"].values()]
    metadata: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["translation", "marian", "t2t_keras"],
    }
    if UNDETERMINED not in codes:
        metadata["language"] = list(dict.fromkeys(codes))
    if license_name:
        metadata["license"] = license_name
    if run["scores"]:
        metadata["metrics"] = [metric for metric, _ in _METRICS]
        metadata["model-index"] = [
            {
                "name": "-".join(codes),
                "results": [
                    _result(name, score, run["corpus"])
                    for name, score in run["scores"].items()
                ],
            }
        ]
    # A value of JSON is one of YAML.
    lines = (
        f"{name}: {json.dumps(each, ensure_ascii=False)}"
        for name, each in metadata.items()
    )
    return "\n".join(["---", *lines, "---", ""])


def _result(name: str, score: Mapping[str, Any], corpus: str | None) -> dict[str, Any]:
    dataset = f"{corpus or 'unnamed corpus'}, {name}"
    return {
        "task": {"type": "translation", "name": "Translation"},
        "dataset": {"type": (corpus or "unknown").split("/")[0], "name": dataset},
        "metrics": [
            {"type": metric, "name": title, "value": round(score[metric], 2)}
            for metric, title in _METRICS
            if metric in score
        ],
    }


def _signatures(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns sacreBLEU's signatures, each once, as a paragraph."""
    names = (f"{metric}_signature" for metric, _ in _METRICS)
    found = [
        score[name] for name in names for score in scores.values() if name in score
    ]
    unique = [f"`{signature}`" for signature in dict.fromkeys(found)]
    return [f"Computed by sacreBLEU: {', '.join(unique)}."] if unique else []


def _training(config: ExperimentConfig, card: Mapping[str, Any]) -> list[str]:
    if imported := card.get("import"):
        files = ", ".join(f"`{name}`" for name in imported.get("files", ()))
        return [
            f"Another toolkit trained it: it was imported from `{imported['format']}`"
            f"{f', files {files}' if files else ''}. Its training is not known here."
        ]
    corpus, cost = card.get("corpus", {}), card.get("training_cost")
    paragraphs = []
    if corpus.get("pairs"):
        paragraphs.append(
            f"Training data: {corpus.get('name') or 'files'}, {corpus['pairs']:,} "
            "pairs of sentences."
        )
    if cost:
        paragraphs.append(_cost(cost, card.get("hardware", {})))
    command = ["python -m t2t_keras.train", *_flags(config)]
    return [
        *paragraphs,
        "Command, with all settings that are not the default:",
        "```\n" + " \\\n    ".join(command) + "\n```",
    ]


def _cost(cost: Mapping[str, Any], hardware: Mapping[str, Any]) -> str:
    """Returns a sentence about time, devices and operations."""
    devices = hardware.get("gpus") or [hardware.get("processor") or "a processor"]
    kinds = ", ".join(dict.fromkeys(map(str, devices)))
    time = f"{cost['hours']:.3g} hours"
    if cost["hours"] < 1:
        time = f"{60 * cost['hours']:.2g} minutes"
    updates = f"Cost: {cost['step']:,} updates in {time} on {cost['devices']} x {kinds}"
    if not cost.get("flops"):
        return f"{updates}."
    return (
        f"{updates}, {cost['flops']:.2g} floating-point operations in matrix products."
    )


def _flags(config: ExperimentConfig) -> list[str]:
    """Returns the flags that are not the default; of files, the name alone."""
    values, defaults = flatten(config), flatten(ExperimentConfig())
    flags: list[str] = []
    for name, each in all_settings().items():
        value = values[name]
        if value == defaults[name]:
            continue
        lines = flag_lines(name, _without_folders(value) if each.path else value)
        # A comment stands for one that is not set.
        flags += [shlex.quote(line) for line in lines if line.startswith("--")]
    return flags


def _without_folders(value: str | Sequence[str]) -> Any:
    if isinstance(value, str):
        return Path(value).name
    return tuple(Path(each).name for each in value)
